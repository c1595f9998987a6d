"""What talks to a manager: light to import, standard library only. Imports `errors` and `job_state`."""

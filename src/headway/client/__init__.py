"""The client of a manager: quick to import, standard library only. Imports `errors` and `job_state`."""

"""Terminal output of the commands: tables, job details, progress bars. Imports the data that it prints, but no commands."""

"""What commands print for people: tables, the details of one job, progress bars. Imports what it prints, but no commands."""

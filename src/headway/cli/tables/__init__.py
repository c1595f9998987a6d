"""What commands print for people: tables, the details of one job, progress bars."""

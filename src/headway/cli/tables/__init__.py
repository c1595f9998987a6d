"""What commands print for people: tables, and jobs in words."""

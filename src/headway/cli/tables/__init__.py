"""What commands print for people: tables, and the details of one job."""

"""Pages and plots made from plain data. Imports `errors` and `io`, and knows no simulator."""

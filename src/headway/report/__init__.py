"""Pages and plots made from plain data. Imports `collectives`, `network`, `io` and `errors`, and knows no simulator."""

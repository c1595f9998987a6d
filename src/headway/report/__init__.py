"""Pages and plots, drawn from plain data. Imports `errors` and `io`; knows no simulator."""

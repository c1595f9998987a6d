"""Networks of several dimensions, as people write them. Imports `io` and `errors`."""

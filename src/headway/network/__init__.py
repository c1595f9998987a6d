"""The network: fabrics, slices, shared links and certificates, one room each. Imports `cluster` and below."""

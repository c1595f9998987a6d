"""The network between the nodes: fabrics, slices, shared links and certificates, one room each. Imports `cluster` and below."""

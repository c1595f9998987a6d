"""The network between the nodes: fabrics, slices, shared links and certificates, one package each. Imports `cluster` and below."""

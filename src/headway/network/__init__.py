"""The fabric: links, routing, sharing, slices and certificates."""

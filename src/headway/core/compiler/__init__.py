"""How kernels are compiled, linked and kept on disk, and what is said when compiled code fails. Imports `errors` only."""

"""How kernels are compiled and cached, and what is said when compiled code fails. Imports `errors` only."""

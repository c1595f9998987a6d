"""The stages of a decision, one file each; core/decide.py calls them in order. Imports `core.tables` and the other files of `core`."""

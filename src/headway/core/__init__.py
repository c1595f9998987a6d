"""The pure engine: facts in, actions out."""

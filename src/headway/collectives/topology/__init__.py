"""Networks of several dimensions: model, presets, text and YAML forms. Imports `io` and `errors`."""

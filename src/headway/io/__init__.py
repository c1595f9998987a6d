"""Reading and writing files, and parsing user input: units, numbers, `NAME?option=value`, declared options, YAML, JSON, `module:NAME`.

Imports `errors`.
"""

"""What people write and what is written for them: units, names with options, declared options, YAML files, files, code named `module:NAME`.

Imports `errors`.
"""

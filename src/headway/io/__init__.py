"""What people write and what is written for them: units, names with options, YAML files, files replaced whole. Imports `errors`."""

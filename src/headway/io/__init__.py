"""What people write and what is written for them: units, names with options, YAML files, files that are replaced whole. Imports `errors`."""

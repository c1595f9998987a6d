"""The command line, one file per group of commands. Heavy imports live inside the commands. Imports everything."""

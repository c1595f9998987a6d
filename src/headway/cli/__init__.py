"""The command line, one file per group of commands. It may import everything; heavy imports live inside the commands."""

"""The command line, one file per group of commands. It may import everything; heavy imports live inside the commands.

Imports under `if TYPE_CHECKING` keep the start of a command quick. None hides a cycle: import-linter counts them.
"""

"""`headway collective` and its subcommands. Imports `collectives`, `report` and the tables of the command line."""

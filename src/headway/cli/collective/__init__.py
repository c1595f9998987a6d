"""`headway collective` and its subcommands."""

"""Commands about many jobs at once and about the manager itself: choosing jobs, `history`, `health`, `shell`.

Imports `client`, `cli.manager_options` and `cli.tables`.
"""

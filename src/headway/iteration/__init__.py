"""How long an iteration takes: computation, and the communication that does not hide behind it. Imports `collectives` and below."""

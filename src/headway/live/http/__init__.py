"""The manager over HTTP: routes, tokens, and what every request passes first. Imports `live` and `client`."""

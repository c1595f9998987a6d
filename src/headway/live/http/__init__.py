"""The manager over HTTP: routes, tokens, and checks of every request. Imports `live` and `client`."""

"""The server in front of the API: connections, sessions of browsers, limits per caller, and its own health. Imports `live/manager`."""

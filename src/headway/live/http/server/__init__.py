"""The server in front of the API: its connections, how much of it one caller may take, and whether it is well. Imports `live/manager`."""

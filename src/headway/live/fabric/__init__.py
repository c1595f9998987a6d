"""The fabric that a manager serves: slices that jobs have alone, their certificates, routes and plans. Imports `collectives` and below."""

"""Storage on disk: the journal, submissions, and recovery from them. Imports `live` beside it, but not `http`."""

"""What is on disk: the journal, submissions, and how a manager recovers from them. Imports `live` beside it, but not `http`."""

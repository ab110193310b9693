"""The store in one SQLite file: a writer, reads with connections of their own, retention, the file itself."""

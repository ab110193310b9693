"""What changed between two runs, as a command and as a page."""

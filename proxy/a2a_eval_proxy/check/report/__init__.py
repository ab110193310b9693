"""The report of a check as text, JSON and JUnit XML, with credentials masked."""

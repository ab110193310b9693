"""When two tool calls are the same, and how made calls pair with expected ones.

A *placeholder* stands for many values. A *matcher* compares arguments, the *match table* all calls with all expected
ones, *pairing* picks the pairs. A *call diff* says what changed between two sequences.

Imported by metrics, judged, suite, runs, report and importers. Imports `options`.
"""

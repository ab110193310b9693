"""Compares tool calls, and pairs actual calls with expected ones.

A *placeholder* stands for many values. A *matcher* compares arguments, the *match table* all calls with all expected
ones, *pairing* picks the pairs. A *call diff* lists the changes between two sequences.

Imported by metrics, judged, suite, runs, report and importers. Imports `options`.
"""

"""Compares tool calls, and pairs actual calls with expected ones.

A *placeholder* stands for many values. A *matcher* compares arguments. *exact* proves that all calls are as expected,
in their places; else the *match table* compares all calls with all expected ones, and *pairing* picks the pairs. A
*call diff* lists the changes between two sequences.
"""

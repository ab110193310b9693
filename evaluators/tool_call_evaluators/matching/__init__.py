"""Compares tool calls, and pairs actual calls with expected ones.

A *placeholder* stands for many values. A *matcher* compares arguments. The *match table* compares all calls with all
expected ones, unless all are proved to be as expected in their places, and *pairing* picks the pairs, which `explain`
puts into words.
"""

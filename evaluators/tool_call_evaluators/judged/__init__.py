"""Evaluators that ask a language model, and the conversion of cases to questions.

`base` has the classes to derive from. `tool_wording` grades the names and descriptions of tools; `unique_errors` groups
failures. A *transcript* is a turn written for a judge.
"""

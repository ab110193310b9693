"""Evaluators that compute: one module each, named as suites name the evaluator.

`tool_call_criteria` has order, count and output; `text_match` has exact_match and contains; `conversation_scores` has
the two of whole conversations. `custom` and `external` run metrics of others. A new evaluator is a new module here
and a line in `registry`.

Imported by the package's face and suite. Imports matching and the modules of the package's root.
"""

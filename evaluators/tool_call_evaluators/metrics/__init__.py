"""Evaluators that compute their score: one module each, with the name of the evaluator in suites.

`tool_call_criteria` has order, count and output; `text_match` has exact_match, contains and json_similarity;
`conversation_scores` has the two for whole conversations. `custom` and `external` run user-defined metrics. A new
evaluator is a new module here or in `judged`, whose class is registered, and a page; without the module, it is gone.
"""

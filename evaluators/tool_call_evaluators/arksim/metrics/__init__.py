"""Custom metrics of arksim: what a file of metrics imports as `arksim.evaluator`, unless arksim itself is installed.

`metric_types` has the classes that such a file derives from and returns, and the content of evaluation.json with
arksim's gates on it; `judge_llm` is its `self.llm`; `metric_evaluator` makes an evaluator of a metric.
"""

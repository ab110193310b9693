"""The public API: the names in `__all__` of these modules. Everything else may change in any release."""

PUBLIC_MODULES = (
    "a2a_tool_capture",
    "a2a_tool_capture.a2e",
    "a2a_tool_capture.connector",
    "tool_call_evaluators",
    "tool_call_evaluators.importers",
    "tool_call_evaluators.judge",
    "tool_call_evaluators.report",
    "tool_call_evaluators.outcomes",
    "a2a_eval_proxy",
    "a2a_eval_proxy.testing",
)

"""Evaluation proxy and sidecar for A2A agents."""


def __getattr__(name: str) -> str:
    """`__version__`, which both distributions share; read when asked for, since the pytest plugin loads nothing."""
    if name == "__version__":
        from a2a_tool_capture import __version__

        return __version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

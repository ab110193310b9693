"""For tests of agents: proxies inside the test process, and assertions on what they captured. Needs no pytest.

Public: `assert_tool_calls`, `EvalProxy`, `ProxyPool`. The pytest plugin imports this room; it imports the
application.
"""

from .assertions import assert_tool_calls
from .proxies import EvalProxy, ProxyPool

__all__ = ["EvalProxy", "ProxyPool", "assert_tool_calls"]

"""Agents that do not speak A2A, each served as an A2A agent in this process, on loopback.

It owns the server, and one instance of the agent for each conversation (`conversations`). It is given a reference to
the agent: a class with `execute` in a Python file (`loading`), or a chat-completions API (`chat_agent`). It hands each
A2A message to the agent, and its answer and tool calls to the client, as an agent with the extension does.
"""

"""Agents that do not speak A2A, each served as an A2A agent in this process, on loopback.

`server` serves an agent and answers A2A messages with it, `conversations` keeps one instance for each conversation. An
agent is a class with `execute`: one of a Python file (`loading`), or `chat_agent` for a chat-completions API, whose
tools a Python file may hold (`tools`).
"""

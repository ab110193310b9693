"""Cases from the messages or spans of a program, without a proxy: `AgentTrace`.

`messages` reads what model APIs and agent libraries write, `spans` what OpenTelemetry has.
"""

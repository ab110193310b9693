"""`--help` of commands with many options: under headings, in an order to be read."""

from __future__ import annotations

from collections.abc import Mapping

import click

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Agent and clients": (
        "upstream", "listen", "public_url", "card_path", "negotiate", "require_artifact_uri",
        "agent", "header", "binding", "streaming", "dialects", "timeout", "concurrency",
    ),
    "Runs and scores": ("suite", "allow_plugins", "run", "resume", "report", "format", "evaluate", "store"),
    "Traces": (
        "otlp", "no_otlp", "otlp_grpc", "otlp_forward", "otlp_forward_headers", "expect_traces", "trace_wait",
        "conversation_attributes",
    ),
    "Admin": ("admin", "admin_token", "allow_hosts", "log_level"),
    "TLS and identity": (
        "tls_cert", "tls_key", "tls_key_password", "tls_client_ca",
        "upstream_ca", "upstream_cert", "upstream_key", "upstream_key_password", "upstream_header",
        "agent_ca", "agent_cert", "agent_key", "agent_key_password",
    ),
    "Privacy": ("redact", "redact_key", "no_content", "retain_days", "retain_mb"),
    "Limits": (
        "turn_timeout", "connect_timeout", "response_timeout", "drain_delay", "shutdown_timeout",
        "client_header_timeout", "client_body_timeout", "client_send_timeout", "max_client_connections",
        "max_connections", "max_body_bytes", "max_header_bytes",
    ),
}  # fmt: skip
"""Headings, and the settings below them in their order."""

_MANY = 12
"""A command with more options than this has headings."""

_EPILOG = (
    "Every option may also stand in the environment (A2A_EVAL_PROXY_ and its name in capitals, with _ for -) or in the "
    "file of --config (its name, with _ for -). Flags win, then the environment."
)


class HelpfulCommand(click.Command):
    """A command whose help has headings where it is long, and says where else options may stand."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; those without a heading come last."""
        records = {
            option_key(option): record
            for option in self.get_params(context)
            if isinstance(option, click.Option) and (record := option.get_help_record(context))
        }
        grouped = len(records) > _MANY
        if grouped:
            for heading, keys in SECTIONS.items():
                if shown := [records.pop(key) for key in keys if key in records]:
                    with formatter.section(heading):
                        formatter.write_dl(shown)
        with formatter.section("Other" if grouped else "Options"):
            formatter.write_dl(list(records.values()))

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write where else options may stand."""
        formatter.write_paragraph()
        formatter.write_text(_EPILOG)


def option_key(option: click.Option) -> str:
    """The name of an option in a file."""
    return max(option.opts, key=len).removeprefix("--").replace("-", "_")

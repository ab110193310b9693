"""Errors that several parts of the proxy raise and the command line explains."""


class ConfigError(ValueError):
    """A setting is wrong: one sentence that names it, its value and what is accepted."""


class ListenError(OSError):
    """An address cannot be listened on; the message says which and why."""

    def __str__(self) -> str:
        return self.strerror or ""

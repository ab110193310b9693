"""Settings: what the operator chooses, by flag, environment variable, config file or keyword.

It owns each *option*, declared once as a field with its kind and its words. It is given what was written: `options`
finds the value of each, flag first, then environment, then file, then default. It hands on settings that fit together
(`Settings` are those of `serve`), and an `Agent` for each agent behind the proxy.
"""

from .settings import Settings

__all__ = ["Settings"]

"""Settings: what the operator chooses, by flag, environment variable, config file or keyword.

An *option* is one choice, declared once as a dataclass field (`option`); `Settings` holds those of `serve`. `options`
finds the value of each: flag, then environment variable, then config file, then default.
"""

from .settings import Settings

__all__ = ["Settings"]

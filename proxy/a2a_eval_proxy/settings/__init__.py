"""Settings: what the operator chooses, by flag, environment variable, config file or keyword.

An *option* is one choice, declared once as a dataclass field (`option`); `Settings` holds those of `serve`. `loading`
finds the value of each: flag, then environment variable, then config file, then default. May import `privacy` and
`protocol`; imports neither click nor anything that runs.
"""

from .settings import Settings

__all__ = ["Settings"]

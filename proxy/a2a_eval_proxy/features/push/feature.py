from __future__ import annotations

from typing import TYPE_CHECKING

from ...feature import Feature
from .settings import PushSettings

if TYPE_CHECKING:
    from ...net.file_watcher import FileWatch
    from ...settings.settings import Settings
    from .listener import PushPort


def webhooks(settings: Settings, files: FileWatch) -> PushPort:
    from .listener import PushPort

    return PushPort(settings, files)


FEATURE = Feature(settings=PushSettings, webhooks=webhooks)

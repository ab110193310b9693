"""The screens, in the order of the navigation."""

from __future__ import annotations

from . import check_page, conversation, turn_list, turn_page
from .runs import case_list, run_pages
from .work import turn_changes, wire_page

SCREENS = (
    turn_list.SCREEN,
    turn_page.SCREEN,
    conversation.SCREEN,
    *run_pages.SCREENS,
    case_list.SCREEN,
    check_page.SCREEN,
    *turn_changes.SCREENS,
    wire_page.SCREEN,
)

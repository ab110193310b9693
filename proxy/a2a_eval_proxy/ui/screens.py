"""The screens, in the order of the navigation."""

from __future__ import annotations

from . import conversation, turn_list, turn_page
from .check import check_page
from .runs import case_list, compare_page, run_list, run_page
from .work import annotate, case_page, wire_page

SCREENS = (
    turn_list.SCREEN,
    turn_page.SCREEN,
    conversation.SCREEN,
    run_list.SCREEN,
    run_page.SCREEN,
    compare_page.SCREEN,
    case_list.SCREEN,
    check_page.SCREEN,
    annotate.SCREEN,
    case_page.SCREEN,
    wire_page.SCREEN,
)

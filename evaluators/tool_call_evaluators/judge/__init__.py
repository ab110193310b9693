"""Asks a language model: questions, answers, the client of an OpenAI-compatible API, the cache.

An evaluator sees `Judge`: one *question* in, one *answer* that fits the question's schema out. A *panel* asks several
times; each answer is a *vote*. What is exported here is public.
"""

from .cache import MemoryJudgeCache
from .function import PreparedJudge
from .openai_chat import ChatJudge
from .question import (
    Answer,
    Judge,
    JudgeAnswerError,
    JudgeError,
    JudgeNotConfiguredError,
    JudgeUnreachableError,
    Prompt,
    Question,
    Usage,
)
from .settings import JudgeSettings

__all__ = [
    "Answer",
    "ChatJudge",
    "Judge",
    "JudgeAnswerError",
    "JudgeError",
    "JudgeNotConfiguredError",
    "JudgeSettings",
    "JudgeUnreachableError",
    "MemoryJudgeCache",
    "PreparedJudge",
    "Prompt",
    "Question",
    "Usage",
]

"""Asks a language model: questions, answers, the client of an OpenAI-compatible API, the cache.

An evaluator sees `Judge`: one *question* in, one *answer* that fits the question's schema out. A *panel* asks several
times; each answer is a *vote*. What is exported here is public.
"""

from .budget import JudgeBudget, spending
from .cache import CachingJudge, JudgeCache, JudgeCacheError, MemoryJudgeCache, SqliteJudgeCache
from .function import FunctionJudge, PreparedJudge
from .openai_chat import ChatJudge
from .question import (
    Answer,
    Judge,
    JudgeAnswerError,
    JudgeBudgetError,
    JudgeError,
    JudgeNotConfiguredError,
    JudgeUnreachableError,
    Prompt,
    Question,
    Usage,
    load_prompt,
    prompt_names,
)
from .settings import JudgeSettings

__all__ = [
    "Answer",
    "CachingJudge",
    "ChatJudge",
    "FunctionJudge",
    "Judge",
    "JudgeAnswerError",
    "JudgeBudget",
    "JudgeBudgetError",
    "JudgeCache",
    "JudgeCacheError",
    "JudgeError",
    "JudgeNotConfiguredError",
    "JudgeSettings",
    "JudgeUnreachableError",
    "MemoryJudgeCache",
    "PreparedJudge",
    "Prompt",
    "Question",
    "SqliteJudgeCache",
    "Usage",
    "load_prompt",
    "prompt_names",
    "spending",
]

"""Asks a language model for a verdict: questions, answers, the client of an OpenAI-compatible API, the cache.

What an evaluator sees of it is `Judge`: one question in, one answer that fits the question's schema out.
"""

from .cache import CachingJudge, JudgeCache, JudgeCacheError, MemoryJudgeCache, SqliteJudgeCache
from .chat import ChatJudge
from .errors import JudgeAnswerError, JudgeError, JudgeNotConfiguredError, JudgeUnreachableError
from .prompt import Prompt, load_prompt, prompt_names
from .question import Answer, Judge, Question
from .settings import JudgeSettings
from .testing import PreparedJudge
from .usage import Usage

__all__ = [
    "Answer",
    "CachingJudge",
    "ChatJudge",
    "Judge",
    "JudgeAnswerError",
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
]

"""Which judge is asked, and how: what a suite's `judge` block and the environment say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from a2a_tool_capture.canonical import canonical

from ..options import IN_FILES, OptionError, check_options, or_known

VOTE_TEMPERATURE = 0.7
DEFAULT_BASE_URL = "https://api.openai.com/v1"
ENVIRONMENT = "A2A_EVAL_PROXY_JUDGE_"
_OWN_FIELDS = frozenset({"model", "messages", "response_format", "stream", "n"})


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    """How a judge is asked. Its key is not among these: it comes from the environment and stays out of files.

    Raises OptionError, naming the option, for a value that cannot be.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = IN_FILES

    base_url: str | None = None
    """Of an OpenAI-compatible API, up to and including `/v1`. None: OpenAI's own."""
    model: str | None = None
    """None: no judge is asked."""
    api_key_env: str | None = None
    """Name of the environment variable with the key, in place of the usual ones."""
    temperature: float | None = 0.0
    """None: not sent, which models without that parameter want. At 0 a question that is asked several times (`votes`)
    is asked at `VOTE_TEMPERATURE` from the second time on: the same request would be answered the same."""
    response_format: Literal["json_schema", "json_object", "text"] = "json_schema"
    """How JSON is asked for. The schema stands in the prompt in any case."""
    timeout: float = 60.0
    """Seconds that one request may take."""
    retries: int = 4
    """So often a request is repeated after a transient failure."""
    concurrency: int = 4
    """So many questions at a time."""
    votes: int = 1
    """So often each question is asked; an evaluator's own option `votes` comes first."""
    prices: Mapping[str, float] | None = None
    """`{input, output}`: what a million tokens cost, in any currency."""
    cache: bool = True
    """Whether answers are kept and used again, where there is a place to keep them."""
    extra_body: Mapping[str, Any] | None = None
    """Further members of the request, such as `{seed: 7}` or `{max_tokens: 500}`."""

    def __post_init__(self) -> None:
        check_options(self, "judge")
        if self.base_url is not None:
            _check_url(self.base_url)
        for option, least in (("timeout", 0.001), ("retries", 0), ("concurrency", 1), ("votes", 1)):
            if not least <= getattr(self, option) < 1e6:
                raise OptionError(f"judge: option {option} must be at least {least:g}", option)
        if self.prices is not None and (
            set(self.prices) != {"input", "output"} or any(price < 0 for price in self.prices.values())
        ):
            raise OptionError("judge: option prices must be {input, output}, per million tokens", "prices")
        if self.extra_body and (taken := _OWN_FIELDS & self.extra_body.keys()):
            raise OptionError(f"judge: option extra_body must not hold {min(taken)}", "extra_body")

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> JudgeSettings:
        """From a `judge` block. Raises OptionError for an unknown option, or a key written into it."""
        known = [item.name for item in fields(cls)]
        for option in options:
            if option == "api_key":
                raise OptionError(
                    f"judge: the key does not belong into a file; set {ENVIRONMENT}API_KEY, or name a variable "
                    "with the option api_key_env",
                    option,
                )
            if option not in known:
                raise OptionError(f"judge: unknown option {option!r}{or_known(option, known)}", option)
        return cls(**options)

    def with_environment(self, environ: Mapping[str, str]) -> JudgeSettings:
        """These settings under an environment: `A2A_EVAL_PROXY_JUDGE_BASE_URL` and `..._MODEL` come before what a
        file says, as everywhere in this project; `OPENAI_BASE_URL` only fills in a URL that is not given.

        Raises OptionError, naming the variable, for a URL that is none.
        """
        try:
            return replace(
                self,
                base_url=environ.get(f"{ENVIRONMENT}BASE_URL") or self.base_url or environ.get("OPENAI_BASE_URL"),
                model=environ.get(f"{ENVIRONMENT}MODEL") or self.model,
            )
        except OptionError as error:
            raise OptionError(f"{error} (from the environment)", error.option) from None

    def overridden(self, options: Mapping[str, Any]) -> JudgeSettings:
        """These settings with `options` in their place, as an evaluator's own `judge` option gives them."""
        given = asdict(JudgeSettings.from_mapping(options))
        return replace(self, **{option: given[option] for option in options})

    def api_key(self, environ: Mapping[str, str]) -> str | None:
        """The key of the judge, or None: local servers often want none."""
        if self.api_key_env:
            return environ.get(self.api_key_env) or None
        return environ.get(f"{ENVIRONMENT}API_KEY") or environ.get("OPENAI_API_KEY") or None

    @property
    def url(self) -> str:
        """The base URL in force, without a slash at its end."""
        return (self.base_url or DEFAULT_BASE_URL).rstrip("/")

    @property
    def identity(self) -> str:
        """All on which answers depend, as one text."""
        return canonical([self.url, self.model, self.temperature, self.response_format, self.extra_body or {}])

    def cost(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """What these tokens cost; None without prices or counts."""
        if self.prices is None or prompt_tokens is None or completion_tokens is None:
            return None
        return (prompt_tokens * self.prices["input"] + completion_tokens * self.prices["output"]) / 1_000_000


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        # a URL is told in errors and kept in caches: user names, passwords and keys must not be in it
        raise OptionError(
            "judge: option base_url must be a URL such as https://host/v1, without user, query or fragment", "base_url"
        )

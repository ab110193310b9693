"""The settings of a judge, from a suite's `judge` block and the environment."""

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
    """The settings of a judge, without its key, which comes from the environment and never from a file.

    Raises OptionError, naming the option, for an invalid value.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = IN_FILES

    base_url: str | None = None
    """Of an OpenAI-compatible API, up to and including `/v1`. None: OpenAI's own."""
    model: str | None = None
    """None: no judge."""
    api_key_env: str | None = None
    """Name of the environment variable with the key, instead of the default ones."""
    temperature: float | None = 0.0
    """None: not sent, for models without this parameter. At 0, repeated questions (`votes`) use `VOTE_TEMPERATURE` from
    the second on, as an equal request would get an equal answer."""
    response_format: Literal["json_schema", "json_object", "text"] = "json_schema"
    """How JSON is requested. The prompt always contains the schema."""
    timeout: float = 60.0
    """Timeout of one request, in seconds."""
    retries: int = 4
    """Maximum number of retries after transient failures."""
    concurrency: int = 4
    """Maximum number of concurrent questions."""
    votes: int = 1
    """Number of times each question is asked; an evaluator's option `votes` overrides it."""
    prices: Mapping[str, float] | None = None
    """`{input, output}`: the price of a million tokens, in any currency."""
    cache: bool = True
    """Whether answers are cached, if a cache is available."""
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
        """From a `judge` block. Raises OptionError for an unknown option or an API key in the file."""
        known = [item.name for item in fields(cls)]
        for option in options:
            if option == "api_key":
                raise OptionError(
                    f"judge: do not write the API key into a file; set {ENVIRONMENT}API_KEY, or name a variable "
                    "with the option api_key_env",
                    option,
                )
            if option not in known:
                raise OptionError(f"judge: unknown option {option!r}{or_known(option, known)}", option)
        return cls(**options)

    def with_environment(self, environ: Mapping[str, str]) -> JudgeSettings:
        """These settings with those of an environment: `A2A_EVAL_PROXY_JUDGE_BASE_URL` and `..._MODEL` override a file,
        as everywhere in this project; `OPENAI_BASE_URL` applies only if no URL is given.

        Raises OptionError, naming the variable, for an invalid URL.
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
        """These settings overridden by `options`, as in an evaluator's `judge` option."""
        given = asdict(JudgeSettings.from_mapping(options))
        return replace(self, **{option: given[option] for option in options})

    def api_key(self, environ: Mapping[str, str]) -> str | None:
        """The API key, or None: local servers often need no key."""
        if self.api_key_env:
            return environ.get(self.api_key_env) or None
        return environ.get(f"{ENVIRONMENT}API_KEY") or environ.get("OPENAI_API_KEY") or None

    @property
    def url(self) -> str:
        """The effective base URL, without a trailing slash."""
        return (self.base_url or DEFAULT_BASE_URL).rstrip("/")

    @property
    def identity(self) -> str:
        """Everything on which answers depend, as one string."""
        return canonical([self.url, self.model, self.temperature, self.response_format, self.extra_body or {}])

    def cost(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """The cost of these tokens; None without prices or counts."""
        if self.prices is None or prompt_tokens is None or completion_tokens is None:
            return None
        return (prompt_tokens * self.prices["input"] + completion_tokens * self.prices["output"]) / 1_000_000


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        # errors and caches contain the URL: it must not contain user names, passwords or keys
        raise OptionError(
            "judge: option base_url must be a URL such as https://host/v1, without user, query or fragment", "base_url"
        )

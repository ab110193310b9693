"""The settings of a judge, from a suite's `judge` block and the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qsl, urlsplit

from a2a_tool_capture.canonical import canonical

from ..options import IN_FILES, OptionError, check_options, or_known

VOTE_TEMPERATURE = 0.7
DEFAULT_BASE_URL = "https://api.openai.com/v1"
ENVIRONMENT = "A2A_EVAL_PROXY_JUDGE_"
_OWN_FIELDS = frozenset({"model", "messages", "response_format", "stream", "n"})
_CHAT = "/chat/completions"
_KEYED_HOSTS = ("api.openai.com", ".openai.azure.com", "api.anthropic.com", "generativelanguage.googleapis.com")
"""Hosts, or their ends, that answer no request without a key."""
_SECRET = re.compile(r"key|token|secret|auth|cookie|passw|sig$|^code$", re.IGNORECASE)
"""Names of headers and query parameters that hold a secret."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    """The settings of a judge, without its key, which comes from the environment and never from a file.

    Raises OptionError, naming the option, for an invalid value.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = IN_FILES

    base_url: str | None = None
    """Of an OpenAI-compatible API, up to and including `/v1`, or with a query such as Azure's `?api-version=...`. None:
    OpenAI's own."""
    model: str | None = None
    """None: no judge."""
    api_key_env: str | None = None
    """Name of the environment variable with the key, instead of the default ones."""
    api_key_header: str | None = None
    """Name of the header with the key, such as Azure's `api-key`. None: `Authorization: Bearer KEY`."""
    headers: Mapping[str, str] | None = None
    """Further headers of requests. `${VARIABLE}` stands for an environment variable."""
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
        for header, value in (self.headers or {}).items():
            if _SECRET.search(header) and not _VARIABLE.search(value):
                raise OptionError(
                    f"judge: do not write the secret header {header} into a file; give it as ${{VARIABLE}}", "headers"
                )
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
        default = environ.get("OPENAI_BASE_URL") or None
        try:
            return replace(
                self,
                base_url=environ.get(f"{ENVIRONMENT}BASE_URL") or self.base_url or default,
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

    def missing(self, environ: Mapping[str, str]) -> str:
        """What must be configured before a model can be asked; empty if nothing is known to be missing.

        `environ` is the environment that `with_environment` read.
        """
        if self.model is None:
            return f"no model is configured; give the suite a `judge` block with a model, or set {ENVIRONMENT}MODEL"
        for name in (*([self.api_key_env] if self.api_key_env else ()), *_variables(self)):
            if not environ.get(name):
                return f"the environment variable {name}, which the judge's settings name, is not set"
        host = urlsplit(self.url).hostname or ""
        keyed = self.api_key(environ) or any(map(_SECRET.search, self.headers or ()))
        if keyed or not host.endswith(_KEYED_HOSTS):
            return ""
        return (
            f"{host} needs a key; set {ENVIRONMENT}API_KEY{' or OPENAI_API_KEY' if host == 'api.openai.com' else ''}, "
            "or name its variable with the judge's option api_key_env"
        )

    @property
    def url(self) -> str:
        """The effective base URL, without a query or trailing slash."""
        return (self.base_url or DEFAULT_BASE_URL).partition("?")[0].rstrip("/").removesuffix(_CHAT)

    @property
    def identity(self) -> str:
        """Everything on which answers depend, as one string."""
        content: list[Any] = [self.url, self.model, self.temperature, self.response_format, self.extra_body or {}]
        if self.headers or "?" in (self.base_url or ""):
            content += [self.base_url, dict(self.headers or {})]
        return canonical(content)


def _variables(settings: JudgeSettings) -> list[str]:
    """The environment variables that headers name."""
    return [name for value in (settings.headers or {}).values() for name in _VARIABLE.findall(value)]


def sent_headers(settings: JudgeSettings, api_key: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request. Variables that are not set are empty."""
    key = {} if not api_key else {"Authorization": f"Bearer {api_key}"}
    if settings.api_key_header and api_key:
        key = {settings.api_key_header: api_key}
    for name, value in (settings.headers or {}).items():
        key[name] = _VARIABLE.sub(lambda found: environ.get(found[1], ""), value)
    return key


def secrets(settings: JudgeSettings, api_key: str | None, environ: Mapping[str, str]) -> list[str]:
    """Values that messages must not contain."""
    return [secret for secret in (api_key, *map(environ.get, _variables(settings))) if secret]


def endpoint(settings: JudgeSettings) -> str:
    """The URL for requests."""
    query = (settings.base_url or "").partition("?")[2]
    return f"{settings.url}{_CHAT}" + (f"?{query}" if query else "")


def cost(settings: JudgeSettings, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
    """The cost of these tokens; None without prices or counts."""
    if settings.prices is None or prompt_tokens is None or completion_tokens is None:
        return None
    return (prompt_tokens * settings.prices["input"] + completion_tokens * settings.prices["output"]) / 1_000_000


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment or parts.username:
        # errors and caches contain the URL: it must not contain user names, passwords or keys
        raise OptionError(
            "judge: option base_url must be a URL such as https://host/v1, without user or fragment", "base_url"
        )
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if _SECRET.search(name):
            raise OptionError(
                f"judge: option base_url must not hold a key (the query parameter {name}); "
                "set it as an API key, which the option api_key_header puts into a header",
                "base_url",
            )

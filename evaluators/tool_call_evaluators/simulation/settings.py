"""The model of simulated users, from a suite's `simulated_user` block and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar

from ..judge.settings import DEFAULT_BASE_URL, JudgeSettings
from ..judge.settings import ENVIRONMENT as JUDGE_ENVIRONMENT
from ..options import IN_FILES, OptionError, check_options, or_known
from ..suite_fields import Value, checked_object
from .user import user_prompt

ENVIRONMENT = "A2A_EVAL_PROXY_SIMULATED_USER_"
TEMPERATURE = 0.7
_NOT_FOR_USERS = frozenset({"votes", "response_format", "cache"})
MODEL_OPTIONS = tuple(item.name for item in fields(JudgeSettings) if item.name not in _NOT_FOR_USERS)
"""Options with the names and meaning of a judge's."""


@dataclass(frozen=True, kw_only=True)
class SimulatedUserSettings:
    """The model, and the prompt that it gets. Raises OptionError, naming the option, for an invalid value."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = IN_FILES

    prompt: str | None = None
    """The instructions, with `{{goal}}`, `{{profile}}`, `{{knowledge}}`, `{{context}}`, `{{stop}}` and `{{give_up}}`.
    Default: the prompt `simulated_user`."""
    seed: int | None = None
    """Sent with each request; the second conversation of a case gets the next number, and so on."""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    """The given options of the model, as in a `judge` block."""

    def __post_init__(self) -> None:
        check_options(self, "simulated_user")
        user_prompt(self.prompt)
        try:
            JudgeSettings.from_mapping(self.model_options)
        except OptionError as error:
            raise OptionError(str(error).replace("judge:", "simulated_user:", 1), error.option) from None

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> SimulatedUserSettings:
        """From a `simulated_user` block. Raises OptionError, as JudgeSettings does."""
        known = ("prompt", "seed", *MODEL_OPTIONS)
        for option in options:
            if option not in known and option != "api_key":  # which JudgeSettings refuses with a reason
                raise OptionError(f"simulated_user: unknown option {option!r}{or_known(option, known)}", option)
        own = {option: value for option, value in options.items() if option in ("prompt", "seed")}
        return cls(**own, model_options={option: value for option, value in options.items() if option not in own})

    def to_mapping(self) -> dict[str, Any]:
        """The given options; inverse of `from_mapping`."""
        own = {"prompt": self.prompt, "seed": self.seed}
        return dict(self.model_options) | {option: value for option, value in own.items() if value is not None}

    def model_settings(self, judge: JudgeSettings, environ: Mapping[str, str]) -> JudgeSettings:
        """The settings of the model; their `model` is None if none is configured.

        The environment overrides a file. What is not given is that of the `judge`, but a server of its own gets nothing
        of the judge's, and a model of its own not its `extra_body` and temperature.
        """
        own = self._given(environ)
        base = judge.with_environment(environ) if self._at_judge(judge, environ) else JudgeSettings()
        same_model = own.get("model", base.model) == base.model
        if not same_model:
            base = replace(base, extra_body=None)
        if environ.get(f"{ENVIRONMENT}API_KEY"):
            own["api_key_env"] = None
        temperature = None if same_model and base.temperature is None and base.model else TEMPERATURE
        plain = {"temperature": temperature, "response_format": "text", "votes": 1, "cache": False}
        return replace(base, **(plain | own))

    def model_environment(self, judge: JudgeSettings, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment in which the model's settings find its key: the judge's key is for the judge's server only,
        and OPENAI_API_KEY for OpenAI's."""
        if own := environ.get(f"{ENVIRONMENT}API_KEY"):
            return {**environ, _JUDGE_KEY: own}
        if self._at_judge(judge, environ):
            return dict(environ)
        openai = self.model_settings(judge, environ).url == DEFAULT_BASE_URL
        hidden = (_JUDGE_KEY,) if openai else (_JUDGE_KEY, "OPENAI_API_KEY")
        return {name: value for name, value in environ.items() if name not in hidden}

    def _given(self, environ: Mapping[str, str]) -> dict[str, Any]:
        found = {option: environ.get(f"{ENVIRONMENT}{option.upper()}") for option in ("model", "base_url")}
        return dict(self.model_options) | {option: value for option, value in found.items() if value}

    def _at_judge(self, judge: JudgeSettings, environ: Mapping[str, str]) -> bool:
        own = self._given(environ)
        base = judge.with_environment(environ)
        return JudgeSettings(base_url=own.get("base_url", base.base_url)).url == base.url


_JUDGE_KEY = f"{JUDGE_ENVIRONMENT}API_KEY"
UserSettings = Annotated[
    SimulatedUserSettings,
    Value(
        lambda value: SimulatedUserSettings.from_mapping(checked_object(value)), write=lambda user: user.to_mapping()
    ),
]
"""In a suite."""

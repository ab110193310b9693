"""Makes docs/prompts.md out of the prompt files, and records their versions: `python tests/judges/prompts_page.py`."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from tool_call_evaluators.judge.question import load_prompt, prompt_names

PAGE = Path(__file__).parents[2] / "evaluators" / "docs" / "prompts.md"
VERSIONS = Path(__file__).with_name("prompt_versions.json")
"""The hash of each version of each prompt that there ever was: a version never changes its text."""

_HEAD = """# Prompts

The instructions of the [judge](judge.md) and of [simulated users](simulated_users.md), word for word. The files are in
`tool_call_evaluators/judge/prompts/`; a changed text has a new version, which is in the results and in the key of the
cache. Generated from the files.

```pycon
>>> from tool_call_evaluators.judge.question import load_prompt
>>> print(load_prompt("helpfulness"))
{example}

```
"""

_SECTION = """
## {name}

Version {version}

```text
{text}
```
"""

_FRAME = """
## What follows every prompt of a judge

Version {version}. `{{{{fence}}}}` is the random word, `{{{{schema}}}}` the JSON Schema of the answer. The suite
author's own `criteria`, where an evaluator has them, stand before it under the heading `Criteria`.

```text
{text}
```
"""


def page() -> str:
    """The whole page."""
    prompts = [load_prompt(name) for name in prompt_names()]
    sections = [_SECTION.format(name=item.name, version=item.version, text=item.text) for item in prompts]
    frame = load_prompt("_frame")
    head = _HEAD.format(example=load_prompt("helpfulness"))
    return head + "".join(sections) + _FRAME.format(version=frame.version, text=frame.text)


def hashes() -> dict[str, str]:
    """`name@version` and the hash of the text, of all prompts there are now."""
    prompts = [load_prompt(name) for name in (*prompt_names(), "_frame")]
    return {str(item): hashlib.sha256(item.text.encode()).hexdigest() for item in prompts}


def recorded() -> dict[str, str]:
    """`hashes` as they were recorded."""
    return json.loads(VERSIONS.read_text(encoding="utf-8")) if VERSIONS.exists() else {}


if __name__ == "__main__":
    known = recorded()
    if changed := [version for version, text in hashes().items() if known.get(version, text) != text]:
        sys.exit(f"the text of {', '.join(changed)} has changed: raise its version, and its evaluator's")
    VERSIONS.write_text(json.dumps(dict(sorted({**known, **hashes()}.items())), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")

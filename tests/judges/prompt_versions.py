"""The versions of the prompts, which `python tests/judges/prompt_versions.py` records."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from tool_call_evaluators.judge.question import load_prompt, prompt_names

VERSIONS = Path(__file__).with_suffix(".json")
"""The hash of each version of each prompt that there ever was: a version never changes its text."""


def hashes() -> dict[str, str]:
    """`name@version` and the hash of the text, of all prompts there are now."""
    prompts = [load_prompt(name) for name in (*prompt_names(), "_frame")]
    return {str(item): hashlib.sha256(item.text.encode()).hexdigest() for item in prompts}


def recorded() -> dict[str, str]:
    """`hashes` as they were recorded."""
    return json.loads(VERSIONS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    known = recorded()
    if changed := [version for version, text in hashes().items() if known.get(version, text) != text]:
        sys.exit(f"the text of {', '.join(changed)} has changed: raise its version, and its evaluator's")
    VERSIONS.write_text(json.dumps(dict(sorted({**known, **hashes()}.items())), indent=1) + "\n", encoding="utf-8")

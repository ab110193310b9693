"""Header values that refer to variables and files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from a2a_tool_capture.errors import ConfigurationError
from a2a_tool_capture.secret_references import referenced_files, resolve_header


def test_variables_and_files_are_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a token").write_text("  f1le\n")
    monkeypatch.setenv("TOKEN", "v4riable")
    value = f"Bearer ${{TOKEN}}.${{file:{tmp_path}/a token}}"
    assert resolve_header("Authorization", value) == "Bearer v4riable.f1le"
    assert referenced_files(value) == [f"{tmp_path}/a token"]


@pytest.mark.parametrize("value", ["", "plain", "$TOKEN", "${}", "${file:}", "${1}", "{TOKEN}"])
def test_what_refers_to_nothing_stays_as_it_is(value: str) -> None:
    assert resolve_header("x", value) == value
    assert referenced_files(value) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"", "which is empty"),
        (b" \n", "which is empty"),
        (b"s3cret" * 20_000, "which exceeds 65536 bytes"),
        (b"s3cret\nother", "holds a line break, a control or a non-ASCII character"),
        (b"s3cret\xff", "holds a line break, a control or a non-ASCII character"),
    ],
)
def test_a_file_that_cannot_be_a_header_is_named_and_not_shown(
    content: bytes | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=said) as raised:
        resolve_header("Authorization", f"Bearer ${{file:{path}}}")
    assert "'Authorization'" in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_a_named_pipe_is_no_file_of_a_secret(tmp_path: Path) -> None:
    """To open one waits for a writer."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="not a regular file"):
        resolve_header("x", f"${{file:{tmp_path}/pipe}}")

"""Plain English: banned phrases in strings of packages and tests, and in documents, each with a better wording.

`language_exceptions.txt` lists the files that still contain some, with their number, which may only shrink. After
rewording, `python tests/test_language.py --update` writes the lower numbers; without `--update` the command lists every
occurrence, or those in the files and directories that it is given.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
EXCEPTIONS = Path(__file__).with_name("language_exceptions.txt")
MODULES = ("proxy/a2a_eval_proxy", "evaluators/tool_call_evaluators", "extension/a2a_tool_capture", "tests")
DOCUMENTS = ("*.md", "*/README.md", "*/docs/**/*.md", "tests/**/*.md")

PHRASES = {
    r"told": "reported, given, listed",
    r"tells?": "reports, contains, shows",
    r"telling": "reporting, showing",
    r"(?:is|are|was|were|be|been|being) said": "the subject and what it does: the agent sent, the result reports",
    r"said of": "results of, evaluations of",
    r"(?:is|are|was|were) (?-i:none)": "is not one, does not exist",
    r"be had": "available",
    r"had (?:again|anew)": "run again",
    r"in vain": "unused",
    r"so (?:many|often)": "the number: maximum number of N, N times",
    r"look(?:s|ed|ing)? at": "reads, evaluates, inspects",
    r"beside": "concurrently with, next to, in addition to",
    r"swift": "cheap, fast",
    r"the wall": "the error boundary",
    r"nobody|somebody": "the subject: no client, no caller",
    r"anew": "again",
    r"(?:go|goes|going|went|gone) on": "continue, resume",
    r"of it": "nothing, or the name of the thing",
    r"thereof|thereby|therein": "the name of the thing",
    r"the like": "similar values, other X",
    r"by itself": "automatically, on its own",
    r"is there already": "already exists",
    r"as it looks": "detected automatically",
    r"(?<!content )codings": "encodings",
    r"truth value": "boolean",
    r"lest": "so that not",
    r"may be seen": "redacted",
    r"in the light of": "given, based on",
    r"taken over": "imported",
    r"(?:got|gets?) worse": "regressed",
    r"fails? no more": "now passes",
    r"now and again": "periodically",
    r"to hold .{1,20} against": "to compare with",
    r"what became of": "outcome of, result of",
    r"his|her|he|she": "the, they, the role",
    r"how to say it": "output format",
    r"remarks?": "failed checks",
    r"would-be": "intended",
}
BANNED = {re.compile(rf"\b(?:{phrase})\b", re.IGNORECASE): better for phrase, better in PHRASES.items()}
ANY = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.IGNORECASE)
"""One search instead of forty, of the many texts that hold none of them."""
JOINED = re.compile(r"[\"'][ \t]*(?:#.*)?\n\s*[fr]{0,2}[\"']|[\"'] +f?[\"']|\\\n")
"""Where the parts of one string meet, and where a string continues in the next line."""
ESCAPED = re.compile(r"\\[nrt]")
CODE = re.compile(r"^( *)(```+|~~~+).*?^\1\2`*$|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
"""What is not prose in Markdown: code blocks, code, comments, addresses of links."""


class Occurrence(NamedTuple):
    path: str
    line: int
    phrase: str
    better: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.phrase!r}: better {self.better}"


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file that may hold a banned phrase, with their first lines: of a module, every string of two or
    more words."""
    text = path.read_text("utf-8")
    if not ANY.search(ESCAPED.sub(" ", JOINED.sub("", text))):
        return  # most modules: nothing is parsed
    if path.suffix == ".md":
        yield 1, CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def occurrences(path: Path) -> list[Occurrence]:
    return [
        Occurrence(path.relative_to(ROOT).as_posix(), line + text.count("\n", 0, found.start()), found[0], better)
        for line, text in prose(path)
        if ANY.search(text)
        for banned, better in BANNED.items()
        for found in banned.finditer(text)
    ]


def files() -> set[Path]:
    modules = {path for folder in MODULES for path in (ROOT / folder).rglob("*.py")} - {Path(__file__)}
    documents = {path for pattern in DOCUMENTS for path in ROOT.glob(pattern) if path.name != "CHANGELOG.md"}
    return modules | {path for path in documents if not path.relative_to(ROOT).parts[0].startswith(".")}


@cache
def found_everywhere() -> list[Occurrence]:
    return [occurrence for path in sorted(files()) for occurrence in occurrences(path)]


def exceptions() -> Counter[str]:
    """The lowest number of each file: a merge keeps the lines of both sides (.gitattributes)."""
    lines = [line.split() for line in EXCEPTIONS.read_text("utf-8").splitlines()]
    return Counter(dict(sorted(((path, int(number)) for path, number in lines), key=lambda line: -line[1])))


def test_no_file_has_more_banned_phrases_than_its_exception_allows() -> None:
    found = found_everywhere()
    excess = Counter(occurrence.path for occurrence in found) - exceptions()
    assert not excess, "\n".join(str(occurrence) for occurrence in found if occurrence.path in excess)


def test_the_exceptions_shrink_with_the_files() -> None:
    needless = exceptions() - Counter(occurrence.path for occurrence in found_everywhere())
    assert not needless, f"run `python tests/test_language.py --update`: {dict(needless)}"


def test_banned_phrases_are_found_in_docstrings_errors_f_strings_and_documents(tmp_path: Path) -> None:
    """The tests above would also pass if nothing were searched."""
    module, page = tmp_path / "module.py", tmp_path / "page.md"
    module.write_text('"""Made anew."""\nname = "told"\n\nraise ValueError(f"{name} is there already")\n', "utf-8")
    page.write_text("# Page\n\n```\nanew\n```\n\nSee `anew` [there](anew.md): it is made anew.\n", "utf-8")

    def found(path: Path) -> list[tuple[int, str]]:
        return [(line, match[0]) for line, text in prose(path) for banned in BANNED for match in banned.finditer(text)]

    assert found(module) == [(1, "anew"), (4, "is there already")]
    assert found(page) == [(1, "anew")]
    for text, phrase in (
        ('"""One \\\nof it."""', "of it"),
        ('print("a line\\ntold")', "told"),
        ('print(\n    "so "  # often\n    f"many {1}"\n)', "so many"),
        ("print(f'{1} go' 'es on')", "goes on"),
    ):
        module.write_text(text, "utf-8")
        assert found(module)[0][1] == phrase


def test_packages_tests_and_documents_are_searched() -> None:
    searched = {path.relative_to(ROOT).as_posix() for path in files()}
    assert {f"{package}/__init__.py" for package in MODULES[:3]} | {"tests/conftest.py"} <= searched
    assert {"README.md", "evaluators/README.md", "evaluators/docs/suites.md", "tests/golden/README.md"} <= searched


def main(arguments: list[str]) -> int:
    found = found_everywhere()
    if "--update" not in arguments:
        chosen = [item for item in found if not arguments or item.path.startswith(tuple(arguments))]
        print(*chosen, f"{len(chosen)} banned phrases", sep="\n")
        return 0
    numbers = Counter(occurrence.path for occurrence in found)
    if EXCEPTIONS.exists() and numbers.total() > exceptions().total():
        excess = numbers - exceptions()
        print(*(item for item in found if item.path in excess), "not updated: there are more than before", sep="\n")
        return 1
    EXCEPTIONS.write_text("".join(f"{path} {number}\n" for path, number in sorted(numbers.items())), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

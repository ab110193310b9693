"""Detectors of personal data and secrets in texts. Pure, and linear in the length of the text."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import compress

SpanIterator = Iterator[tuple[int, int]]

Detector = Callable[[str], SpanIterator]
"""Yields the spans (begin, end) of matches in a text, from left to right and without overlap."""

_FINE_BLANKS = "\u00a0\u2009\u202f\u2010\u2011\u2013"
"""Separators of digit groups in generated and typeset texts: non-breaking spaces and hyphens, dashes."""

_BLANK = f"(?:[ {_FINE_BLANKS}+-]|%20)"


def _compiled(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Compile a pattern with placeholders: `<begin>` is the start of a word, also after an escape of JSON or a URL;
    `<gap>` is an optional space; `<fine>` is the content of a character class with _FINE_BLANKS.
    """
    begin = r"(?:(?<![^\W_])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
    filled = pattern.replace("<begin>", begin).replace("<gap>", f"{_BLANK}?").replace("<fine>", _FINE_BLANKS)
    return re.compile(filled, flags)


# Cheap tests: texts without a match contain no phone number, card number or IP address.
_SIX_DIGITS = _compiled(r"\d[\d ().\-/+%<fine>]{5,}")
_TWELVE_DIGITS = _compiled(r"[0-9][0-9 +%<fine>-]{10,}[0-9]")
_DOTS = re.compile(r"[0-9]\.[0-9]{1,3}\.[0-9]")
_COLONS = re.compile(r"(?::|%3[Aa])[0-9A-Fa-f]{0,4}(?::|%3[Aa])")

_AT_SIGNS = ("@", "%40", "\\u0040", "&#64;")
_EMAIL = re.compile(
    r"(?:[\w.+-]|%2[Bb]){1,64}+(?:@|%40|\\{1,8}u0040|&#64;)(?:[\w-]{1,63}\.){1,8}(?:xn--[a-z0-9-]{2,59}|[^\W\d_]{2,63})"
)
_PHONE = _compiled(
    # E.164 with its plus, international with 00, North American, and with a trunk 0: the others need separators
    r"(?:(?:\+|%2[Bb])[1-9](?:(?:[ ().\-/<fine>]|%2[089]){0,2}\d){6,14}(?!\d)"
    r"|<begin>(?<![.-])00[1-9]\d{0,2}[ /.<fine>-](?:[ ().\-/<fine>]{0,2}\d){6,12}(?!\d)"
    r"|<begin>(?<![.-])(?:\(\d{3}\)[ <fine>]?|\d{3}[ .<fine>-])\d{3}[ .<fine>-]\d{4}(?![\w-])"
    r"|<begin>(?<![.-])\(?0\d{2,4}\)?(?:[ /<fine>-]\d{5,8}|[ <fine>]\d{3,4}[ <fine>]\d{3,4})(?![\w-])"
    r"|<begin>(?<![.-])0[1-9](?:(?:[ <fine>]\d\d){4}|(?:\.\d\d){4}|(?:-\d\d){4})(?![\w-]))"
)
_DIGITS = _compiled(r"<begin>[0-9](?:<gap>[0-9]){11,}+")
_LEAST_DIGITS, _MOST_DIGITS = 12, 19
_CARD_ISSUERS = "23456"  # first digits of payment cards
_IBAN_HEAD = _compiled("<begin>[A-Za-z]{2}[0-9]{2}(?=<gap>[A-Za-z0-9])")
_IBAN_LENGTHS = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 "
    "ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 "
    "LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 "
    "QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30 "
)
_IBAN_REST = {
    entry[:2]: _compiled(f"(?:<gap>[A-Za-z0-9]){{{int(entry[2:]) - 4}}}(?![A-Za-z0-9])")
    for entry in _IBAN_LENGTHS.split()
}
"""The characters after the first four, by country (SWIFT's IBAN registry).

The table and the check digits are our own: python-stdnum would save few lines, and keeps the lengths in private data.
"""

_GROUP = re.compile(r"(?:(?<=%20)|(?<![0-9%]))[0-9]+")
_IPV4 = _compiled(
    r"<begin>(?<!\d\.)(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?!\w|\.\d)",
    re.ASCII,
)
_IPV6 = _compiled(
    r"<begin>(?<!::)(?<!\d\.)(?=[0-9A-Fa-f]{0,4}(?::|%3[Aa])[0-9A-Fa-f]{0,4}(?::|%3[Aa]))"
    r"(?:[0-9A-Fa-f:]|%3[Aa]){3,45}(?:\.\d{1,3}){0,3}(?!\w)"
)

_COLON_BEFORE, _COLON_AFTER = re.compile(r":|%3[Aa]"), re.compile(r"(?::|%3[Aa])\Z")

SECRET_NAME = re.compile(
    r"(?:^|[._\s-]|(?<=[a-z])(?=[A-Z]))(?i:api[_-]?key|(?:access|auth|refresh|id|session|bearer|csrf)[_-]?token|token"
    r"|(?:client|app|shared)[_-]?secret|secret|passw(?:or)?d|passphrase|pwd|(?:private|secret|(?:secret[_-]?)?access)[_-]?key"
    r"|credentials?"
    r"|authorization|(?:set[_-]?)?cookie)$"
)
"""Keys of objects and names of headers whose values are always secrets."""

_NAMED = (
    r"(?i:api[_-]?key|(?:access|auth|refresh|id|session)[_-]?token|token|(?:client|app|shared)[_-]?secret|secret"
    r"|passw(?:or)?d|passphrase|pwd|(?:private|secret|(?:secret[_-]?)?access)[_-]?key)"
)
_PLAIN_NAMES = ("token", "secret", "password", "passwd", "passphrase", "pwd")
_KEY_NAMES = tuple(f"{kind}{join}key" for kind in ("api", "private", "access") for join in ("", "_", "-"))
_ISSUED = (
    ("eyj", r"eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?", "JSON Web Token: RFC 7519, section 3.1"),
    ("sk- sk_ pk- pk_ rk- rk_", r"(?:sk|pk|rk)[-_][\w-]{16,}", "OpenAI, Anthropic; Stripe: API keys"),
    ("ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_\w{20,}", "GitHub changelog, 2021-03-31: token format updates"),
    ("github_pat_", r"github_pat_\w{20,}", "GitHub: fine-grained personal access tokens"),
    ("glpat-", r"glpat-[\w-]{16,}", "GitLab, issue 342327: default prefix of personal access tokens"),
    ("xox", r"xox[abeprs]-[\w-]{10,}", "Slack: token types"),
    ("akia asia", r"(?:AKIA|ASIA)[0-9A-Z]{16}(?!\w)", "AWS IAM: unique ID prefixes of access keys"),
    ("aiza", r"AIza[\w-]{30,}", "Google Cloud: API keys"),
    ("ya29.", r"ya29\.[\w-]{16,}", "Google: OAuth 2.0 access tokens"),
    ("hf_", r"hf_[A-Za-z0-9]{20,}", "Hugging Face Hub: user access tokens"),
    ("npm_", r"npm_[A-Za-z0-9]{20,}", "GitHub: npm access token format"),
    ("sg.", r"SG\.[\w-]{16,}\.[\w-]{16,}", "SendGrid: API keys"),
    ("whsec_", r"whsec_[\w+/=-]{16,}", "Standard Webhooks specification: signing secrets"),
)
"""Prefixes in lower case, the pattern of the whole token, and the source of the format."""

_TOKENS = (
    # each with words in lower case: a text with none of them has no match
    # after an authentication scheme: with a digit, or too long for a word
    (
        ("bearer", "basic", "token"),
        r"(?i:<begin>(?:bearer|basic|token)(?:\s|%20|\+)+)(?P<bearer>(?=[^\s\"'\\]*\d|[^\s\"'\\]{20})[\w.~+/=-]{8,})",
    ),
    (
        ("authorization",),
        r"(?i:authorization)[\"'\\]*\s*[:=]\s*[\"'\\]*(?:(?i:bearer|basic|token|digest|apikey)\s+(?P<header>[\w.~+/=-]{4,})"
        # of another scheme, too; but not a scheme alone, whose token is redacted already
        r"|(?!(?i:bearer|basic|token|digest|apikey)(?![\w.~+/=-]))(?P<whole>[\w.~+/=-]{4,}(?: +[\w.~+/=-]{8,})?))",
    ),
    # after the name of a secret, in a query, a form, a header or JSON
    (
        (*_KEY_NAMES, *_PLAIN_NAMES),
        r"(?:<begin>|_|(?<=[a-z])(?=[A-Z]))"
        + _NAMED
        + r"(?:\\*[\"'])?(?:\s*[:=]\s*|%3[Dd])(?:\\*\"(?P<quoted>[^\"\\\r\n]{4,})|\\*'(?P<single>[^'\\\r\n]{4,})"
        r"|(?P<value>[^\s\"'\\,;&<>()\[\]{}]{4,}))",
    ),
    (("cookie",), r"<begin>(?i:cookie)[\"'\\]*\s*:\s*[\"'\\]*(?P<cookie>[\w!#$%&*+.^|~-]{1,128}=[^\r\n\"'\\]+)"),
    # the password in a URL; a user name alone is not a secret in the URL of a database
    (
        ("://",),
        r"://(?:[^\s/@:\"'\\]{0,256}:|(?<!postgresql://)(?<!postgres://))(?!\*+@)"
        r"(?P<login>[^\s/@:\"'\\\[\]]{1,256})@",
    ),
    # by their issuer's prefix
    (
        tuple(prefix for prefixes, _, _ in _ISSUED for prefix in prefixes.split()),
        f"(?P<issued>{'|'.join(f'<begin>{pattern}' for _, pattern, _ in _ISSUED)})",
    ),
    (
        ("-----begin ",),
        r"(?P<pem>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z))",
    ),
)

_TOKEN_WORDS = re.compile("|".join(re.escape(word) for words, _ in _TOKENS for word in words))

_WINDOW, _MOST_TO_START = 16_384, 2_048


@lru_cache(maxsize=128)
def _token_pattern(present: tuple[bool, ...]) -> re.Pattern[str]:
    return _compiled("|".join(pattern for _, pattern in compress(_TOKENS, present)), re.DOTALL)


def _found(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """As `finditer`, for a pattern without empty matches that knows after `_MOST_TO_START` characters that it matches.

    A search holds the lock of the interpreter: here for a part of the text only, so that other threads continue.
    """
    position = 0
    while position < len(text):
        end = position + _WINDOW
        start = pattern.search(text, position, end + _MOST_TO_START)
        if start is None or start.start() >= end:
            position = end
        elif whole := pattern.match(text, start.start()):
            yield whole
            position = whole.end()
        else:  # it only matched because the window ends there
            position = start.start() + 1


def emails(text: str) -> SpanIterator:
    """Addresses as in RFC 5321 without quoted local parts, of a domain with a dot; also `%40` for the at sign."""
    if any(at in text for at in _AT_SIGNS):
        yield from (match.span() for match in _EMAIL.finditer(text))


def phones(text: str) -> SpanIterator:
    """Numbers with a plus (E.164), or in the usual groups. Digits without separators are not a phone number."""
    if _SIX_DIGITS.search(text):
        yield from (match.span() for match in _PHONE.finditer(text))


def cards(text: str) -> SpanIterator:
    """Payment card numbers (ISO/IEC 7812): 12 to 19 digits with a card issuer's first digit and a valid check digit."""
    for match in _DIGITS.finditer(text) if _TWELVE_DIGITS.search(text) else ():
        if text[match.end() : match.end() + 1].isalpha():
            continue
        yield from _card_windows(text, *match.span())


def ibans(text: str) -> SpanIterator:
    """Account numbers (ISO 13616) with valid check digits, grouped or not."""
    position = 0
    while head := _IBAN_HEAD.search(text, position):
        position = head.end()
        rest = _IBAN_REST.get(head.group()[:2].upper())
        found = rest.match(text, position) if rest is not None else None
        if found is not None and mod97(re.sub(_BLANK, "", text[head.start() : found.end()])):
            position = found.end()
            yield head.start(), position


def addresses(text: str) -> SpanIterator:
    """IP addresses, version 4 and 6. Also matches version numbers with four parts."""
    spans = [match.span() for match in _IPV4.finditer(text)] if _DOTS.search(text) else []
    if _COLONS.search(text):
        spans += [span for match in _IPV6.finditer(text) if (span := _ipv6(match)) is not None]
    end = 0
    for span in sorted(spans):
        if span[0] >= end:
            end = span[1]
            yield span


def tokens(text: str) -> SpanIterator:
    """Bearer tokens, API keys, passwords: by their scheme, their name, their issuer's prefix, or in a URL."""
    small = text.lower()
    if _TOKEN_WORDS.search(small):
        present = tuple(any(word in small for word in words) for words, _ in _TOKENS)
        yield from (match.span(match.lastgroup or 0) for match in _found(_token_pattern(present), text))


DETECTORS: Mapping[str, Detector] = {
    "token": tokens,
    "email": emails,
    "iban": ibans,
    "card": cards,
    "phone": phones,
    "ip": addresses,
}
"""Detectors by name, in the order in which they run: a card number is never reported as a phone number."""


def luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of the others (ISO/IEC 7812-1, annex B)."""
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(value - 9 if value > 9 else value for value in doubled)) % 10 == 0


def mod97(iban: str) -> bool:
    """Whether the check digits of an IBAN without spaces are valid (ISO 7064, mod 97-10)."""
    return int("".join(str(int(char, 36)) for char in iban[4:] + iban[:4])) % 97 == 1


def _ipv6(match: re.Match[str]) -> tuple[int, int] | None:
    """Returns the span of the address in a run of its characters, without colons of the sentence around it."""
    begin, end = match.span()
    run = match.group()
    if _is_ipv6(run):
        return begin, end
    before, after = _COLON_BEFORE.match(run), _COLON_AFTER.search(run)
    begin, end = begin + (before.end() if before else 0), end - (len(after.group()) if after else 0)
    return (begin, end) if _is_ipv6(match.string[begin:end]) else None


def _is_ipv6(text: str) -> bool:
    text = text.replace("%3A", ":").replace("%3a", ":")
    try:
        return len(text) > 2 and ipaddress.IPv6Address(text) is not None
    except ValueError:
        return False


def _card_windows(text: str, begin: int, end: int) -> SpanIterator:
    """Yields the longest runs of whole digit groups that form a card number.

    Other groups of digits, such as an expiry date, may precede or follow the number.
    """
    groups = [match.span() for match in _GROUP.finditer(text, begin, end)]
    first = 0
    while first < len(groups):
        digits, last, found = "", first, None
        while last < len(groups) and len(digits) < _MOST_DIGITS and text[groups[first][0]] in _CARD_ISSUERS:
            digits += text[slice(*groups[last])]
            if _LEAST_DIGITS <= len(digits) <= _MOST_DIGITS and len(set(digits)) > 1 and luhn(digits):
                found = last
            last += 1
        if found is not None:
            yield groups[first][0], groups[found][1]
            first = found
        first += 1

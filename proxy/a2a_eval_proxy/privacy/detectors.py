"""What looks like personal data or a secret: for each kind, where in a text it stands. Pure, linear in the text."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import compress

SpanIterator = Iterator[tuple[int, int]]

Detector = Callable[[str], SpanIterator]
"""Yields where (begin, end) in a text there is one, from left to right and without overlap."""

_FINE_BLANKS = "\u00a0\u2009\u202f\u2010\u2011\u2013"
"""What models and typesetters put between groups of digits: blanks and hyphens that do not break, dashes."""

_BLANK = f"(?:[ {_FINE_BLANKS}+-]|%20)"


def _compiled(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """What stands for what: `<begin>` is not within a word, but perhaps after an escape of JSON or of a URL.

    `<gap>` is at most one blank, `<fine>` goes into brackets.
    """
    begin = r"(?:(?<![^\W_])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
    filled = pattern.replace("<begin>", begin).replace("<gap>", f"{_BLANK}?").replace("<fine>", _FINE_BLANKS)
    return re.compile(filled, flags)


# What texts have in which there may be a phone number, a card number, an address: quicker to look for than these.
_SIX_DIGITS = _compiled(r"\d[\d ().\-/+%<fine>]{5,}")
_TWELVE_DIGITS = _compiled(r"[0-9][0-9 +%<fine>-]{10,}[0-9]")
_DOTS = re.compile(r"[0-9]\.[0-9]{1,3}\.[0-9]")
_COLONS = re.compile(r"(?::|%3[Aa])[0-9A-Fa-f]{0,4}(?::|%3[Aa])")

_AT_SIGNS = ("@", "%40", "\\u0040", "&#64;")
_EMAIL = re.compile(
    r"(?:[\w.+-]|%2[Bb]){1,64}(?:@|%40|\\{1,8}u0040|&#64;)(?:[\w-]{1,63}\.){1,8}(?:xn--[a-z0-9-]{2,59}|[^\W\d_]{2,63})"
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
_CARD_ISSUERS = "23456"
"""First digits of payment cards."""

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
"""What follows the first four characters, by country (SWIFT's IBAN registry)."""

_GROUP = re.compile(r"(?:(?<=%20)|(?<![0-9%]))[0-9]+")
_IPV4 = _compiled(
    r"<begin>(?<!\.)(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?!\w|\.\d)",
    re.ASCII,
)
_IPV6 = _compiled(
    r"<begin>(?<!::)(?<!\.)(?=[0-9A-Fa-f]{0,4}(?::|%3[Aa])[0-9A-Fa-f]{0,4}(?::|%3[Aa]))"
    r"(?:[0-9A-Fa-f:]|%3[Aa]){3,45}(?:\.\d{1,3}){0,3}(?!\w)"
)

_COLON_BEFORE, _COLON_AFTER = re.compile(r":|%3[Aa]"), re.compile(r"(?::|%3[Aa])\Z")

SECRET_NAME = re.compile(
    r"(?:^|[._\s-]|(?<=[a-z])(?=[A-Z]))(?i:api[_-]?key|(?:access|auth|refresh|id|session|bearer|csrf)[_-]?token|token"
    r"|(?:client|app|shared)[_-]?secret|secret|passw(?:or)?d|passphrase|pwd|(?:private|secret|(?:secret[_-]?)?access)[_-]?key"
    r"|credentials?"
    r"|authorization|(?:set[_-]?)?cookie)$"
)
"""Keys of objects, and names of headers, whose values are secrets whatever they look like."""

_NAMED = (
    r"(?i:api[_-]?key|(?:access|auth|refresh|id|session)[_-]?token|token|(?:client|app|shared)[_-]?secret|secret"
    r"|passw(?:or)?d|passphrase|pwd|(?:private|secret|(?:secret[_-]?)?access)[_-]?key)"
)
_PLAIN_NAMES = ("token", "secret", "password", "passwd", "passphrase", "pwd")
_KEY_NAMES = tuple(f"{kind}{join}key" for kind in ("api", "private", "access") for join in ("", "_", "-"))
_ISSUED = (
    *("eyj", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("xox", "akia", "asia", "aiza", "ya29.", "hf_", "npm_", "sg.", "whsec_"),
)
_TOKENS = (
    # each with words of which its texts have one, in lower case: most texts have none
    # after its scheme: with a digit, or too long for a word
    (
        ("bearer", "basic", "token"),
        r"(?i:<begin>(?:bearer|basic|token)(?:\s|%20|\+)+)(?P<bearer>(?=[^\s\"'\\]*\d|[^\s\"'\\]{20})[\w.~+/=-]{8,})",
    ),
    (
        ("authorization",),
        r"(?i:authorization)[\"'\\]*\s*[:=]\s*[\"'\\]*(?:(?i:bearer|basic|token|digest|apikey)\s+(?P<header>[\w.~+/=-]{4,})"
        # of another scheme, too; but no scheme alone, whose token was taken out before
        r"|(?!(?i:bearer|basic|token|digest|apikey)(?![\w.~+/=-]))(?P<whole>[\w.~+/=-]{4,}(?: +[\w.~+/=-]{8,})?))",
    ),
    # after its name, in a query, a form, a header or in JSON
    (
        (*_KEY_NAMES, *_PLAIN_NAMES),
        r"(?:<begin>|_|(?<=[a-z])(?=[A-Z]))"
        + _NAMED
        + r"(?:\\*[\"'])?(?:\s*[:=]\s*|%3[Dd])(?:\\*\"(?P<quoted>[^\"\\\r\n]{4,})|\\*'(?P<single>[^'\\\r\n]{4,})"
        r"|(?P<value>[^\s\"'\\,;&<>()\[\]{}]{4,}))",
    ),
    (("cookie",), r"<begin>(?i:cookie)[\"'\\]*\s*:\s*[\"'\\]*(?P<cookie>[\w!#$%&*+.^|~-]{1,128}=[^\r\n\"'\\]+)"),
    # in a URL; who logs in to a database without a password there is no secret
    (
        ("://",),
        r"://(?:[^\s/@:\"'\\]{0,256}:|(?<!postgresql://)(?<!postgres://))(?!\*+@)"
        r"(?P<login>[^\s/@:\"'\\\[\]]{1,256})@",
    ),
    # by their issuer's prefix
    (
        _ISSUED,
        r"(?P<issued><begin>eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"
        r"|<begin>(?:sk|pk|rk)[-_][\w-]{16,}|<begin>gh[pousr]_\w{20,}|<begin>github_pat_\w{20,}|<begin>glpat-[\w-]{16,}"
        r"|<begin>xox[abeprs]-[\w-]{10,}|<begin>(?:AKIA|ASIA)[0-9A-Z]{16}(?!\w)|<begin>AIza[\w-]{30,}|<begin>ya29\.[\w-]{16,}"
        r"|<begin>hf_[A-Za-z0-9]{20,}|<begin>npm_[A-Za-z0-9]{20,}|<begin>SG\.[\w-]{16,}\.[\w-]{16,}|<begin>whsec_[\w+/=-]{16,})",
    ),
    (
        ("-----begin ",),
        r"(?P<pem>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z))",
    ),
)


@lru_cache(maxsize=128)
def _token_pattern(present: tuple[bool, ...]) -> re.Pattern[str]:
    return _compiled("|".join(pattern for _, pattern in compress(_TOKENS, present)), re.DOTALL)


def emails(text: str) -> SpanIterator:
    """Addresses as in RFC 5321 without quoted local parts, of a domain with a dot; also `%40` for the at sign."""
    if any(at in text for at in _AT_SIGNS):
        yield from (match.span() for match in _EMAIL.finditer(text))


def phones(text: str) -> SpanIterator:
    """Numbers with a plus (E.164), or grouped as people write them. Bare digits are not taken for a number."""
    if _SIX_DIGITS.search(text):
        yield from (match.span() for match in _PHONE.finditer(text))


def cards(text: str) -> SpanIterator:
    """Payment card numbers (ISO/IEC 7812): 12 to 19 digits, an issuer of cards first, with a right check digit."""
    for match in _DIGITS.finditer(text) if _TWELVE_DIGITS.search(text) else ():
        if text[match.end() : match.end() + 1].isalpha():
            continue
        yield from _card_windows(text, *match.span())


def ibans(text: str) -> SpanIterator:
    """Account numbers (ISO 13616) whose check digits are right, in groups or not."""
    position = 0
    while head := _IBAN_HEAD.search(text, position):
        position = head.end()
        rest = _IBAN_REST.get(head.group()[:2].upper())
        found = rest.match(text, position) if rest is not None else None
        if found is not None and mod97(re.sub(_BLANK, "", text[head.start() : found.end()])):
            position = found.end()
            yield head.start(), position


def addresses(text: str) -> SpanIterator:
    """IP addresses, version 4 and 6. A version number of four parts looks the same and is taken for one."""
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
    present = tuple(any(word in small for word in words) for words, _ in _TOKENS)
    if any(present):
        yield from (match.span(match.lastgroup or 0) for match in _token_pattern(present).finditer(text))


DETECTORS: Mapping[str, Detector] = {
    "token": tokens,
    "email": emails,
    "iban": ibans,
    "card": cards,
    "phone": phones,
    "ip": addresses,
}
"""By name, in the order in which they look: what is a card number is no phone number."""


def luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of the others (ISO/IEC 7812-1, annex B)."""
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(value - 9 if value > 9 else value for value in doubled)) % 10 == 0


def mod97(iban: str) -> bool:
    """Whether the check digits of an IBAN without blanks are right (ISO 7064, mod 97-10)."""
    return int("".join(str(int(char, 36)) for char in iban[4:] + iban[:4])) % 97 == 1


def _is_card(digits: str) -> bool:
    return _LEAST_DIGITS <= len(digits) <= _MOST_DIGITS and len(set(digits)) > 1 and luhn(digits)


def _ipv6(match: re.Match[str]) -> tuple[int, int] | None:
    """Where the address in a run of its characters is, which may stand between colons of the sentence."""
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
    """Runs of whole groups of digits that are a card number together; the longest first.

    Numbers stand beside other groups of digits, an expiry date say.
    """
    groups = [match.span() for match in _GROUP.finditer(text, begin, end)]
    first = 0
    while first < len(groups):
        digits, last, found = "", first, None
        while last < len(groups) and len(digits) < _MOST_DIGITS and text[groups[first][0]] in _CARD_ISSUERS:
            digits += text[slice(*groups[last])]
            if _is_card(digits):
                found = last
            last += 1
        if found is not None:
            yield groups[first][0], groups[found][1]
            first = found
        first += 1

"""Detectors: what they find, what only looks like it, and that no text holds them up."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.privacy.detectors import DETECTORS, luhn, mod97
from hypothesis import example, given
from hypothesis import strategies as st

IBAN = "DE89 3704 0044 0532 0130 00"


def found(name: str, text: str) -> list[str]:
    return [text[begin:end] for begin, end in DETECTORS[name](text)]


@pytest.mark.parametrize(
    ("name", "text", "secrets"),
    [
        ("email", "write to ann.lee+x@mail.example.com, please", ["ann.lee+x@mail.example.com"]),
        ("email", "?to=ann%40example.com&cc=bob%2Bx%40example.org", ["ann%40example.com", "bob%2Bx%40example.org"]),
        ("email", r'{"to": "ann\u0040example.com"}', [r"ann\u0040example.com"]),
        ("email", r"{\"to\": \"ann\\u0040example.com\"}", [r"ann\\u0040example.com"]),
        ("email", "jürgen@bücher.example", ["jürgen@bücher.example"]),
        ("email", "@someone said user@localhost in C++@2x", []),
        ("phone", "call +49 30 1234567 or +1 (555) 123-4567", ["+49 30 1234567", "+1 (555) 123-4567"]),
        ("phone", "tel:+493012345678", ["+493012345678"]),
        ("phone", "(555) 123-4567, 0049 30 1234567, 030 1234567", ["(555) 123-4567", "0049 30 1234567", "030 1234567"]),
        ("phone", "020 7946 0958, 0171 234 5678, 01.23.45.67.89", ["020 7946 0958", "0171 234 5678", "01.23.45.67.89"]),
        (
            "phone",
            "+49\u202f30\u202f1234567, 555\u2011123\u20114567",
            ["+49\u202f30\u202f1234567", "555\u2011123\u20114567"],
        ),
        ("phone", "01.02.2026, 02 12 2026 10:15, 0.25 0.75", []),
        ("phone", "2026-11-21T09:00:00+01:00, order 4711000815, 12.345.678, 1763700000", []),
        ("card", "4111 1111 1111 1111 12/27", ["4111 1111 1111 1111"]),
        ("card", "5500-0000-0000-0004,378282246310005", ["5500-0000-0000-0004", "378282246310005"]),
        (
            "card",
            "n=4111+1111+1111+1111&m=4111%201111%201111%201111",
            ["4111+1111+1111+1111", "4111%201111%201111%201111"],
        ),
        ("card", "4111\u202f1111\u202f1111\u202f1111", ["4111\u202f1111\u202f1111\u202f1111"]),
        ("card", "4111\u20111111\u20111111\u20111111", ["4111\u20111111\u20111111\u20111111"]),
        ("card", r"line\n4111111111111111", ["4111111111111111"]),
        ("card", "4111111111111112, 0000000000000000, 1763700000000, ab4111111111111111", []),
        ("iban", f"to {IBAN} AND then", [IBAN]),
        ("iban", "de89370400440532013000 GB82WEST12345698765432", ["de89370400440532013000", "GB82WEST12345698765432"]),
        ("iban", IBAN.replace(" ", "\u202f"), [IBAN.replace(" ", "\u202f")]),
        ("iban", f"ab12 please {IBAN}", [IBAN]),
        ("iban", "DE88 3704 0044 0532 0130 00, XX89370400440532013000, DE8937040044053201300", []),
        ("ip", "from 10.0.0.1:80, [2001:db8::1] and ::ffff:10.0.0.2", ["10.0.0.1", "2001:db8::1", "::ffff:10.0.0.2"]),
        (
            "ip",
            "error 2001:db8::1: refused; ip:2001:db8::2, :2001:db8::3:",
            ["2001:db8::1", "2001:db8::2", "2001:db8::3"],
        ),
        ("ip", "2001%3Adb8%3A%3A1%3A, fe80::", ["2001%3Adb8%3A%3A1", "fe80::"]),
        ("ip", "task.203.0.113.77[0], task.2001:db8::7", ["203.0.113.77", "2001:db8::7"]),
        ("ip", "at 10:30:00, std::string, 1.2.3, 1.2.3.4.5, 300.1.1.1", []),
        ("ip", "where: task.artifacts[0].203.0.113.77", ["203.0.113.77"]),
        ("token", "Authorization: Bearer abc.def-123", ["abc.def-123"]),
        ("token", "authorization: hunter2hunter2", ["hunter2hunter2"]),
        ("token", "Basic dXNlcjpwYXNz1", ["dXNlcjpwYXNz1"]),
        ("token", "https://ann:s3cr3t@host/x?access_token=abcd1234&x=1", ["s3cr3t", "abcd1234"]),
        ("token", r"{\"api_key\": \"zyx987\"}", ["zyx987"]),
        ("token", "https://tok3n@host, postgresql://ann:***@host", ["tok3n"]),
        ("token", "password=correct-horse", ["correct-horse"]),
        ("token", """x {"password": "correct horse, battery"} pwd='a b,cd'""", ["correct horse, battery", "a b,cd"]),
        ("token", r"{\"secret\": \"correct horse\"}", ["correct horse"]),
        ("token", "dbPassword=hunter22 userToken: abcd1234", ["hunter22", "abcd1234"]),
        (
            "token",
            "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG x_access-key: abcd1",
            ["wJalrXUtnFEMI/K7MDENG", "abcd1"],
        ),
        ("token", "SECRET_KEY = 'django insecure'", ["django insecure"]),
        ("token", "Authorization: Custom abcd1234efgh, and more", ["Custom abcd1234efgh"]),
        ("token", "Set-Cookie: sid=abc1; Path=/\r\nAge: 1", ["sid=abc1; Path=/"]),
        ("token", "cookie: with chocolate", []),
        ("token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig-1", ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig-1"]),
        ("token", "AKIAIOSFODNN7EXAMPLE ghp_" + "a1" * 18, ["AKIAIOSFODNN7EXAMPLE", "ghp_" + "a1" * 18]),
        (
            "token",
            "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----.",
            ["-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"],
        ),
        ("token", "the bearer of good news has a token of thanks: no password", []),
    ],
)
def test_what_is_found(name: str, text: str, secrets: list[str]) -> None:
    assert found(name, text) == secrets


@pytest.mark.parametrize(
    "number", ["4111111111111111", "5500000000000004", "378282246310005", "30569309025904", "79927398713"]
)
def test_luhn(number: str) -> None:
    assert luhn(number)
    for digit in set("0123456789") - {number[-1]}:
        assert not luhn(number[:-1] + digit)


@pytest.mark.parametrize(
    "iban", ["DE89370400440532013000", "GB82WEST12345698765432", "NO9386011117947", "mt84malt011000012345mtlcast001s"]
)
def test_mod97(iban: str) -> None:
    assert mod97(iban)
    assert not mod97(iban[:-1] + ("1" if iban[-1] != "1" else "2"))


@given(st.text("0123456789", min_size=12, max_size=19))
def test_a_card_number_is_found_where_its_check_digit_is_right(digits: str) -> None:
    whole = "4" + digits[1:]
    right = luhn(whole) and len(set(whole)) > 1
    assert found("card", f"pay {whole} now") == ([whole] if right else [])


@given(st.text("DE89 3704-%0@+.:aeyJ/=bearer token[]\\\"'\n", max_size=200))
@example("[[email]]")
def test_spans_are_in_order_and_within_the_text(text: str) -> None:
    for detector in DETECTORS.values():
        end = 0
        for span in detector(text):
            assert end <= span[0] < span[1] <= len(text)
            end = span[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *("a", "a.", "@", "1 ", "4 ", "DE89 ", "+1 ", "eyJ", "token ", "-----BEGIN PRIVATE KEY-----", "://", "bearer "),
        *("0:", "%3A", "1.1.", "%2B", "sk-", " ", "authorization:", "password", "(555) ", "\\n"),
    ],
)
@pytest.mark.timeout(60)
def test_nothing_holds_a_detector_up(piece: str) -> None:
    """What takes more than linear time takes minutes here."""
    text = piece * (100_000 // len(piece))
    for detector in DETECTORS.values():
        for whole in (text, text + "@", "token" + text + '"'):
            assert all(span for span in detector(whole))


@pytest.mark.parametrize(
    "secret",
    [
        "Bearer abcdefgh1234",
        "AKIA" + "A1" * 8,
        "ghp_" + "a" * 40_000,
        "postgres://user:secret@host",
        f"-----BEGIN PRIVATE KEY-----{'x' * 40_000}-----END PRIVATE KEY-----",
    ],
)
def test_long_texts_are_searched_in_parts_with_the_same_result(secret: str) -> None:
    tokens = DETECTORS["token"]
    [(begin, end)] = tokens(secret)
    for before in (16_384 - 12, 16_384, 16_384 + 2_048 - 12, 40_000):
        text = " " * before + secret + " AKIA" + "A" * 17 + " " + secret
        second = before + len(secret) + 23
        assert list(tokens(text)) == [(before + begin, before + end), (second + begin, second + end)]

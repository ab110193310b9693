"""The ends of certificates: of real ones, of chains, of files that break, and what is not a certificate."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from a2a_eval_proxy.net.certificate_ends import CertificateEnds, CertificateOf, first_end
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st
from support.certificates import Authority


@pytest.mark.parametrize("year", [2031, 2049, 2050, 2068, 2069, 2120])
def test_the_end_of_a_certificate(tmp_path: Path, year: int) -> None:
    """From 2050 on, certificates have their times in another form."""
    end = datetime(year, 2, 28, 23, 59, 58, tzinfo=UTC)
    pair = Authority(tmp_path).issue("a", not_after=end)
    assert x509.load_pem_x509_certificate(pair.cert.read_bytes()).not_valid_after_utc == end
    assert first_end(pair.cert.read_bytes()) == end.timestamp()
    assert first_end(pair.key.read_bytes() + pair.cert.read_bytes()) == end.timestamp()


def test_a_chain_ends_with_its_first_certificate(tmp_path: Path) -> None:
    early, late = (
        Authority(tmp_path).issue(str(year), not_after=datetime(year, 1, 1, tzinfo=UTC)) for year in (2030, 2040)
    )
    expected = datetime(2030, 1, 1, tzinfo=UTC).timestamp()
    for one, other in ((early, late), (late, early)):
        assert first_end(one.cert.read_bytes() + other.cert.read_bytes()) == expected


def test_a_file_that_breaks_keeps_the_end_that_it_had(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    path = authority.issue("a", not_after=datetime(2030, 1, 1, tzinfo=UTC)).cert
    tls, agents = CertificateOf("tls_cert"), CertificateOf("upstream_cert", "orders")
    files = {tls: str(path), agents: str(path), CertificateOf("push_tls_cert"): None}
    ends = CertificateEnds(lambda: files | {CertificateOf("admin_tls_cert"): str(tmp_path / "missing")})
    assert ends.ends.pop(agents) == ends.ends[tls]
    del files[agents]  # the agent is removed
    before = {tls: datetime(2030, 1, 1, tzinfo=UTC).timestamp()}
    assert ends.ends == before
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert ends.ends == before
    path.unlink()
    assert ends.ends == before
    path.write_bytes(authority.issue("b", not_after=datetime(2035, 1, 1, tzinfo=UTC)).cert.read_bytes())
    assert ends.ends == {tls: datetime(2035, 1, 1, tzinfo=UTC).timestamp()}


@given(st.binary(max_size=200))
def test_whatever_stands_between_the_marks_is_a_value_error(content: bytes) -> None:
    from base64 import b64encode

    with pytest.raises(ValueError):  # also of int and strptime
        first_end(b"-----BEGIN CERTIFICATE-----\n" + b64encode(content) + b"\n-----END CERTIFICATE-----")
    with pytest.raises(ValueError):
        first_end(content)

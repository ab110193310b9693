"""PEM files that cannot be used: one sentence that names the setting, the file and what is expected."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.net.tls import TlsFiles
from support.certificates import Authority

JUNK_CERT = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
JUNK_KEY = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pem")
    authority = Authority(folder)
    a, _ = authority.issue("a"), authority.issue("b")
    authority.issue("locked", password="open sesame")
    (folder / "both.pem").write_bytes(a.key.read_bytes() + a.cert.read_bytes())
    (folder / "empty").write_bytes(b"")
    (folder / "junk.crt").write_bytes(JUNK_CERT)
    (folder / "junk.key").write_bytes(JUNK_KEY)
    (folder / "folder").mkdir()
    return folder


def files(folder: Path, cert: str, key: str, password: str | None = None) -> TlsFiles:
    return TlsFiles(
        setting="tls_",
        ca_setting="tls_client_ca",
        cert=str(folder / cert),
        key=str(folder / key),
        key_password=password,
    )


@pytest.mark.parametrize(
    ("cert", "key", "said"),
    [
        ("no.crt", "a.key", "tls_cert: cannot use {}/no.crt: No such file or directory; expected a file with a PEM"),
        ("folder", "a.key", "tls_cert: cannot use {}/folder: it is not a file; expected a file with a PEM certificate"),
        ("empty", "a.key", "tls_cert: cannot use {}/empty: there is no PEM certificate in it"),
        ("a.key", "a.key", "tls_cert: cannot use {}/a.key: there is no PEM certificate in it"),
        ("junk.crt", "a.key", "tls_cert, tls_key: {}/junk.crt and {}/a.key hold no certificate and key that can be"),
        ("a.crt", "no.key", "tls_key: cannot use {}/no.key: No such file or directory; expected a file with a PEM"),
        ("a.crt", "folder", "tls_key: cannot use {}/folder: it is not a file; expected a file with a PEM private key"),
        ("a.crt", "a.crt", "tls_key: cannot use {}/a.crt: there is no PEM private key in it"),
        ("a.crt", "junk.key", "tls_cert, tls_key: {}/a.crt and {}/junk.key hold no certificate and key that can be"),
        ("a.crt", "b.key", "tls_key: {}/b.key is not the key of the certificate in {}/a.crt"),
        ("locked.crt", "locked.key", "tls_key: {}/locked.key is encrypted; set tls_key_password"),
    ],
)
def test_bad_certificates_and_keys(cert: str, key: str, said: str, folder: Path) -> None:
    for context in (files(folder, cert, key).server_context, files(folder, cert, key).client_context):
        with pytest.raises(ConfigError) as raised:
            context()
        assert str(raised.value).startswith(said.replace("{}", str(folder)))
        assert "\n" not in str(raised.value)
        assert "_ssl.c" not in str(raised.value)


def test_a_wrong_password_is_hinted_at_and_not_shown(folder: Path) -> None:
    with pytest.raises(ConfigError, match="or tls_key_password is not its password") as raised:
        files(folder, "locked.crt", "locked.key", "s3cret").server_context()
    assert "s3cret" not in str(raised.value) + repr(files(folder, "locked.crt", "locked.key", "s3cret"))


@pytest.mark.parametrize(
    ("cert", "key", "password"),
    [
        ("a.crt", "a.key", None),
        ("a.crt", "a.key", "of no use"),
        ("both.pem", "both.pem", None),
        ("locked.crt", "locked.key", "open sesame"),
    ],
)
def test_good_ones(cert: str, key: str, password: str | None, folder: Path) -> None:
    context = files(folder, cert, key, password).server_context()
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    ("ca", "said"),
    [
        ("no.pem", "cannot use {}/no.pem: No such file or directory; expected a file with a PEM certificate"),
        ("folder", "cannot use {}/folder: it is not a file"),
        ("a.key", "cannot use {}/a.key: there is no PEM certificate in it"),
        ("junk.crt", "{}/junk.crt holds certificates that cannot be used ("),
    ],
)
def test_bad_authorities(ca: str, said: str, folder: Path) -> None:
    path = str(folder / ca)
    client = TlsFiles(setting="upstream_tls.", ca_setting="upstream_tls.ca", ca=path)
    server = TlsFiles(
        setting="tls_", ca_setting="tls_client_ca", cert=str(folder / "a.crt"), key=str(folder / "a.key"), ca=path
    )
    for context, setting in ((client.client_context, "upstream_tls.ca"), (server.server_context, "tls_client_ca")):
        with pytest.raises(ConfigError) as raised:
            context()
        assert str(raised.value).startswith(f"{setting}: {said.replace('{}', str(folder))}")


def test_an_authority_of_ours_stands_in_place_of_the_systems(folder: Path) -> None:
    trusting = TlsFiles(
        setting="upstream_tls.", ca_setting="upstream_tls.ca", ca=str(folder / "ca.pem")
    ).client_context()
    assert len(trusting.get_ca_certs()) == 1
    assert trusting.check_hostname
    assert trusting.verify_mode == ssl.CERT_REQUIRED

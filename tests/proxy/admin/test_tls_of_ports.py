"""TLS on the admin port and on both OTLP ports, and what they show when files are replaced, broken and repaired."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import httpx
import pytest
from a2a_eval_proxy.app import run_proxy
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.net import file_watcher
from a2a_eval_proxy.settings.parts import TlsFilesOptions, TlsPorts
from a2a_eval_proxy.settings.settings import Settings
from cryptography import x509
from support.certificates import Authority, MountedSecret
from support.patience import PATIENCE_S

TOKEN = "admin-0123456789abcdef"


def settings(folder: Path, secret: MountedSecret, **given: object) -> Settings:
    files = {f"tls_{part}": str(secret / f"tls.{end}") for part, end in PARTS}
    ports = dict.fromkeys(("listen", "admin", "otlp"), "127.0.0.1:0")
    store = str(folder / "turns.db")
    return Settings(upstream="http://127.0.0.1:9", store=store, admin_token=TOKEN, **{**ports, **files, **given})


PARTS = (("cert", "crt"), ("key", "key"))
OFF = TlsFilesOptions()


async def serial_at(url: str) -> int:
    """That of the certificate which the server shows."""
    parts = httpx.URL(url)
    assert parts.scheme == "https"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(parts.host, parts.port, ssl=context)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()
        await writer.wait_closed()
    return x509.load_der_x509_certificate(shown).serial_number


async def until_logged(caplog: pytest.LogCaptureFixture, text: str, times: int = 1) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while caplog.text.count(text) < times:
            await asyncio.sleep(0.01)


async def test_admin_and_traces_over_tls_with_files_that_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(file_watcher, "CHECK_EVERY_S", 0.02)
    authority = Authority(tmp_path / "ca")
    first, second = authority.issue("first"), authority.issue("second")
    secret = MountedSecret(tmp_path / "secret")
    secret.put_pair(first)
    async with run_proxy(settings(tmp_path, secret)) as proxy:
        urls = proxy.admin_url, str(proxy.otlp_url)
        async with httpx.AsyncClient(verify=authority.client()) as client:
            bearer = {"authorization": f"Bearer {TOKEN}"}
            assert (await client.get(f"{urls[0]}/api/turns", headers=bearer)).status_code == 200
            metrics = await client.get(f"{urls[0]}/metrics", headers=bearer)
            assert "a2a_eval_proxy_loop_delay_seconds_bucket" in metrics.text
            cookie = (await client.get(proxy.control.page_address())).headers["set-cookie"]
            assert "Secure" in cookie.split("; ")
            exported = await client.post(
                f"{urls[1]}/v1/traces", headers={"content-type": "application/json"}, content="{}"
            )
            assert exported.status_code == 200
        async with httpx.AsyncClient() as stranger:
            for url in urls:
                with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                    await stranger.get(url)
                with pytest.raises(httpx.RemoteProtocolError):
                    await stranger.get(url.replace("https", "http"))
        secret.put(tls_crt=second.cert.read_bytes(), tls_key=first.key.read_bytes())  # they do not fit
        await until_logged(caplog, "cannot be replaced, the earlier one stays in use", times=2)
        assert [await serial_at(url) for url in urls] == [first.serial] * 2
        secret.put_pair(second)
        await until_logged(caplog, "TLS of the admin port: replaced")
        await until_logged(caplog, "TLS for traces: replaced")
        assert [await serial_at(url) for url in urls] == [second.serial] * 2


async def test_a_file_that_cannot_be_used_is_one_sentence_at_the_start(tmp_path: Path) -> None:
    secret = MountedSecret(tmp_path / "secret")
    secret.put(tls_crt=b"", tls_key=b"")
    own = TlsFilesOptions(cert=str(secret / "tls.crt"), key=str(secret / "tls.key"))
    for ports, setting in (
        (TlsPorts(), "tls_cert"),
        (TlsPorts(listen=OFF, admin=own, otlp=OFF), "tls_ports.admin.cert"),
    ):
        with pytest.raises(ConfigError, match=rf"^{setting}: cannot use .*there is no PEM certificate in it"):
            async with run_proxy(settings(tmp_path, secret, tls_ports=ports)):
                pass

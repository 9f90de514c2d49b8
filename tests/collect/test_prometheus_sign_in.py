"""Signing in at Prometheus: tokens, passwords and certificates, which are never shown and never carried elsewhere."""

from pathlib import Path

import pytest

from diagnostics.collect.target import PrometheusTarget
from diagnostics.snapshot import SourceState
from tests.collect.test_prometheus import EMPTY, read, status
from tests.fakes.prometheus import as_json, prometheus
from tests.fakes.web import Reply, web


def test_sends_a_bearer_token_and_shows_it_nowhere(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with prometheus(lambda kind, asked: Reply(b"", status=403)) as fake:
        readings = read(fake.url, target=PrometheusTarget(url=fake.url, bearer_token_file=token))
    assert fake.asked[0].headers["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(readings)


@pytest.mark.parametrize("in_url", [True, False])
def test_sends_basic_auth_and_shows_it_nowhere(tmp_path: Path, in_url: bool) -> None:
    password = tmp_path / "password"
    password.write_text("s3cr%t\n")
    with prometheus(lambda kind, asked: Reply(b"", status=401)) as fake:
        if in_url:
            target = PrometheusTarget(url=fake.url.replace("//", "//me:s3cr%25t@"))
        else:
            target = PrometheusTarget(url=fake.url, username="me", password_file=password)
        readings = read(fake.url, target=target)
    assert fake.asked[0].headers["Authorization"] == "Basic bWU6czNjciV0"
    assert "s3cr" not in repr(readings)
    assert "me:" not in repr(readings)


def test_does_not_carry_a_token_elsewhere(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    with web(lambda asked: as_json(EMPTY)) as other:
        moved = Reply(status=307, headers={"Location": other.url})
        with web(lambda asked: moved) as fake:
            read(fake.url, target=PrometheusTarget(url=fake.url, bearer_token_file=token))
    assert other.asked == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"bearer_token_file": "gone"}, "bearer token file"),
        ({"bearer_token_file": "empty"}, "holds no bearer token"),
        ({"bearer_token_file": "binary"}, "bearer token file"),
        ({"username": "me", "password_file": "gone"}, "password file"),
        ({"ca_file": "gone"}, "CA file"),
        ({"ca_file": "empty"}, "is the CA file no certificate?"),
    ],
)
def test_says_which_file_is_missing(tmp_path: Path, fields: dict[str, str], words: str) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    paths = {name: tmp_path / value if name.endswith("file") else value for name, value in fields.items()}
    with prometheus() as fake:
        url = fake.url.replace("http://", "https://") if "ca_file" in fields else fake.url
        readings = read(url, target=PrometheusTarget(url=url, **paths))  # type: ignore[arg-type]
    assert status(readings).state is SourceState.FAILED
    assert words in status(readings).detail


def test_ignores_a_netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with prometheus() as fake:
        read(fake.url)
    assert all("Authorization" not in asked.headers for asked in fake.asked)

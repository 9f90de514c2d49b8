"""The transport: bounded, patient where it is told to be, GET only, and never with a secret in its words."""

import gzip
import json
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from diagnostics.collect.kube_client import KubeConnection, connect
from diagnostics.collect.kubeconfig import api_client
from diagnostics.collect.refusal import Refused
from diagnostics.collect.target import Target
from diagnostics.snapshot import SourceState
from tests.fakes.replay import Replay, recorded_error
from tests.fakes.web import Asked, Reply, web

Serve = Callable[[str], Replay]
MakeTarget = Callable[..., Target]
PODS = "/api/v1/pods"


def bearer(asked: Asked) -> str:
    """The official client writes header names in lower case."""
    return {name.lower(): value for name, value in asked.headers.items()}["authorization"]


def refused(target: Target, path: str = PODS, **clocks: Any) -> Refused:
    with KubeConnection(api_client(target), target, **clocks) as connection, pytest.raises(Refused) as caught:
        connection.get(path)
    return caught.value


def test_reads_a_zipped_answer_and_signs_in(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    with connect(target(served)) as connection:
        answer = connection.get(PODS, {"limit": 2})
    assert len(json.loads(answer.body)["items"]) == 2
    [asked] = served.asked
    assert bearer(asked) == "Bearer lab-token-for-tests"
    assert asked.headers["Accept-Encoding"] == "gzip"
    assert answer.headers["Content-Encoding"] == "gzip"


def test_measures_the_skew_of_the_servers_clock(replay: Serve, target: MakeTarget) -> None:
    aim = target(replay("healthy"))
    hour_behind = lambda: datetime.now(UTC) - timedelta(hours=1)  # noqa: E731
    with KubeConnection(api_client(aim), aim, clock=hour_behind) as connection:
        connection.get("/version")
        assert connection.clock_skew is not None
        assert abs(connection.clock_skew - timedelta(hours=1)) < timedelta(seconds=10)


@pytest.mark.parametrize(
    ("folder", "path", "state", "words"),
    [
        ("healthy/as-badtoken", PODS, SourceState.FORBIDDEN, "does not accept these credentials"),
        (
            "healthy/as-viewer",
            "/api/v1/nodes",
            SourceState.FORBIDDEN,
            'User "lab-viewer" cannot list resource "nodes"',
        ),
        ("healthy", "/apis/none/v1/things", SourceState.ABSENT, "could not find the requested resource"),
    ],
)
def test_says_a_refusal_in_the_apis_own_words(
    folder: str, path: str, state: SourceState, words: str, replay: Serve, target: MakeTarget
) -> None:
    error = refused(target(replay(folder)), path)
    assert error.state is state
    assert words in error.detail


@pytest.mark.parametrize("status", [400, 500, 502, 503, 504])
def test_takes_other_statuses_for_failures(status: int, replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(PODS, Reply(b"<html>\x1b[31mno</html>", status))
    error = refused(target(served))
    assert error.state is SourceState.FAILED
    assert f"HTTP {status}" in error.detail
    assert "\x1b" not in error.detail


def test_does_not_follow_a_redirect_with_the_token(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(PODS, Reply(b"", 302, headers={"Location": served.url + "/login"}))
    assert "leads elsewhere" in refused(target(served)).detail
    assert [asked.path for asked in served.asked] == [PODS]


def test_waits_on_429_as_long_as_told(replay: Serve, target: MakeTarget) -> None:
    served, waits = replay("healthy"), list[float]()
    body = recorded_error("429_custom_resource_not_ready.json")
    served.fault(PODS, Reply(body, 429, headers={"Retry-After": "3"}), times=1)
    served.fault(PODS, Reply(body, 429), times=1)
    served.fault(PODS, Reply(b"slow down", 429), times=1)
    aim = target(served)
    with KubeConnection(api_client(aim), aim, sleep=waits.append) as connection:
        assert connection.get(PODS).status == 200
    assert waits == [3.0, 1.0, 3.0], "the header, then the Status object, then a growing wait of our own"


def test_gives_up_on_endless_429(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(PODS, Reply(b"", 429, headers={"Retry-After": "1"}))
    error = refused(target(served), sleep=lambda _: None)
    assert error.state is SourceState.FAILED
    assert len(served.asked) == 4


def test_does_not_wait_longer_than_a_pass_can_bear(replay: Serve, target: MakeTarget) -> None:
    served, waits = replay("healthy"), list[float]()
    served.fault(PODS, Reply(b"", 429, headers={"Retry-After": "3600"}))
    assert "429" in refused(target(served), sleep=waits.append).detail
    assert waits == []


def test_asks_once_more_after_a_broken_connection(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(PODS, Reply(b"x" * 100, cut_after=5), times=1)
    with connect(target(served)) as connection:
        assert connection.get(PODS).status == 200
    served.fault(PODS, Reply(b"x" * 100, cut_after=5))
    assert "broke twice" in refused(target(served)).detail


def test_gives_up_a_silent_server(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(PODS, Reply(b"{}", wait_s=0.6))
    assert "no answer to /api/v1/pods within 0.2 s" in refused(target(served, request_timeout_s=0.2)).detail


def test_gives_up_a_dripping_server(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(PODS, Reply(b"x" * 40, drip_s=0.05))
    assert "not complete in time" in refused(target(served, request_timeout_s=0.2)).detail


def test_stops_when_the_whole_pass_takes_too_long(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    assert "whole pass took longer" in refused(target(served, poll_timeout_s=0.0)).detail
    assert served.asked == []


@pytest.mark.parametrize("body", [b"x" * 3_000_000, gzip.compress(b"\0" * 300_000_000)])
def test_gives_up_an_answer_that_is_too_large(body: bytes, replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    headers = {"Content-Encoding": "gzip"} if body.startswith(b"\x1f\x8b") else {}
    served.fault(PODS, Reply(body, headers=headers))
    assert "larger than 2 MiB" in refused(target(served, max_page_bytes=2 * 2**20)).detail


def test_cuts_a_long_log_where_asked_to(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault("/log", Reply(b"y" * 5_000_000))
    with connect(target(served)) as connection:
        answer = connection.get("/log", max_bytes=1000, is_cuttable=True)
        assert answer.body == b"y" * 1000
        assert answer.is_cut
        assert connection.get("/version").status == 200, "the connection is usable afterwards"


def test_says_that_zipped_data_is_broken(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(PODS, Reply(b"not gzip at all", headers={"Content-Encoding": "gzip"}))
    assert "not valid gzip" in refused(target(served)).detail


def test_does_not_wait_for_an_unreachable_server_again_and_again(replay: Serve, target: MakeTarget) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    aim = target(replay("healthy"))
    assert aim.kubeconfig is not None
    text = json.loads(aim.kubeconfig.read_text())
    text["clusters"][0]["cluster"]["server"] = f"http://bob:hunter2@127.0.0.1:{port}"
    aim.kubeconfig.write_text(json.dumps(text))
    with connect(aim) as connection:
        with pytest.raises(Refused, match="refused the connection") as first:
            connection.get(PODS)
        with pytest.raises(Refused) as second:
            connection.get("/version")
    assert second.value is first.value
    assert "hunter2" not in first.value.detail


def test_says_that_tls_failed(replay: Serve, target: MakeTarget) -> None:
    aim = target(replay("healthy"))
    assert aim.kubeconfig is not None
    aim.kubeconfig.write_text(aim.kubeconfig.read_text().replace("http://", "https://"))
    assert "TLS with the API server" in refused(aim).detail


class TestKubeconfig:
    def sentence(self, target: Target) -> str:
        with pytest.raises(Refused) as caught:
            connect(target)
        assert caught.value.state is SourceState.FAILED
        return caught.value.detail

    def test_names_a_missing_file(self, tmp_path: Path) -> None:
        path = tmp_path / "none"
        assert self.sentence(Target(name="x", kubeconfig=path)) == f"there is no kubeconfig at {path}"

    def test_uses_the_default_chain(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "other"))
        assert "other" in self.sentence(Target(name="x"))

    def test_names_a_missing_context(self, replay: Serve, target: MakeTarget) -> None:
        aim = target(replay("healthy"))
        bad = Target(name="x", kubeconfig=aim.kubeconfig, context="prod")
        assert "has no context 'prod'" in self.sentence(bad)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("a: [b", "not valid YAML (line 1)"),
            ("", "not valid"),
            ("just words", "not valid"),
            ("[1, 2]", "not valid"),
            ("clusters: 5\ncontexts: {}\ncurrent-context: x", "not valid"),
            ("\x00", "not valid"),
        ],
    )
    def test_says_what_is_wrong_with_a_file(self, text: str, words: str, tmp_path: Path) -> None:
        path = tmp_path / "kubeconfig"
        path.write_text(text)
        assert words in self.sentence(Target(name="x", kubeconfig=path))

    def test_keeps_the_secrets_of_a_broken_file_to_itself(self, tmp_path: Path) -> None:
        path = tmp_path / "kubeconfig"
        path.write_text(
            "current-context: a\nusers: [{name: a, user: {token: s3cr3tt0ken}}]\nclusters: []\n"
            "contexts: [{name: a, context: {user: a, cluster: gone}}]"
        )
        detail = self.sentence(Target(name="x", kubeconfig=path))
        assert "name gone" in detail
        assert "s3cr3tt0ken" not in detail

    @pytest.mark.parametrize(
        ("script", "words"),
        [
            ("echo no session for token=s3cr3tvalue >&2; exit 1", "no session for token=[masked]"),
            ("echo garbage", "failed to decode"),
            ("true", "failed to decode"),
        ],
    )
    def test_says_that_a_sign_in_plugin_failed(
        self, script: str, words: str, replay: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script]}
        path = replay("healthy").kubeconfig(tmp_path / "k", exec=plugin)
        detail = self.sentence(Target(name="x", kubeconfig=path))
        assert "sign-in plugin failed" in detail
        assert words in detail
        assert "s3cr3tvalue" not in caplog.text + detail

    def test_gives_up_a_plugin_that_hangs(self, replay: Serve, tmp_path: Path) -> None:
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["1"]}
        path = replay("healthy").kubeconfig(tmp_path / "k", exec=plugin)
        detail = self.sentence(Target(name="x", kubeconfig=path, request_timeout_s=0.1))
        assert "did not finish" in detail

    def test_signs_in_with_a_plugin(self, replay: Serve, tmp_path: Path) -> None:
        served = replay("healthy")
        credential = json.dumps(
            {
                "apiVersion": "client.authentication.k8s.io/v1",
                "kind": "ExecCredential",
                "status": {"token": "from-plugin", "expirationTimestamp": "2026-01-01T00:00:00Z"},
            }
        )
        plugin = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", f"echo '{credential}'; echo x >> {tmp_path}/runs"],
        }
        with connect(
            Target(name="x", kubeconfig=served.kubeconfig(tmp_path / "k", exec=plugin))
        ) as connection:
            connection.get("/version")
            connection.get("/version")
        assert bearer(served.asked[0]) == "Bearer from-plugin"
        assert (tmp_path / "runs").read_text() == "x\n", "run once for a pass"

    def test_reads_a_token_file_with_its_newline(self, replay: Serve, tmp_path: Path) -> None:
        served = replay("healthy")
        (tmp_path / "token").write_text("from-file\n")
        path = served.kubeconfig(tmp_path / "k", tokenFile=str(tmp_path / "token"))
        with connect(Target(name="x", kubeconfig=path)) as connection:
            connection.get("/version")
        assert bearer(served.asked[0]) == "Bearer from-file"

    def test_names_a_token_file_that_is_missing(self, replay: Serve, tmp_path: Path) -> None:
        path = replay("healthy").kubeconfig(tmp_path / "k", tokenFile=str(tmp_path / "gone"))
        assert f"{tmp_path}/gone, which the kubeconfig" in self.sentence(Target(name="x", kubeconfig=path))

    def test_never_shows_a_token_that_no_header_can_hold(self, replay: Serve, tmp_path: Path) -> None:
        path = replay("healthy").kubeconfig(tmp_path / "k", token="s3cr3t\nt0ken")
        assert "s3cr3t" not in refused(Target(name="x", kubeconfig=path)).detail

    def test_says_that_it_is_not_in_a_cluster(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        assert "from inside the cluster" in self.sentence(Target(name="x", in_cluster=True))

    def test_goes_through_a_proxy_that_the_kubeconfig_names(self, replay: Serve, target: MakeTarget) -> None:
        aim = target(replay("healthy"))
        assert aim.kubeconfig is not None
        text = json.loads(aim.kubeconfig.read_text())

        def proxy(asked: Asked) -> Reply:
            return Reply(b"{}", content_type="application/json")

        with web(proxy) as served:
            text["clusters"][0]["cluster"] = {"server": "http://cluster.example", "proxy-url": served.url}
            aim.kubeconfig.write_text(json.dumps(text))
            with connect(aim) as connection:
                assert connection.get("/version").body == b"{}"

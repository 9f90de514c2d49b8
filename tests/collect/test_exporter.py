"""dcgm-exporter read directly: its addresses, its text, and what becomes of the ones that fail."""

import socket
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.collect.dcgm import Skips
from diagnostics.collect.exporter import exporter_urls, read_exporters, samples_of
from diagnostics.collect.readings import Readings
from diagnostics.collect.target import Target
from diagnostics.snapshot import Pod, Service, Source, SourceState, SourceStatus
from tests.fakes.web import Asked, Reply, web

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)


def text(node: str = "gpu-node-01", gpus: int = 2, **labels: str) -> bytes:
    """What dcgm-exporter prints for a node, with comments and metrics that we do not read."""
    lines = ["# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).", "# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for index in range(gpus):
        named = {
            "gpu": str(index),
            "UUID": f"GPU-{node}-{index}",
            "pci_bus_id": f"00000000:{0x0F + index:02X}:00.0",
            "device": f"nvidia{index}",
            "modelName": "NVIDIA H100 80GB HBM3",
            "Hostname": node,
            **labels,
        }
        inside = ",".join(f'{name}="{value}"' for name, value in named.items())
        lines.append(f"DCGM_FI_DEV_GPU_UTIL{{{inside}}} 98")
        lines.append(f"DCGM_FI_DEV_POWER_USAGE{{{inside}}} 71.448000")
        lines.append(f"DCGM_FI_DEV_ENC_UTIL{{{inside}}} 0")
    return "\n".join(lines).encode() + b"\n"


def status(readings: Readings, source: Source = Source.METRICS) -> SourceStatus:
    return next(s for s in readings.statuses if s.name is source)


def read(reply: Reply | bytes, timeout_s: float = 5.0) -> Readings:
    served = reply if isinstance(reply, Reply) else Reply(reply)
    with web(lambda asked: served) as exporter:
        return read_exporters([(None, f"{exporter.url}/metrics")], NOW, timeout_s)


def test_reads_every_device_of_every_exporter() -> None:
    def answer(asked: Asked) -> Reply:
        return Reply(text(node=asked.path.strip("/"), namespace="a", pod="w"), is_zipped=True)

    with web(answer) as exporters:
        urls = [("n1", f"{exporters.url}/n1"), (None, f"{exporters.url}/n2")]
        readings = read_exporters(urls, NOW, 5.0)
    assert [(d.node_hints[0], d.index) for d in readings.devices] == [
        ("n1", 0), ("n1", 1), ("n2", 0), ("n2", 1),
    ]  # fmt: skip
    assert readings.devices[0].metrics.utilization_ratio == 0.98
    assert readings.devices[0].metrics.sampled_at == NOW
    assert readings.has_pod_labels is True
    assert (status(readings).state, status(readings).items) == (SourceState.OK, 4)
    assert status(readings, Source.WINDOW).state is SourceState.ABSENT
    assert "Prometheus" in status(readings, Source.WINDOW).detail
    assert {a.method for a in exporters.asked} == {"GET"}


def test_says_when_no_series_names_a_pod() -> None:
    assert read(text()).has_pod_labels is False


def test_one_dead_exporter_costs_only_its_own_devices() -> None:
    with web(lambda asked: Reply(text())) as alive, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}/metrics"
        readings = read_exporters([(None, dead), (None, f"{alive.url}/metrics")], NOW, 5.0)
    assert len(readings.devices) == 2
    assert readings.exporters_down == (dead,)
    assert status(readings).state is SourceState.PARTIAL
    assert "1 of 2 exporters" in status(readings).detail
    assert "refuses the connection" in status(readings).detail


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(b"no", status=401), "credentials (401)"),
        (Reply(b"no", status=403), "forbids"),
        (Reply(b"no", status=404), "nothing at this address (404)"),
        (Reply(b"boom", status=500), "failed inside (500)"),
        (Reply(b"<html>Sign in</html>", content_type="text/html"), "web page"),
        (Reply(b"  <!doctype html>"), "web page"),
        (
            Reply(status=302, headers={"Location": "http://me:pw@login.example/x?token=t"}),
            "sends us elsewhere",
        ),
        (Reply(text(), cut_after=40), "broke off"),
        (Reply(b"\x1f\x8bgarbage", headers={"Content-Encoding": "gzip"}), "broke off"),
    ],
)
def test_says_in_plain_words_why_an_exporter_cannot_be_read(reply: Reply, words: str) -> None:
    readings = read(reply)
    assert readings.devices == ()
    assert readings.has_pod_labels is None
    assert status(readings).state is SourceState.FAILED
    assert words in status(readings).detail
    assert "pw" not in status(readings).detail
    assert "token" not in status(readings).detail


def test_does_not_follow_a_redirect() -> None:
    with web(lambda asked: Reply(text())) as other:
        target = f"{other.url}/metrics"
        read(Reply(status=302, headers={"Location": target}))
    assert other.asked == []


@pytest.mark.parametrize("reply", [Reply(text(), wait_s=0.6), Reply(text(), drip_s=0.05)])
def test_gives_up_on_a_slow_exporter(reply: Reply) -> None:
    started = time.monotonic()
    readings = read(reply, timeout_s=0.2)
    assert time.monotonic() - started < 5
    assert "within 0.2 s" in status(readings).detail


def test_gives_up_on_an_endless_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.collect.exporter.MOST_BYTES", 2**20)
    packed = Reply(b"DCGM_FI_DEV_GPU_UTIL " * 2**17, is_zipped=True)
    assert "more than 1 MiB" in status(read(packed)).detail


def test_says_when_an_answer_is_no_dcgm_exporters() -> None:
    readings = read(b"# TYPE up gauge\nup 1\n")
    assert status(readings).state is SourceState.ABSENT
    assert "is it dcgm-exporter?" in status(readings).detail


def test_says_when_nothing_is_named() -> None:
    assert status(read_exporters([], NOW, 1.0)).state is SourceState.ABSENT


def test_sends_the_addresses_own_credentials_and_shows_them_nowhere() -> None:
    with web(lambda asked: Reply(b"no", status=403)) as exporter:
        url = exporter.url.replace("http://", "http://me:s3cret@") + "/metrics?key=s3cret"
        readings = read_exporters([(None, url)], NOW, 5.0)
    assert exporter.asked[0].headers["Authorization"].startswith("Basic ")
    assert "s3cret" not in repr(readings)


@pytest.mark.parametrize("url", ["", "ftp://x/y", "http://", "http://[::1", "not a url", "http://a b/"])
def test_survives_an_address_that_is_none(url: str) -> None:
    readings = read_exporters([(None, url)], NOW, 1.0)
    assert status(readings).state is SourceState.FAILED


def test_counts_a_device_once_that_two_exporters_show() -> None:
    with web(lambda asked: Reply(text())) as exporter:
        readings = read_exporters([(None, f"{exporter.url}/a"), (None, f"{exporter.url}/b")], NOW, 5.0)
    assert len(readings.devices) == 2
    assert [(s.reason, s.count) for s in status(readings).skipped] == [
        ("device is shown by two exporters", 2)
    ]


def parsed(body: bytes) -> tuple[list[float], dict[str, int]]:
    skips = Skips()
    values = [s.value for s in samples_of(body, NOW, skips)]
    return values, {s.reason: s.count for s in skips.listed()}


def test_a_broken_line_costs_no_other() -> None:
    body = (
        text(gpus=1)
        + b'DCGM_FI_DEV_GPU_UTIL{gpu="1" 98\nDCGM_FI_DEV_GPU_UTIL{gpu="2"} abc\n%%%\n\xff\xfe 3\n'
    )
    body += b'DCGM_FI_DEV_GPU_TEMP{gpu="3",UUID="GPU-\xff"} 41\n'
    values, skipped = parsed(body)
    assert values == [98, 71.448, 41]
    assert skipped == {"line is not in the exposition format": 4}


@given(st.data())
def test_survives_any_damage_to_a_line(data: st.DataObject) -> None:
    good = b'DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-1",pod="a\\"b"} 98 1762171200000'
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, len(good)))
    damaged = good[:start] + data.draw(st.binary(max_size=6)) + good[end:]
    values, _ = parsed(damaged + b"\n" + text(gpus=1))
    assert values[-2:] == [98, 71.448]


@pytest.mark.parametrize("at", [b"1e300", b"999999999999999999", b"-1e18", b"NaN"])
def test_an_absurd_time_is_a_broken_line(at: bytes) -> None:
    values, skipped = parsed(b'DCGM_FI_DEV_GPU_TEMP{gpu="3"} 41 ' + at + b"\n" + text(gpus=1))
    assert values == [98, 71.448]
    assert skipped == {"line is not in the exposition format": 1}


def test_a_huge_line_costs_no_other() -> None:
    huge = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",err_msg="' + b"x" * 10 * 2**20 + b'"} 98\n'
    values, skipped = parsed(text(gpus=1) + huge + b"y" * 10 * 2**20)
    assert values == [98, 71.448]
    assert skipped == {"line is too long": 1, "line is not in the exposition format": 1}


def test_takes_the_texts_own_times() -> None:
    (found,) = samples_of(b'DCGM_FI_DEV_GPU_TEMP{gpu="3"} 41 1762171200000\n', NOW, Skips())
    assert found.at == datetime(2025, 11, 3, 12, 0, tzinfo=UTC)


def test_reads_quotes_and_line_breaks_in_labels() -> None:
    (found,) = samples_of(b'DCGM_FI_DEV_GPU_TEMP{gpu="3",pod="a\\"b\\n{}=,c"} 41\n', NOW, Skips())
    assert found.labels["pod"] == 'a"b\n{}=,c'


@pytest.fixture
def cluster() -> tuple[list[Service], list[Pod]]:
    service = Service(namespace="gpu-operator", name="nvidia-dcgm-exporter", selector={"app": "dcgm"})

    def pod(name: str, ip: str, node: str, **fields: Any) -> Pod:
        defaults: dict[str, Any] = {
            "namespace": "gpu-operator",
            "phase": "Running",
            "labels": {"app": "dcgm", "x": "y"},
        }
        return Pod(name=name, ip=ip, node=node, **(defaults | fields))

    pods = [
        pod("e1", "10.0.0.1", "n1"),
        pod("e2", "fd00::2", "n2"),
        pod("other", "10.0.0.3", "n3", labels={"app": "web"}),
        pod("elsewhere", "10.0.0.4", "n4", namespace="team-a"),
        pod("finished", "10.0.0.5", "n5", phase="Failed"),
        pod("young", "", "n6", phase="Pending"),
    ]
    return [service], pods


def test_finds_the_pods_behind_a_service(cluster: tuple[list[Service], list[Pod]]) -> None:
    target = Target(name="c", exporters=("service:gpu-operator/nvidia-dcgm-exporter",))
    assert exporter_urls(target, *cluster) == (
        ("n1", "http://10.0.0.1:9400/metrics"),
        ("n2", "http://[fd00::2]:9400/metrics"),
    )


def test_takes_the_port_that_is_named(cluster: tuple[list[Service], list[Pod]]) -> None:
    target = Target(name="c", exporters=("service:gpu-operator/nvidia-dcgm-exporter:9401",))
    assert exporter_urls(target, *cluster)[0] == ("n1", "http://10.0.0.1:9401/metrics")


def test_knows_the_node_of_an_address_that_is_a_pods(cluster: tuple[list[Service], list[Pod]]) -> None:
    urls = ("http://10.0.0.3:9400/metrics", "http://10.9.9.9:9400/metrics", "http://10.0.0.3:9400/metrics")
    assert exporter_urls(Target(name="c", exporters=urls), *cluster) == (("n3", urls[0]), (None, urls[1]))


@pytest.mark.parametrize("entry", ["service:gpu-operator/gone", "service:nonsense"])
def test_reports_a_service_without_pods(cluster: tuple[list[Service], list[Pod]], entry: str) -> None:
    urls = exporter_urls(Target(name="c", exporters=(entry,)), *cluster)
    readings = read_exporters(urls, NOW, 1.0)
    assert status(readings).state is SourceState.FAILED
    assert readings.exporters_down == (entry,)
    assert "no running pod behind it" in status(readings).detail


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)

"""Against a real Prometheus: our PromQL is understood, and both ways of making a window agree."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from diagnostics.collect.dcgm import Sample, devices_from
from diagnostics.collect.exporter import read_exporters
from diagnostics.collect.prometheus import read_prometheus
from diagnostics.collect.readings import DeviceReading, Readings
from diagnostics.collect.target import PrometheusTarget
from diagnostics.collect.windows import RecentSamples, extended, windows_of
from diagnostics.snapshot import Gpu, Source, SourceState, Window, XidSeen
from tests.fakes import gpu_history
from tests.fakes.gpu_history import HANDOVER_AT, NOW, SPAN, STEP, XID_AT
from tests.fakes.prometheus import RECORDINGS, answers_of, recorded
from tests.fakes.web import Asked, Reply, web
from tests.servers import prometheus

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    with prometheus(folder, openmetrics=gpu_history.openmetrics()) as served:
        yield served


def read(url: str, **options: str) -> Readings:
    return read_prometheus(PrometheusTarget(url=url, **options), SPAN, NOW, 10.0)  # type: ignore[arg-type]


def test_understands_every_question(url: str) -> None:
    readings = read(url)
    assert [(s.name, s.state) for s in readings.statuses] == [
        (Source.METRICS, SourceState.PARTIAL),
        (Source.WINDOW, SourceState.OK),
    ]
    assert readings.statuses[0].detail == "1 exporter down: 10.0.0.2:9400"
    assert [d.pods for d in readings.devices] == [("team-a/train-0",), (), ("research/nb-2",)]
    assert {d.metrics.sampled_at for d in readings.devices} == {NOW}


def test_sees_when_an_xid_happened_and_that_another_only_stands(url: str) -> None:
    held, free, _ = (d.window for d in read(url).devices)
    assert held is not None
    assert free is not None
    assert held.xids == (XidSeen(code=79, last_at=XID_AT, count=2),)
    assert free.xids == (XidSeen(code=13, standing_since=NOW - SPAN),)


def test_a_matcher_that_fits_nothing_finds_nothing(url: str) -> None:
    readings = read(url, extra_matchers='cluster="other"')
    assert readings.devices == ()
    assert readings.statuses[0].state is SourceState.ABSENT
    assert read(url, extra_matchers='job=~"nvidia.*", namespace="gpu-operator"').devices != ()


def test_the_recorded_answers_are_what_it_answers(url: str) -> None:
    """With RECORD_ANSWERS=1 they are written anew: needed after a change of the questions."""
    for kind, body in answers_of(url).items():
        if os.environ.get("RECORD_ANSWERS") == "1":
            (RECORDINGS / f"{kind}.json").write_text(json.dumps(body, indent=1) + "\n")
        found, known = body["data"]["result"], recorded(kind)["data"]["result"]
        assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, known))


def _own_windows() -> dict[str, Window]:
    """The same history, polled once a minute by ourselves."""
    recent = RecentSamples()
    for moment in gpu_history.moments():
        samples = (Sample(p.name, p.labels, p.value, moment) for p in gpu_history.at(moment))
        gpus = [_gpu(reading) for reading in devices_from(samples)]
        recent = extended(recent, gpus, moment, SPAN)
    return windows_of(recent, NOW, SPAN)


def _gpu(reading: DeviceReading) -> Gpu:
    return Gpu(
        slot=str(reading.uuid), node="n", uuid=reading.uuid, holders=reading.pods, metrics=reading.metrics
    )


def test_both_ways_of_making_a_window_agree(url: str) -> None:
    own = _own_windows()
    for device in read(url).devices:
        assert device.window is not None
        mine = own[str(device.uuid)]
        assert device.window.coverage_ratio == pytest.approx(mine.coverage_ratio)
        # The exporter's own counts are not among the samples that we keep.
        counted = tuple(msgspec.structs.replace(seen, count=None) for seen in device.window.xids)
        assert counted == mine.xids
        for field in Window.__struct_fields__:
            theirs, ours = getattr(device.window, field), getattr(mine, field)
            if field in {"span", "coverage_ratio", "xids"} or theirs is None:
                assert (theirs is None) == (ours is None)
                continue
            assert (theirs.min, theirs.mean, theirs.max) == pytest.approx((ours.min, ours.mean, ours.max))
    assert own["GPU-c"].coverage_ratio == pytest.approx(((NOW - HANDOVER_AT) / STEP + 1) / 30)


def _exposition(moment: datetime) -> bytes:
    """What dcgm-exporter itself prints: its labels before Prometheus moves them aside."""
    hidden = gpu_history.TARGET.keys()
    lines = []
    for point in gpu_history.at(moment, with_counts=False):
        if point.name == "up":
            continue
        labels = {n.removeprefix("exported_"): v for n, v in point.labels.items() if n not in hidden}
        inside = ",".join(f'{name}="{value}"' for name, value in labels.items())
        lines.append(f"{point.name}{{{inside}}} {point.value}")
    return ("\n".join(lines) + "\n").encode()


def test_scrapes_and_direct_reading_tell_the_same(tmp_path: Path) -> None:
    scraped = threading.Semaphore(0)

    def answer(asked: Asked) -> Reply:
        scraped.release()
        return Reply(_exposition(NOW))

    with web(answer) as exporter, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{closed.getsockname()[1]}"
        jobs = {"gpu-metrics": [exporter.url.removeprefix("http://")], "dcgm": [dead]}
        with prometheus(tmp_path, targets=jobs) as url:
            for _ in range(2):
                assert scraped.acquire(timeout=10)
            deadline = time.monotonic() + 10
            while True:
                target = PrometheusTarget(url=url)
                through = read_prometheus(target, timedelta(seconds=60), datetime.now(UTC), 10.0)
                if (len(through.devices) == 3 and through.exporters_down) or time.monotonic() > deadline:
                    break
                time.sleep(0.2)
        direct = read_exporters([(None, f"{exporter.url}/metrics")], NOW, 5.0)
    assert through.exporters_down == (dead,)
    assert [(d.uuid, d.pods, d.mig_instance, d.pci, d.model, d.driver) for d in through.devices] == [
        (d.uuid, d.pods, d.mig_instance, d.pci, d.model, d.driver) for d in direct.devices
    ]
    for one, other in zip(through.devices, direct.devices, strict=True):
        unsampled = msgspec.structs.replace(one.metrics, sampled_at=None)
        assert unsampled == msgspec.structs.replace(other.metrics, sampled_at=None)
        assert one.window is not None
        assert 0 < one.window.coverage_ratio < 0.3, "scraped every second, for a few of 60 seconds"

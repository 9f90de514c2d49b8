"""GPU metrics from dcgm-exporter's own text, where there is no Prometheus: values of this moment only."""

import re
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from urllib.parse import urlsplit

import msgspec
import requests
from prometheus_client.parser import text_string_to_metric_families

from diagnostics.collect.bounded_http import NoAuth, Unreadable, bounded, refusal, shown_url
from diagnostics.collect.dcgm import Sample, Skips, devices_from
from diagnostics.collect.dcgm_metrics import METRIC_BY_NAME
from diagnostics.collect.readings import DeviceReading, Readings
from diagnostics.collect.target import Target
from diagnostics.snapshot import Pod, Service, Skipped, Source, SourceState, SourceStatus
from diagnostics.text import counted, listed, printable

EXPORTER_PORT = 9400
_SERVICE = re.compile(r"service:(?P<namespace>[^/\s]+)/(?P<name>[^/:\s]+)(?::(?P<port>\d{1,5}))?")
_LINE = re.compile(rb"([A-Za-z_:][A-Za-z0-9_:]*)[{ \t]")

MOST_BYTES = 32 * 2**20
"""Of one exporter; 16 GPUs with every field and label come to about 200 KiB."""
MOST_LINE_BYTES = 16 * 1024
_READERS = 8

_UNPARSABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, OSError)
"""What the parser, and the conversion of a time, raise on a line that is broken."""

BROKEN = "line is not in the exposition format"
TOO_LONG = "line is too long"
SEEN_TWICE = "device is shown by two exporters"
WINDOW_ABSENT = "needs Prometheus or earlier polls"


def exporter_urls(
    target: Target, services: Iterable[Service], pods: Iterable[Pod]
) -> tuple[tuple[str | None, str], ...]:
    """(node, URL) of each exporter that `target` names, each once; the node is None where nothing tells it.

    `service:<namespace>/<name>[:port]` becomes the running pods that the Service selects, port 9400 unless
    named. An entry without such pods stays as it is, for `read_exporters` to report.
    """
    by_name = {(s.namespace, s.name): s for s in services}
    running = [p for p in pods if p.ip and not p.is_finished]
    node_by_ip = {p.ip: p.node for p in running}
    found: dict[str, str | None] = {}
    for entry in target.exporters:
        named = _SERVICE.fullmatch(entry.strip())
        if named is None:
            found.setdefault(entry, node_by_ip.get(_host(entry)))
            continue
        service = by_name.get((named["namespace"], named["name"]))
        chosen = [p for p in running if service is not None and _selects(service, p)]
        for pod in chosen:
            host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
            found.setdefault(f"http://{host}:{named['port'] or EXPORTER_PORT}/metrics", pod.node)
        if not chosen:
            found.setdefault(entry, None)
    return tuple((node, url) for url, node in found.items())


def _selects(service: Service, pod: Pod) -> bool:
    selector = service.selector
    return (
        bool(selector)
        and pod.namespace == service.namespace
        and all(pod.labels.get(name) == value for name, value in selector.items())
    )


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


class _Read(msgspec.Struct, frozen=True):
    """One exporter's answer; `failure` is empty where it could be read."""

    url: str
    devices: tuple[DeviceReading, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    failure: str = ""


def read_exporters(
    urls: Iterable[tuple[str | None, str]], now: datetime, timeout_s: float, *, budget_s: float = 60.0
) -> Readings:
    """All exporters' devices as of `now`, each asked once and for at most `timeout_s`; after `budget_s` no
    more are asked. Never raises: what cannot be read stands in the status and in `exporters_down`.
    """
    asked = list(urls)
    started = time.monotonic()
    with requests.Session() as session, ThreadPoolExecutor(_READERS, thread_name_prefix="exporter") as pool:
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=_READERS)
        session.mount("http://", adapter)
        session.mount("https://", adapter)

        def read(named: tuple[str | None, str]) -> _Read:
            if time.monotonic() - started > budget_s:
                return _Read(url=named[1], failure=f"was not asked: {budget_s:g} s were over")
            return _read(session, *named, now, timeout_s)

        answers = list(pool.map(read, asked))
    return _readings(answers, now, time.monotonic() - started)


def _read(session: requests.Session, node: str | None, url: str, now: datetime, timeout_s: float) -> _Read:
    if url.strip().startswith("service:"):
        return _Read(url=url, failure="has no running pod behind it, or cannot be read")
    skips = Skips()
    try:
        answer = bounded(
            lambda: session.get(url, auth=_auth(url), timeout=timeout_s, stream=True, allow_redirects=False),
            timeout_s=timeout_s,
            most_bytes=MOST_BYTES,
        )
        if answer.status != 200:
            raise refusal(answer)
        if answer.is_web_page:
            raise Unreadable("answered with a web page instead of metrics")
    except Unreadable as failed:
        return _Read(url=url, failure=failed.detail)
    devices = devices_from(samples_of(answer.body, now, skips), node=node, skips=skips)
    return _Read(url=url, devices=devices, skipped=skips.listed())


def _auth(url: str) -> NoAuth | None:
    """None lets requests take the credentials from the address itself."""
    return None if "@" in url else NoAuth()


def _readings(answers: list[_Read], now: datetime, seconds: float) -> Readings:
    devices: dict[tuple[object, ...], DeviceReading] = {}
    skips = Skips()
    for answer in answers:
        for item in answer.skipped:
            skips.add(item.reason, item.example, item.count)
        for device in answer.devices:
            name = device.uuid or (*device.node_hints[:1], device.pci, device.index)
            if devices.setdefault((name, device.mig_instance), device) is not device:
                skips.add(SEEN_TWICE, str(device.uuid))
    down = [answer for answer in answers if answer.failure]
    state, detail = _state(answers, down, has_devices=bool(devices))
    found = tuple(devices.values())
    return Readings(
        devices=found,
        statuses=(
            SourceStatus(
                name=Source.METRICS,
                state=state,
                detail=detail,
                items=len(found) if found else None,
                seconds=seconds,
                read_at=now,
                skipped=skips.listed(),
            ),
            SourceStatus(name=Source.WINDOW, state=SourceState.ABSENT, detail=WINDOW_ABSENT, read_at=now),
        ),
        exporters_down=tuple(_shown(answer.url) for answer in down),
        has_pod_labels=any(device.pods for device in found) if found else None,
    )


def _state(answers: list[_Read], down: list[_Read], *, has_devices: bool) -> tuple[SourceState, str]:
    if not answers:
        return SourceState.ABSENT, "no exporter is named"
    failures = listed([f"{_shown(a.url)} {a.failure}" for a in down], 3)
    if len(down) == len(answers):
        return SourceState.FAILED, failures
    if down:
        rest = f"{len(down)} of {counted(len(answers), 'exporter')} could not be read"
        return (SourceState.PARTIAL if has_devices else SourceState.FAILED), f"{rest}: {failures}"
    if not has_devices:
        silent = listed([_shown(a.url) for a in answers], 3)
        return SourceState.ABSENT, f"no GPU metric in the answer of {silent}: is it dcgm-exporter?"
    return SourceState.OK, ""


def _shown(url: str) -> str:
    return printable(url, 200) if url.startswith("service:") else shown_url(url)


def samples_of(body: bytes, now: datetime, skips: Skips) -> Iterator[Sample]:
    """Samples of the metrics that we read, from Prometheus's text format; a line that is broken is counted
    and costs no other. `now` is their time where the text gives none.
    """
    lines: list[str] = []
    for line in body.splitlines():
        if not line or line.startswith(b"#") or line.isspace():
            continue
        name = _LINE.match(line[:200])
        if name is None:
            skips.add(BROKEN, line[:80].decode(errors="replace"))
        elif name[1].decode() not in METRIC_BY_NAME:
            continue
        elif len(line) > MOST_LINE_BYTES:
            skips.add(TOO_LONG, name[1].decode())
        else:
            lines.append(line.decode(errors="replace"))
    try:
        yield from list(_parsed("\n".join(lines) + "\n", now))
    except _UNPARSABLE:
        for text in lines:
            try:
                yield from list(_parsed(text + "\n", now))
            except _UNPARSABLE:
                skips.add(BROKEN, text[:80])


def _parsed(text: str, now: datetime) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        for found in family.samples:
            at = now if found.timestamp is None else datetime.fromtimestamp(float(found.timestamp), UTC)
            yield Sample(found.name, found.labels, float(found.value), at)

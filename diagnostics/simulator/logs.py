"""What containers write: by activity while they work, and what a failing one says before it ends."""

from collections.abc import Iterator
from datetime import UTC, datetime

from diagnostics.simulator.identity import noise
from diagnostics.simulator.timestamps import seconds
from diagnostics.simulator.workloads import Exit, SimPod

LINE_EVERY_S = 15
MOST_LINES = 400
"""The kubelet keeps more; nobody needs more of a healthy pod here."""

Line = tuple[datetime, str]


class NoLog(LookupError):
    """The container has no such log: it never ran, or there is no earlier run. The message is the kubelet's."""


def container_log(pod: SimPod, container: str, now: datetime, *, previous: bool) -> list[Line]:
    """Lines with their times, oldest first, of the current or the earlier run of a container. Raises NoLog."""
    state = pod.state
    names = [c["name"] for c in pod.workload.template.init_containers]
    if container in names:
        return _init_log(pod, names.index(container), now)
    if previous:
        if state.last_exit is None:
            raise NoLog(f'previous terminated container "{container}" in pod "{pod.name}" not found')
        return _run(pod, state.last_exit.started, state.last_exit.finished, state.last_exit)
    end = state.exit or (state.last_exit if state.waiting else None)
    if end:
        return _run(pod, end.started, end.finished, end)
    if not pod.node or state.waiting or state.init_at is not None:
        reason = state.waiting or ("PodInitializing" if pod.node else "ContainerCreating")
        said = "trying and failing to pull image" if "ImagePull" in reason else f"waiting to start: {reason}"
        raise NoLog(f'container "{container}" in pod "{pod.name}" is {said}')
    return _run(pod, state.started or pod.created, now, None)


def _init_log(pod: SimPod, index: int, now: datetime) -> list[Line]:
    at = pod.state.init_at
    if at is not None and index > at:
        raise NoLog(f'container in pod "{pod.name}" is waiting to start: PodInitializing')
    start = pod.created + seconds(index + 1)
    if at is None or index < at:
        return [(start, "all validations are successful")]
    if pod.state.last_exit:
        return [(pod.state.last_exit.finished, text) for text in pod.state.last_exit.message.splitlines()]
    count = min(MOST_LINES, int((now - start).total_seconds() // 5))
    first = now - seconds(5 * count)
    text = "waiting for nvidia container stack to be setup"
    return [(first + seconds(5 * i), text) for i in range(count)]


def _run(pod: SimPod, start: datetime, end: datetime, ended: Exit | None) -> list[Line]:
    """One run of the app container. What a failing run says stands at its end, a running one's at its start."""
    own = pod.state.log
    if ended is not None and (pod.state.is_looping or pod.state.exit):
        text = [*own, *([] if own else ended.message.splitlines())]
        step = max((end - start).total_seconds(), 1.0) / (len(text) + 1)
        return [(start + seconds(step * (i + 1)), line) for i, line in enumerate(text)]
    usual = list(_usual(pod, start, end))
    said = (
        [(start + seconds(2 + i / 10), line) for i, line in enumerate(own)]
        if not pod.state.is_looping
        else []
    )
    return sorted([*said, *usual], key=lambda line: line[0])


def _usual(pod: SimPod, start: datetime, end: datetime) -> Iterator[Line]:
    speak = _VOICES.get(pod.workload.activity)
    if speak is None:
        return
    last = int((end - start).total_seconds() // LINE_EVERY_S)
    for i in range(max(0, last - MOST_LINES), last):
        moment = start + seconds(LINE_EVERY_S * (i + 1))
        yield moment, speak(i, moment.astimezone(UTC), noise(pod.uid, i)[0])


def _train(step: int, moment: datetime, random: float) -> str:
    loss = 2.1 + 6.0 / (1 + step / 50) + 0.05 * random
    return f"{moment:%Y-%m-%d %H:%M:%S} INFO step={step * 12} loss={loss:.4f} tokens/s={41000 + 900 * random:.0f}"


def _serve(step: int, moment: datetime, random: float) -> str:
    running = 3 + int(9 * random)
    return (
        f"INFO {moment:%m-%d %H:%M:%S} [metrics.py:455] Avg prompt throughput: {800 + 300 * random:.1f} tokens/s, "
        f"Avg generation throughput: {310 + 80 * random:.1f} tokens/s, Running: {running} reqs, Swapped: 0 reqs, "
        f"Pending: 0 reqs, GPU KV cache usage: {8 + step % 20}.0%."
    )


def _quiet_server(_: int, moment: datetime, __: float) -> str:
    return f'INFO:     10.40.0.2:41{moment:%S} - "GET /health HTTP/1.1" 200 OK'


def _wait(_: int, moment: datetime, __: float) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} INFO waiting for 8 members to join the rendezvous"


_VOICES = {
    "training": _train,
    "inference": _serve,
    "loaded-idle": _quiet_server,
    "rendezvous": _wait,
}

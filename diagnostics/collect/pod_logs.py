"""Log tails of failing GPU pods, reduced to the lines that we recognise; the text itself is not kept."""

import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from diagnostics.collect.kube_client import KubeConnection
from diagnostics.collect.operator_logs import operator_containers
from diagnostics.collect.refusal import Refused
from diagnostics.collect.target import Target
from diagnostics.collect.wire.listing import Skips
from diagnostics.masking import mask_text
from diagnostics.operator_components import component_label
from diagnostics.signatures import signals_in
from diagnostics.snapshot import (
    Container,
    LogSignal,
    Node,
    Pod,
    Source,
    SourceState,
    SourceStatus,
    Terminated,
)
from diagnostics.snapshot.gpu_intent import means_gpu
from diagnostics.text import counted

RECENT = timedelta(hours=24)
"""A failure longer ago than this explains nothing of today (ours); its log is often gone anyway."""

_LONGEST_LINE = 20_000
_FEWEST_LINES = 4
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_CRASHING = frozenset({"CrashLoopBackOff", "Error", "RunContainerError", "StartError"})
_NO_SUCH_LOG = frozenset({400, 404})
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_CONTROLS = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (*range(0x20), *range(0x7F, 0xA0))
    if chr(code) not in "\n\t"
}


def failing_gpu_pods(pods: Iterable[Pod], now: datetime) -> list[Pod]:
    """GPU pods with a container that crashes, or that ended badly within `RECENT`; the newest failure first.

    After them those that ask for no GPU and mean to use one: what they lack, they say themselves.
    """
    found = [
        (_has_gpu(pod), max(times), pod)
        for pod in pods
        if (_has_gpu(pod) or (means_gpu(pod) and component_label(pod) is None))
        and (times := [at for c in pod.containers if (at := _failed_at(c, now)) is not None])
    ]
    return [pod for *_, pod in sorted(found, key=lambda one: (*one[:2], one[2].key), reverse=True)]


def _has_gpu(pod: Pod) -> bool:
    return bool(pod.gpus or pod.resource_claims)


def read_signals(
    connection: KubeConnection,
    target: Target,
    pods: Iterable[Pod],
    now: datetime,
    nodes: Iterable[Node] = (),
) -> tuple[tuple[LogSignal, ...], tuple[str, ...], SourceStatus]:
    """The signals in the tails of failing GPU pods and of the operator's pods that know why a node is not well, the
    keys of the pods that were read, and the status of LOGS.

    At most `target.log_pods` GPU pods, `MOST_PODS` of the operator, `log_lines` lines and `log_bytes` bytes for each
    container and run. Raises nothing of its own: a log that is gone or refused is counted.
    """
    started, read_at = time.monotonic(), connection.clock()
    pods = tuple(pods)
    failing = failing_gpu_pods(pods, now)
    reader = _Reader(connection, target, now)
    for pod in failing[: target.log_pods]:
        reader.read(pod)
    if target.log_pods:
        for pod, names in operator_containers(pods, nodes, now):
            reader.read(pod, names)
    state, detail = reader.judged()
    left = len(failing) - target.log_pods
    if left > 0 and state.is_usable:
        state = SourceState.PARTIAL
        over = f"{counted(left, 'failing GPU pod')} beyond the {target.log_pods} newest were not looked at"
        detail = "; ".join(filter(None, (detail, over)))
    status = SourceStatus(
        name=Source.LOGS,
        state=state,
        detail=detail,
        items=reader.tails if state.is_usable else None,
        seconds=time.monotonic() - started,
        read_at=read_at,
        skipped=reader.skips.found(),
    )
    return tuple(reader.signals), tuple(reader.keys), status


def _failed_at(container: Container, now: datetime) -> datetime | None:
    """When a container failed last; None where it does well. A crash loop counts however old it is."""
    ends = [end for end in (container.terminated, container.last_terminated) if end is not None]
    if container.state == "waiting" and container.waiting_reason in _CRASHING:
        return _newest(ends)
    at = _newest([end for end in ends if end.exit_code])
    return at if now - at <= RECENT else None


def _newest(ends: list[Terminated]) -> datetime:
    return max((end.finished_at or _LONG_AGO for end in ends), default=_LONG_AGO)


class _Reader:
    """Reads pod after pod and remembers where it is of no use to go on asking."""

    def __init__(self, connection: KubeConnection, target: Target, now: datetime) -> None:
        self._connection = connection
        self._target = target
        self._now = now
        self._refused: dict[str, Refused] = {}
        """Namespaces whose logs this user may not read."""
        self._silent: set[str] = set()
        """Nodes whose kubelet did not answer."""
        self._broken: Refused | None = None
        self.signals: list[LogSignal] = []
        self.keys: list[str] = []
        self.tails = 0
        self.skips = Skips()

    def read(self, pod: Pod, names: frozenset[str] | None = None) -> None:
        """The failing containers of one pod, or those of `names`; both runs where there are two."""
        if self._broken is not None:
            self.skips.add("not read, since the API server no longer answered", pod.key)
        elif not (_NAME.fullmatch(pod.namespace) and _NAME.fullmatch(pod.name)):
            self.skips.add("its name is no Kubernetes name", "")
        elif pod.namespace in self._refused:
            self.skips.add("logs of its namespace may not be read", pod.key)
        elif pod.node in self._silent:
            self.skips.add("its node does not answer", pod.key)
        else:
            self._read(pod, names)

    def judged(self) -> tuple[SourceState, str]:
        """State and detail over all pods."""
        blocked = self._broken or next(iter(self._refused.values()), None)
        if blocked is not None and not self.tails:
            return blocked.state, blocked.detail
        if self.skips.total:
            gone = f"the logs of {counted(self.skips.total, 'container')} could not be read"
            return SourceState.PARTIAL, f"{gone} ({blocked.detail})" if blocked else gone
        return SourceState.OK, ""

    def _read(self, pod: Pod, names: frozenset[str] | None) -> None:
        for container, is_previous in _runs(pod, self._now, names):
            try:
                text = self._text(pod, container, is_previous)
            except Refused as refused:
                self._note(refused, pod)
                if refused.status not in _NO_SUCH_LOG:
                    return
                continue
            self.tails += 1
            if pod.key not in self.keys:
                self.keys.append(pod.key)
            self.signals += signals_in(
                text, namespace=pod.namespace, pod=pod.name, container=container.name, previous=is_previous
            )

    def _note(self, refused: Refused, pod: Pod) -> None:
        if refused.state is SourceState.FORBIDDEN:
            self._refused[pod.namespace] = refused
            self.skips.add("logs of its namespace may not be read", pod.key)
        elif refused.status in _NO_SUCH_LOG:
            self.skips.add("the API server has no such log (any more)", pod.key)
        elif refused.status is not None or refused.is_single:
            # The API server fetches logs from the kubelet, and answers 500 or nothing where that is lost.
            if pod.node is not None:
                self._silent.add(pod.node)
            self.skips.add("its node does not answer", pod.key)
        else:
            self._broken = refused
            self.skips.add("not read, since the API server no longer answered", pod.key)

    def _text(self, pod: Pod, container: Container, is_previous: bool) -> str:
        try:
            return self._tail(pod, container, is_previous)
        except Refused as refused:
            if is_previous and container.state == "waiting" and refused.status in _NO_SUCH_LOG:
                return self._tail(pod, container, False)
            raise

    def _tail(self, pod: Pod, container: Container, is_previous: bool) -> str:
        """The end of one log, masked and without control characters."""
        lines = self._target.log_lines
        body, is_cut = self._ask(pod, container, is_previous, lines)
        while is_cut and lines > _FEWEST_LINES:
            # The bound on bytes keeps the beginning of the tail, and what matters stands at the end.
            lines = max(_FEWEST_LINES, lines // 10)
            fewer, is_cut = self._ask(pod, container, is_previous, lines)
            body = fewer or body
        return cleaned(body)

    def _ask(self, pod: Pod, container: Container, is_previous: bool, lines: int) -> tuple[bytes, bool]:
        params: dict[str, str | int] = {
            "container": container.name,
            "tailLines": lines,
            "limitBytes": self._target.log_bytes,
            "timestamps": "true",
        }
        if is_previous:
            params["previous"] = "true"
        path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}/log"
        answer = self._connection.get(path, params, max_bytes=self._target.log_bytes, is_cuttable=True)
        return answer.body, answer.is_cut or len(answer.body) >= self._target.log_bytes


def _runs(pod: Pod, now: datetime, names: frozenset[str] | None) -> Iterator[tuple[Container, bool]]:
    """The runs of a pod's failing containers, or of those of `names`, the earlier first.

    A container that waits to be started again has one log: the kubelet gives the last run's for both questions.
    """
    for container in pod.containers:
        if container.name not in names if names is not None else _failed_at(container, now) is None:
            continue
        has_ended_before = container.restarts > 0 or container.last_terminated is not None
        if has_ended_before:
            yield container, True
        if container.state != "waiting" or not has_ended_before:
            yield container, False


def cleaned(body: bytes) -> str:
    """Log bytes as text: invalid UTF-8 replaced, progress bars unrolled, colours dropped, secrets masked."""
    text = body.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    text = _ESCAPE.sub("", text).translate(_CONTROLS)
    return mask_text("\n".join([line[:_LONGEST_LINE] for line in text.split("\n")]))

"""The log endpoint of a pod: which container, which run, and how much of it."""

from datetime import datetime, timedelta

from diagnostics.simulator.identity import number_of
from diagnostics.simulator.logs import Line, NoLog, container_log
from diagnostics.simulator.workloads import SimPod
from diagnostics.simulator.world import World


class Unreachable(OSError):
    """The API server cannot ask the node's kubelet."""


def read(world: World, pod: SimPod, query: dict[str, str], now: datetime) -> bytes:
    """Text as the kubelet sends it. Raises ValueError with the API's message for a request that cannot be
    served, and Unreachable when the node is silent."""
    template = pod.workload.template
    names = [c["name"] for c in (*template.init_containers, *template.containers)]
    container = query.get("container") or template.app["name"]
    if container not in names:
        raise ValueError(f"container {container} is not valid for pod {pod.name}")
    if not pod.node:
        raise ValueError(f"pod {pod.name} does not have a host assigned")
    if world.nodes[pod.node].lost_since:
        path = f"https://{pod.node_ip}:10250/containerLogs/{pod.namespace}/{pod.name}/{container}"
        raise Unreachable(f'Get "{path}": dial tcp {pod.node_ip}:10250: i/o timeout')
    try:
        lines = container_log(pod, container, now, previous=query.get("previous") in ("1", "true"))
    except NoLog as error:
        raise ValueError(str(error)) from None
    return _cut(pod, lines, query, now)


def _cut(pod: SimPod, lines: list[Line], query: dict[str, str], now: datetime) -> bytes:
    if "sinceSeconds" in query:
        oldest = now - timedelta(seconds=_number(query, "sinceSeconds"))
        lines = [line for line in lines if line[0] >= oldest]
    if "tailLines" in query:
        count = _number(query, "tailLines")
        lines = lines[-count:] if count else []
    if query.get("timestamps") in ("1", "true"):
        text = "".join(f"{_nano(pod, at, i)} {line}\n" for i, (at, line) in enumerate(lines))
    else:
        text = "".join(f"{line}\n" for _, line in lines)
    body = text.encode()
    return body[: _number(query, "limitBytes")] if "limitBytes" in query else body


def _number(query: dict[str, str], name: str) -> int:
    try:
        value = int(query[name])
    except ValueError:
        raise ValueError(f'strconv.ParseInt: parsing "{query[name]}": invalid syntax') from None
    if value < 0 or (name == "limitBytes" and value < 1):
        least = "greater than or equal to 0" if name != "limitBytes" else "greater than 0"
        raise ValueError(f'PodLogOptions "" is invalid: {name}: Invalid value: {value}: must be {least}')
    return value


def _nano(pod: SimPod, at: datetime, index: int) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}.{number_of(10**9, pod.uid, at, index):09d}Z"

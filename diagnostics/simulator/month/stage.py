"""The month at one moment, put into a world: its nodes with their boards, and the pods of its runs."""

from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from diagnostics.simulator import baseline, lifecycle
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.devices import Device, SimNode, make_node, replaced, split
from diagnostics.simulator.month.calendar import (
    CRASH_RUN_S,
    GRACE_S,
    BoardLife,
    Month,
    NodeLife,
    Run,
    Slot,
    Stay,
    Trouble,
    during,
)
from diagnostics.simulator.month.plan import month_of, second_of, start_of
from diagnostics.simulator.month.upheaval import MIG_INSTANCES, MIG_PROFILE
from diagnostics.simulator.operator_stack import COMPONENTS, EXPORTER_DS
from diagnostics.simulator.templates import cpu_only
from diagnostics.simulator.timestamps import seconds
from diagnostics.simulator.workloads import PodState, SimPod, Workload
from diagnostics.simulator.world import World

_FULL = (
    "0/{n} nodes are available: {n} Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: "
    "0/{n} nodes are available: {n} No preemption victims found for incoming pod."
)
_NO_NVML = 'level=fatal msg="Error starting nv-hostengine: DCGM initialization error"'


def deploy(world: World) -> None:
    """All but the GPU Operator's pods."""
    month, t = month_of(world.config), second_of(world.config, world.now)
    for name, life in month.nodes.items():
        _put_node(world, name, life, t)
    for slot, board in month.boards.items():
        _put_board(world, slot, board, t)
    for slot, since in month.split.items():
        if t >= since:
            node = world.nodes[slot.node]
            parts = split(world.config.seed, node.devices[slot.board], MIG_PROFILE, MIG_INSTANCES)
            node.devices = [d for d in node.devices if d.index != slot.board] + parts
    baseline.platform(world)
    _crowd(world, month, t)
    for run in month.runs_at(t):
        _put_run(world, run, t)


def moment(config: WorldConfig, t: int) -> datetime:
    return start_of(config) + seconds(t)


def _put_node(world: World, name: str, life: NodeLife, t: int) -> None:
    if not life.exists.has(t):
        world.nodes.pop(name, None)
        return
    if name not in world.nodes:
        node = world.nodes[name] = make_node(
            world.config, life.position, moment(world.config, life.exists.start)
        )
    node = world.nodes[name]
    node.is_cordoned = during(life.cordoned, t) is not None
    for down in life.down:
        if down.has(t):
            node.lost_since = moment(world.config, down.start)
        if t >= down.end:
            node.boots += 1
            node.ready_since = moment(world.config, down.end)
            for component in COMPONENTS:
                state = lifecycle.restarted(node.ready_since + seconds(15), 255, "Unknown", node.boots)
                node.stack[component.name] = replace(state, log=())
    silent = during(life.unmeasured, t)
    if silent is not None:
        since = node.exporter_gone_since = moment(world.config, silent.start)
        node.stack[EXPORTER_DS] = lifecycle.crash_looping(world.now, since, run_for_s=5, message=_NO_NVML)


def _put_board(world: World, slot: Slot, life: BoardLife, t: int) -> None:
    node = world.nodes[slot.node]
    device = node.devices[slot.board]
    if life.sick.has(t):
        node.unhealthy.add(device.uuid)
        node.fallen.add(device.uuid)
        node.xids[device.uuid] = 79
    elif t >= life.sick.end:
        node.devices[slot.board] = replaced(world.config.seed, device)


def _crowd(world: World, month: Month, t: int) -> None:
    for name, life in month.nodes.items():
        span = during(life.crowded, t)
        if span is not None:
            template = cpu_only("tokenize", memory="900Gi", cpu="222")
            begun = moment(world.config, span.start)
            job = world.add(
                "Job", "research/tokenize", template, created=begun, is_indexed=False, activity="none"
            )
            world.place(job, name)


@lru_cache(maxsize=4_000)
def _workload(config: WorldConfig, run: Run, activity: str) -> Workload:
    namespace, name = run.path.split("/")
    template = replace(run.template, labels={"app": name} | run.template.labels)
    return Workload(
        kind=run.kind,
        namespace=namespace,
        name=name,
        template=template,
        created=moment(config, run.created),
        seed=config.seed,
        replicas=run.replicas,
        activity=activity,
        service_port=run.service_port,
        is_indexed=run.is_gang,
    )


def _put_run(world: World, run: Run, t: int) -> None:
    world.workloads.append(_workload(world.config, run, run.doing(t)))
    for stay in run.stays:
        if stay.created <= t < stay.gone:
            world.pods.append(_pod(world, run, stay, t))


def _pod(world: World, run: Run, stay: Stay, t: int) -> SimPod:
    workload = _workload(world.config, run, activity_of(run, stay, t))
    state = _state(world, run, stay, t)
    pod = SimPod(
        workload,
        workload.pod_name(stay.key),
        stay.key,
        moment(world.config, stay.created),
        state=state,
        incarnation=stay.incarnation,
    )
    if t < stay.bound:
        return pod
    node = world.nodes[stay.node]
    first = stay.slots[0]
    place = 100 + first.board * 9 + first.instance + 1
    address = f"10.{244 + node.position // 256 % 8}.{node.position % 256}.{place}"
    return replace(
        pod,
        node=node.name,
        node_ip=node.ip,
        address=address,
        devices=tuple(_device(node, slot) for slot in stay.slots),
    )


def activity_of(run: Run, stay: Stay, t: int) -> str:
    """What the pod does; before it is ready it loads."""
    if stay.trouble:
        return "empty"
    return "loading" if t < stay.ready else run.doing(t)


def _device(node: SimNode, slot: Slot) -> Device:
    mine = [d for d in node.devices if d.index == slot.board]
    return mine[max(0, slot.instance)]


def _state(world: World, run: Run, stay: Stay, t: int) -> PodState:
    config = world.config
    started = moment(config, stay.bound) + seconds(4)
    if t < stay.bound:
        return replace(lifecycle.unschedulable(), unscheduled_message=_FULL.format(n=len(world.nodes)))
    if t >= stay.ended:
        end = moment(config, stay.ended)
        return lifecycle.failed(started, end, 1) if stay.is_failed else lifecycle.succeeded(started, end)
    match stay.trouble:
        case Trouble.CRASH_LOOP:
            return lifecycle.crash_looping(world.now, started, run_for_s=CRASH_RUN_S)
        case Trouble.PULL:
            return lifecycle.image_pull_failing(run.template.app["image"], started)
    state = lifecycle.running(started)
    if t < stay.ready:
        state = replace(state, is_ready=False, changed=started)
    elif stay.ready > stay.bound:
        state = replace(state, changed=moment(config, stay.ready))
    if t >= stay.deleted:
        state = lifecycle.terminating(state, moment(config, stay.deleted), GRACE_S)
    lost = world.nodes[stay.node].lost_since
    return replace(state, is_ready=False, changed=lost + seconds(50)) if lost else state

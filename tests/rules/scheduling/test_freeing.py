"""Which node's GPUs come free the easiest, and which holders hardly use theirs."""

from diagnostics.findings import Hit
from diagnostics.fixes import Risk
from diagnostics.snapshot import Past, State
from tests.builders import ago, gpu, node, owner, pending_pod, pod, stat, window
from tests.rules.scheduling.waiting import hit


def commands(found: Hit) -> str:
    return " ".join(step.command for step in found.fix.steps)


def test_the_node_with_the_least_to_free_comes_first() -> None:
    parts = [part for n in "abc" for part in (node(n), pod(f"large-{n}", node=n, gpus=8))]
    decisive = (node("d"), pod("six", node="d", gpus=6), pod("two", node="d", gpus=2))

    found = hit(*parts, *decisive, pending_pod(gpus=6))

    held = [fact for fact in found.evidence if fact.label.startswith("GPUs held on")]
    assert held[0].label == "GPUs held on d"
    assert "one such pod needs 6: 1 holder with 6 must end" in held[0].value
    assert "spec.nodeName=d" in commands(found)


def test_of_equal_amounts_fewer_holders_come_first() -> None:
    small = [pod(f"one-{n}", node="a", gpus=1) for n in range(8)]

    found = hit(
        node("a"),
        *small,
        node("b"),
        pod("x", node="b", gpus=4),
        pod("y", node="b", gpus=4),
        pending_pod(gpus=4),
    )

    assert "spec.nodeName=b" in found.fix.steps[1].command


def test_members_of_its_own_job_are_not_what_has_to_leave() -> None:
    job = owner()
    mine = [pod(f"member-{n}", node="a", gpus=2, root=job) for n in range(4)]

    found = hit(node("a"), *mine, node("b"), pod("other", node="b", gpus=8), pending_pod(gpus=2, root=job))

    assert "spec.nodeName=b" in found.fix.steps[1].command


def test_no_node_is_passed_over_in_silence() -> None:
    parts = [part for n in range(7) for part in (node(f"n{n}"), pod(f"p{n}", node=f"n{n}", gpus=8))]

    found = {fact.label: fact.value for fact in hit(*parts, pending_pod()).evidence}

    assert found["held on further nodes that admit it"] == "3 nodes: n4, n5 and n6"


def test_an_idle_holder_is_named_as_the_one_to_ask() -> None:
    idle = gpu(slot="gpu-1/a", holders=("research/idle",), state=State.IDLE_HELD)
    parts = (node(), idle, pod("idle", gpus=4, started_at=ago(days=9)), pod("busy", gpus=4), pending_pod())

    found = hit(*parts, past=Past(last_active={"gpu-1/a": ago(days=3)}))

    ask = next(step for step in found.fix.steps if "hardly use" in step.title)
    assert "research/idle (4 GPUs on gpu-1, idle, last active 3 d ago)" in ask.why
    assert "busy" not in ask.why


def test_activity_under_an_earlier_holder_is_not_the_holders() -> None:
    idle = gpu(slot="gpu-1/a", holders=("research/idle",), state=State.IDLE_EMPTY)
    parts = (node(), idle, pod("idle", gpus=8, started_at=ago(hours=2)), pending_pod())

    found = hit(*parts, past=Past(last_active={"gpu-1/a": ago(days=3)}))

    assert "(8 GPUs on gpu-1, idle)" in str(found.fix.steps)


def test_a_holder_that_hardly_works_is_named_with_its_activity() -> None:
    slow = window(sm_active_ratio=stat(0.04), dram_active_ratio=stat(0.01))
    dozing = gpu(holders=("research/dozing",), state=State.INEFFECTIVE, window=slow)

    found = hit(node(), dozing, pod("dozing", gpus=8), pending_pod())

    assert "hardly at work: 4" in str(found.fix.steps)


def test_holders_that_work_or_are_not_measured_are_not_asked() -> None:
    busy = gpu(slot="gpu-1/a", holders=("research/busy",), state=State.EFFECTIVE)
    unknown = gpu(slot="gpu-1/b", holders=("research/dark",), state=State.NO_DATA)

    found = hit(node(), busy, unknown, pod("busy", gpus=4), pod("dark", gpus=4), pending_pod())

    assert not [step for step in found.fix.steps if "hardly use" in step.title]
    assert "No holder is measured as idle" in str(found.fix.steps)


def test_each_unused_holder_has_the_command_of_its_owner_to_be_run_with_consent() -> None:
    idle = [gpu(slot=f"gpu-1/{n}", holders=(f"research/nb-{n}-0",), state=State.IDLE_HELD) for n in range(8)]
    books = [pod(f"nb-{n}-0", gpus=1, root=owner("StatefulSet", f"nb-{n}")) for n in range(8)]

    steps = hit(node(), *idle, *books, pending_pod()).fix.steps

    stops = [step for step in steps if step.title.startswith("Only if its owner agrees")]
    assert [step.command for step in stops] == [
        f"kubectl scale statefulset -n research --replicas=0 nb-{n}" for n in range(8)
    ]
    assert all("StatefulSet research/nb-" in step.why and "ask its owner first" in step.why for step in stops)
    asked = next(i for i, step in enumerate(steps) if "hardly use" in step.title)
    assert asked < steps.index(stops[0])


def test_two_holders_of_one_owner_are_stopped_once() -> None:
    root = owner("Deployment", "server")
    idle = [gpu(slot=f"gpu-1/{n}", holders=(f"research/s-{n}",), state=State.IDLE_HELD) for n in range(2)]
    parts = (node(), *idle, *(pod(f"s-{n}", gpus=4, root=root) for n in range(2)))

    steps = hit(*parts, pending_pod()).fix.steps

    assert len([step for step in steps if step.title.startswith("Only if its owner agrees")]) == 1


def test_gpus_of_its_own_job_are_not_passed_over() -> None:
    job = owner()
    mine = [pod(f"member-{n}", gpus=2, root=job) for n in range(4)]

    found = hit(node(), *mine, pending_pod(gpus=2, root=job))

    assert "Pods of its own job hold 8 GPUs there" in str(found.fix.steps)
    assert "No other holder is measured as idle" in str(found.fix.steps)


def test_an_owner_without_a_working_pod_loses_nothing_by_a_change() -> None:
    root = owner("StatefulSet", "nb")
    waits = pending_pod("nb-0", gpus=1, root=root, node_selector={"a": "b"})
    parts = (node(labels={"a": "c"}), waits)

    steps = hit(*parts).fix.steps
    (alone,) = [s for s in steps if s.manifest]
    assert "none of them works" in alone.why
    after = steps[steps.index(alone) + 1]
    assert after.command == "kubectl delete pod -n research nb-0"
    assert alone.risk is Risk.SAFE
    (shared,) = [s for s in hit(*parts, pod("nb-1", gpus=1, root=root, node="x")).fix.steps if s.manifest]
    assert "those that work included" in shared.why
    assert shared.risk is Risk.DISRUPTIVE

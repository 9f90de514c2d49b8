"""GPU101: only Xids that were seen to happen, recently, and that end the GPU's service."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from diagnostics.findings import Diagnosis, Finding, Severity
from diagnostics.fixes import Risk, Step, StepKind
from diagnostics.limits import Limits
from diagnostics.rules import engine
from diagnostics.rules.base import REGISTRY
from diagnostics.rules.hardware import fatal_xid
from diagnostics.snapshot import Gpu, Metrics, Past, Source, XidSeen
from tests.builders import NOW, ago, gpu, node, pod, snapshot, window


def seen(code: int, minutes: float | None = 12, **fields: Any) -> XidSeen:
    return XidSeen(code=code, last_at=None if minutes is None else ago(minutes=minutes), **fields)


def sick(*xids: XidSeen, index: int = 3, **fields: Any) -> Gpu:
    return gpu(index, **({"window": window(xids=xids)} | fields))


def diagnosed(*parts: Any, **fields: Any) -> Diagnosis:
    rules = [rule for rule in REGISTRY.values() if rule.module == fatal_xid.__name__]
    return engine.run(rules, snapshot(node(), *parts, **fields), Limits())


def found(*parts: Any, **fields: Any) -> list[Finding]:
    return [f for f in diagnosed(*parts, **fields).findings if f.slug == "fatal-xid"]


def test_reports_a_gpu_that_fell_off_the_bus() -> None:
    (finding,) = found(sick(seen(79)))
    assert finding.subject.kind == "GPU"
    assert finding.subject.name == "gpu-1/00000000:13:00.0"
    assert finding.cause == "gpu-fallen-off-bus"
    assert finding.severity is Severity.CRITICAL
    assert "Xid 79" in finding.title
    assert any("12 min ago" in e.value for e in finding.evidence)
    assert finding.nodes == ("gpu-1",)


def test_reports_an_xid_that_an_earlier_poll_saw() -> None:
    device = sick()
    (finding,) = found(device, past=Past(xids={device.slot: (seen(48, minutes=600),)}))
    assert finding.cause == "double-bit-ecc"
    assert any("10 h ago" in e.value for e in finding.evidence)


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 94, 68])
def test_ignores_an_xid_that_the_gpu_survives(code: int) -> None:
    assert found(sick(seen(code))) == []


def test_ignores_a_gauge_that_merely_stands() -> None:
    standing = seen(79, minutes=None, standing_since=ago(days=9))
    metrics = Metrics(sampled_at=NOW, xid=79, memory_used_bytes=1.0)
    assert found(sick(standing, metrics=metrics)) == []


def test_ignores_an_xid_older_than_the_limit() -> None:
    assert found(sick(seen(79, minutes=25 * 60))) == []


def test_ignores_an_unknown_code() -> None:
    assert found(sick(seen(4242))) == []


def test_names_a_removed_channel_as_a_consequence() -> None:
    (finding,) = found(sick(seen(48, minutes=10), seen(45, minutes=10.3), seen(31, minutes=100)))
    told = {e.label: e.value for e in finding.evidence}
    assert "consequence" in told["Xid 45"]
    assert "consequence" not in told["Xid 31"]


def test_lets_the_worst_action_lead_and_lists_all() -> None:
    (finding,) = found(sick(seen(79, minutes=20), seen(48, minutes=10)))
    assert finding.cause == "gpu-fallen-off-bus"
    assert {"Xid 79", "Xid 48"} <= {e.label for e in finding.evidence}
    assert any("Reboot" in s.title for s in finding.fix.steps)


def test_is_one_finding_for_the_mig_instances_of_a_gpu() -> None:
    base = sick(seen(95))
    parts = [
        msgspec.structs.replace(
            base, slot=f"{base.slot}/mig-{n}", mig_profile="3g.40gb", holders=(f"research/mig-{n}",)
        )
        for n in (1, 2)
    ]
    (finding,) = found(*parts)
    assert finding.subject.name == base.slot
    assert finding.pods == ("research/mig-1", "research/mig-2")
    assert finding.gpus == 1


def test_follows_the_gpus_own_recovery_action() -> None:
    reboot = Metrics(sampled_at=NOW, xid=154, recovery_action=2)
    (finding,) = found(sick(seen(154), metrics=reboot))
    assert any("Reboot" in s.title for s in finding.fix.steps)
    none = Metrics(sampled_at=NOW, xid=154, recovery_action=0)
    assert found(sick(seen(154), metrics=none)) == []


def test_reads_nonfatal_and_fatal_from_the_kernels_words() -> None:
    assert found(sick(seen(149, message="NETIR_LINK_EVT Nonfatal XC0 i0 Link 08"))) == []
    (finding,) = found(sick(seen(149, message="NETIR_LINK_EVT Fatal XC0 i0 Link 08")))
    assert finding.cause == "nvlink5-error"


@pytest.mark.parametrize("missing", [Source.METRICS, Source.WINDOW])
def test_is_skipped_without_metrics_or_a_window(missing: Source) -> None:
    outcome = diagnosed(sick(seen(79)), without=[missing])
    assert "GPU101" in {s.code for s in outcome.skipped}
    assert [f for f in outcome.findings if f.slug == "fatal-xid"] == []


def test_does_not_judge_a_gpu_whose_xid_metric_is_not_collected() -> None:
    metrics = Metrics(sampled_at=NOW, utilization_ratio=0.5)
    outcome = diagnosed(sick(metrics=metrics), gpu(4))
    assert [u.subject.name for u in outcome.unjudged if u.code == "GPU101"] == ["gpu-1/00000000:13:00.0"]


def test_takes_the_node_out_first_and_the_plugin_back_last() -> None:
    plugin = pod("plugin-x", "gpu-addons", gpus=0, labels={"app": "nvidia-device-plugin-daemonset"})
    (finding,) = found(sick(seen(95), holders=("research/train-0",)), pod(), plugin)
    steps = finding.fix.steps
    assert steps[0].risk is Risk.READ_ONLY
    commands = [s.command for s in steps]
    words = ("cordon", "drain", "--gpu-reset", "-l app=")
    order = [next(i for i, c in enumerate(commands) if word in c) for word in words]
    assert order == sorted(order)
    restart = commands[order[-1]]
    assert "-n gpu-addons" in restart
    assert "spec.nodeName=gpu-1" in restart
    ranks = [s.risk.rank for s in steps if s.kind is StepKind.FIX]
    assert ranks == sorted(ranks)
    assert finding.pods == ("research/train-0",)


def reset_steps_of(*parts: Any, **labels: str) -> list[Step]:
    host = node(labels={"nvidia.com/gpu.compute.major": "9"} | labels)
    rules = [rule for rule in REGISTRY.values() if rule.module == fatal_xid.__name__]
    (finding,) = engine.run(rules, snapshot(host, *parts), Limits()).findings
    return list(finding.fix.steps)


def test_a_gpu_that_nobody_holds_is_reset_without_a_drain() -> None:
    neighbour = gpu(4, holders=("research/train-0",))
    commands = [s.command for s in reset_steps_of(sick(seen(95)), neighbour, pod())]
    assert any("cordon" in c for c in commands)
    assert any("--gpu-reset" in c for c in commands)
    assert not any("drain" in c for c in commands)


@pytest.mark.parametrize("code", [95, 79])
def test_a_gpu_that_is_held_or_a_node_that_reboots_is_drained(code: int) -> None:
    drains = [
        s
        for s in reset_steps_of(sick(seen(code), holders=("research/train-0",)), pod())
        if "drain" in s.command
    ]
    assert "research/train-0 (1 GPU)" in drains[0].why


def test_an_older_board_that_nobody_holds_is_drained() -> None:
    steps = reset_steps_of(sick(seen(95)), pod(), **{"nvidia.com/gpu.compute.major": "7"})
    assert any("drain" in s.command for s in steps)


def test_what_a_reset_stops_comes_back_before_the_node_does() -> None:
    exporter = pod("e", "gpu-operator", gpus=0, labels={"app": "nvidia-dcgm-exporter"})
    steps = reset_steps_of(sick(seen(95)), exporter, **{"nvidia.com/gpu.deploy.dcgm-exporter": "true"})
    words = ("dcgm-exporter=false", "--gpu-reset", "dcgm-exporter=true", "uncordon")
    order = [next(i for i, s in enumerate(steps) if word in s.command) for word in words]
    assert order == sorted(order)
    assert all(s.risk is Risk.READ_ONLY for s in steps if s.kind is StepKind.VERIFY)


def test_says_when_the_finding_ends_in_hours_and_names_no_setting() -> None:
    text = str(reset_steps_of(sick(seen(95))))
    assert "ends 1 d after the last" in text
    assert "xid_recent" not in text


def test_names_a_newer_xid_than_the_one_that_leads() -> None:
    (finding,) = found(sick(seen(95, minutes=21), seen(48, minutes=6)))
    assert "Xid 95" in finding.title
    assert (
        "Since then it reported Xid 48 (uncorrectable (double-bit) ECC error), 6 min ago" in finding.summary
    )
    (single,) = found(sick(seen(95)))
    assert "Since then" not in single.summary


def test_says_when_a_gpu_that_nobody_holds_worked_last() -> None:
    device = sick(seen(95))

    def held_by(worked: datetime) -> str:
        (finding,) = found(device, past=Past(last_active={device.slot: worked}))
        return {e.label: e.value for e in finding.evidence}["held by"]

    assert held_by(ago(hours=21)) == "nobody; it worked last 21 h ago, before any of these Xids"
    assert "before" not in held_by(ago(seconds=1))


def test_says_how_much_of_the_window_was_sampled() -> None:
    device = sick(window=window(xids=(seen(79),), coverage_ratio=0.4, span=timedelta(minutes=30)))
    (finding,) = found(device)
    assert any("40 % of the last 30 min" in e.value for e in finding.evidence)


def test_a_node_that_fails_again_and_again_goes_back_only_after_it_was_examined() -> None:
    (finding,) = found(sick(seen(95)), past=Past(incidents={"gpu-1": 4}))
    steps = finding.fix.steps
    titles = [s.title for s in steps]
    examined, back = (
        next(i for i, t in enumerate(titles) if word in t) for word in ("examined", "back into")
    )
    assert examined < back
    assert "failed on 4 occasions in 30 days" in steps[examined].why
    assert "Only after the board was examined" in steps[back].why
    assert "Do it now" in steps[-1].why
    assert "again after a reset" not in steps[-1].why
    assert "examined before it goes back" in finding.fix.summary


@pytest.mark.parametrize("incidents", [{}, {"gpu-1": 3}, {"gpu-1": 4, "gpu-2": 4}])
def test_a_node_that_fails_no_oftener_than_others_goes_back_after_its_reset(
    incidents: dict[str, int],
) -> None:
    (finding,) = found(sick(seen(95)), node("gpu-2"), gpu(0, "gpu-2"), past=Past(incidents=incidents))
    assert not any("examined" in s.title + s.why for s in finding.fix.steps)
    assert "Xid 95 again after a reset and a reboot" in finding.fix.steps[-1].why


@pytest.mark.parametrize(
    ("code", "is_looked"), [(48, True), (64, True), (95, True), (119, False), (79, False)]
)
def test_looks_at_remapped_rows_before_a_gpu_with_a_memory_error_is_reset(code: int, is_looked: bool) -> None:
    commands = [s.command for s in reset_steps_of(sick(seen(code)))]
    looks = [i for i, c in enumerate(commands) if "nvidia-smi -q -d ROW_REMAPPER -i 00000000:13:00.0" in c]
    assert bool(looks) == is_looked
    assert all(i < next(n for n, c in enumerate(commands) if "cordon" in c) for i in looks)

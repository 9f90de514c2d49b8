"""Collective jobs that lie apart, and jobs that are left alone."""

import json
import shlex
from typing import Any

import msgspec
import pytest
import yaml

from diagnostics.findings import Confidence, Hit, Unjudged
from diagnostics.fixes import Risk
from diagnostics.gangs import gangs_of
from diagnostics.limits import Limits, Override, Thresholds
from diagnostics.rules.scheduling.scattered_job import check
from diagnostics.snapshot import Node, Pod, Snapshot, Source
from tests.builders import container, node, owner, pod, snapshot, statuses

TORCHRUN = ("torchrun", "--nnodes=4", "train.py")
HOSTNAME = "kubernetes.io/hostname"


def hosts(count: int = 6, **fields: Any) -> list[Node]:
    return [
        node(f"n{i}", rack=f"r{i // 2}", labels={"site/rack": f"r{i // 2}"}, **fields) for i in range(count)
    ]


def job(*nodes: str, gpus: int = 2, command: tuple[str, ...] = TORCHRUN, **fields: Any) -> list[Pod]:
    defaults: dict[str, Any] = {
        "root": owner("StatefulSet", "gpt"),
        "labels": {"app": "gpt"},
        "containers": (container(gpus=gpus, command=command),),
    }
    return [pod(f"gpt-{i}", node=name, **(defaults | fields)) for i, name in enumerate(nodes)]


def seen(*parts: Any) -> Snapshot:
    pods = [part for part in parts if isinstance(part, Pod)]
    return snapshot(*parts, gangs=gangs_of(pods, []))


def hits(*parts: Any, limits: Limits | None = None) -> list[Hit]:
    return [hit for hit in check(seen(*parts), limits or Limits()) if isinstance(hit, Hit)]


def hit(*parts: Any) -> Hit:
    (found,) = hits(*parts)
    return found


def fact(found: Hit, label: str) -> str:
    return next(f.value for f in found.evidence if f.label == label)


def test_a_job_on_four_hosts_that_fits_one_is_scattered() -> None:
    found = hit(*hosts(), *job("n0", "n1", "n2", "n3"))

    assert found.cause == "scheduler-spread"
    assert (found.subject.kind, found.subject.name) == ("StatefulSet", "gpt")
    assert "4 pods on 4 hosts in 2 racks, 1 host would hold them" in found.title
    assert "works" in found.summary
    assert found.gpus == 8
    assert found.confidence is Confidence.HIGH


def test_a_job_of_which_members_could_not_be_read_is_not_judged() -> None:
    pods = job("n0", "n1", "n2")
    team = msgspec.structs.replace(gangs_of(pods, [])[0], size=4)
    for state, is_judged in ((statuses(), True), (statuses(partial={Source.PODS}), False)):
        (found,) = check(snapshot(*hosts(), *pods, team, sources=state), Limits())
        assert isinstance(found, Hit) is is_judged


def test_evidence_has_hosts_racks_link_and_the_possible_placement() -> None:
    busy = [pod(f"server-{i}", node=f"n{i}", gpus=4) for i in range(6)]

    found = hit(*hosts(), *busy, *job("n0", "n1", "n2", "n3"))

    assert fact(found, "hosts") == "4 used, 1 needed, 4 at most"
    assert fact(found, "racks") == "2 used, 1 needed, 3 at most (r0 and r1)"
    assert fact(found, "possible now, pods per host") == "n0 2 and n1 2"
    assert "between racks r0 and r1" in fact(found, "slowest link on the path")
    assert all(f.source for f in found.evidence)


def test_a_job_that_cannot_lie_closer_now_is_told_so() -> None:
    busy = [pod(f"server-{i}", node=f"n{i}", gpus=6) for i in range(2)]

    found = hit(*hosts(2), *busy, *job("n0", "n1"))

    assert "could not lie closer" in found.summary


def test_zones_and_rdma_decide_the_slowest_link() -> None:
    has = {"rdma/ib": 8.0}
    zoned = [node(f"n{i}", rack=f"r{i}", zone="ab"[i], allocatable=has) for i in range(2)]
    rdma = (container(gpus=2, command=TORCHRUN, requests={"nvidia.com/gpu": 2.0, "rdma/ib": 1.0}),)

    assert fact(hit(*zoned, *job("n0", "n1", containers=rdma)), "slowest link on the path") == (
        "the network between zones a and b"
    )


def test_a_manifest_that_spreads_on_purpose_is_told_so() -> None:
    anti = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "gpt"}}, "topologyKey": HOSTNAME}
            ]
        }
    }

    found = hit(*hosts(), *job("n0", "n1", affinity=anti))

    assert found.cause == "spread-by-manifest"
    assert "by its own manifest" in found.title
    assert "anti-affinity" in fact(found, "spreads on purpose")


def test_a_topology_spread_constraint_is_a_purpose_too() -> None:
    spread = (
        {
            "topologyKey": HOSTNAME,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "gpt"}},
        },
    )

    found = hit(*hosts(), *job("n0", "n1", topology_spread=spread))

    assert fact(found, "spreads on purpose") == f"preferred topology spread over {HOSTNAME}"


def test_an_anti_affinity_that_selects_nothing_is_no_purpose() -> None:
    anti = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"job-name": "gpt"}}, "topologyKey": HOSTNAME}
            ]
        }
    }

    found = hit(*hosts(), *job("n0", "n1", affinity=anti))

    assert found.cause == "scheduler-spread"
    assert fact(found, "has no effect") == (
        f"required anti-affinity over {HOSTNAME} that selects none of its pods"
    )


def test_a_rule_of_one_kind_of_its_pods_that_selects_another_is_a_purpose() -> None:
    """Only the second pod carries the rule, and it selects the first."""
    term = {"labelSelector": {"matchLabels": {"app": "gpt"}}, "topologyKey": HOSTNAME}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    first, second = job("n0", "n1")
    assert hit(*hosts(), first, msgspec.structs.replace(second, affinity=anti)).cause == "spread-by-manifest"


def test_crossing_racks_without_need_counts_below_the_limit() -> None:
    members = job("n0", "n1", "n2", "n3", "n4", gpus=4)
    given = [node(f"n{i}", rack="a" if i < 4 else "b") for i in range(5)] + [node("n9", rack="a")]
    spare = Limits(site=Thresholds(scatter_min_ratio=1.1))

    (found,) = hits(*given, *members, limits=spare)

    assert fact(found, "racks").startswith("2 used, 1 needed")


def test_the_limit_is_the_subjects_own() -> None:
    members = job("n0", "n1", gpus=2)
    within = [node(f"n{i}", rack="a") for i in range(2)]
    lax = Limits(overrides=(Override(namespace="research", values={"scatter_min_ratio": 1.5}),))

    assert hits(*within, *members, limits=lax) == []
    assert len(hits(*within, *members)) == 1


@pytest.mark.parametrize(
    "members",
    [
        pytest.param(job("n0", "n0", "n0", "n0"), id="on one host"),
        pytest.param(job("n0", "n2", gpus=8), id="on as many hosts as it needs"),
        pytest.param(job("n0", "n1", command=("python", "serve.py")), id="independent servers"),
        pytest.param(job("n0", "n1", command=("torchrun", "--standalone", "t.py")), id="local ranks"),
        pytest.param(job("n0"), id="one pod"),
        pytest.param(job("n0", "n1", phase="Succeeded"), id="finished"),
        pytest.param(job("n0", "n1", gpus=0), id="no GPUs"),
    ],
)
def test_ignores_jobs_that_lie_well_or_need_no_closeness(members: list[Pod]) -> None:
    assert hits(*hosts(), *members) == []


def test_a_bare_launcher_is_less_sure() -> None:
    members = job("n0", "n1", command=("torchrun", "train.py"), root=owner("Job", "gpt"))

    assert hit(*hosts(), *members).confidence is Confidence.MEDIUM


def test_an_unread_node_leaves_the_job_unjudged() -> None:
    found = list(check(seen(*hosts(1), *job("n0", "n1")), Limits()))

    assert [type(item) for item in found] == [Unjudged]


def test_unknown_racks_are_said_to_be_unknown() -> None:
    found = hit(node("n0"), node("n1"), *job("n0", "n1"))

    assert fact(found, "racks").startswith("unknown")


def test_the_fix_looks_first_and_labels_the_restart() -> None:
    steps = hit(*hosts(), *job("n0", "n1", "n2", "n3")).fix.steps

    assert steps[0].risk is Risk.READ_ONLY
    restart = next(step for step in steps if step.risk is Risk.DISRUPTIVE)
    assert "checkpoint" in restart.why
    change = next(step for step in steps if step.manifest)
    manifest = yaml.safe_load(change.manifest)
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("StatefulSet", "gpt")
    terms = manifest["spec"]["template"]["spec"]["affinity"]["podAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert [t["podAffinityTerm"]["topologyKey"] for t in terms] == [HOSTNAME, "site/rack"]
    assert "&id" not in change.manifest


def test_a_stateful_set_is_scaled_down_before_its_template_changes_and_up_again() -> None:
    steps = hit(*hosts(), *job("n0", "n1", "n2", "n3")).fix.steps

    commands = [shlex.split(step.command) for step in steps if step.command]
    down, wait, patch = commands[-3:]
    assert (down[1:3], "--replicas=0" in down) == (["scale", "statefulset"], True)
    assert wait[1:3] == ["wait", "pod"]
    assert {"gpt-0", "gpt-3"} <= set(wait)
    assert patch[1:3] == ["patch", "statefulset"]
    change = next(step for step in steps if step.manifest)
    spec = json.loads(patch[patch.index("-p") + 1])["spec"]
    assert spec["replicas"] == 4
    assert yaml.safe_load(change.manifest)["spec"] == spec
    assert "Job's pod template" not in str(steps)


def test_a_job_is_made_anew_and_not_scaled() -> None:
    steps = hit(*hosts(), *job("n0", "n1", root=owner("Job", "gpt"))).fix.steps

    assert "scale" not in " ".join(step.command for step in steps)
    assert "A Job's pod template cannot be changed" in str(steps)


def test_the_fix_uses_the_owners_own_topology_field() -> None:
    labels = {"app": "gpt", "kueue.x-k8s.io/queue-name": "gpus"}

    found = hit(*hosts(), *job("n0", "n1", root=owner("Job", "gpt"), labels=labels))

    manifest = next(yaml.safe_load(step.manifest) for step in found.fix.steps if step.manifest)
    assert manifest["spec"]["template"]["metadata"]["annotations"] == {
        "kueue.x-k8s.io/podset-preferred-topology": "site/rack"
    }

"""Diffs of guided fixes: against the workload's own manifest, with all that they do not name left as it is."""

import json
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.document import fix_document
from diagnostics.findings import Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, manifests
from diagnostics.fixes.diffs import MOST_LINES, NoSuchItem, as_text, merged, own_manifest, with_diffs
from diagnostics.limits import Limits
from diagnostics.rules import diagnose, engine
from diagnostics.rules.base import REGISTRY
from diagnostics.rules.scheduling import no_gang_scheduling
from diagnostics.simulator.faults import CATALOGUE
from diagnostics.snapshot import OwnerKey, Queue, Snapshot, Workload
from tests.builders import node, pod, snapshot
from tests.fixes.patching import merged as as_the_server
from tests.fixes.patching import taken_away, with_diff
from tests.fixes.renamed import advice
from tests.rules.scheduling.test_no_gang_scheduling import (
    COSCHEDULING,
    KUEUE,
    NATIVE,
    TEMPLATE,
    VOLCANO,
    job,
    runs,
    waits,
)
from tests.rules.scheduling.test_no_gang_scheduling import (
    seen as cluster,
)
from tests.simulated import ROOMY, seen

GANG_RULE = next(r for r in REGISTRY.values() if r.module == no_gang_scheduling.__name__)
SPEC: dict[str, Any] = {
    "replicas": 2,
    "template": {
        "metadata": {"labels": {"app": "llama"}},
        "spec": {
            "containers": [
                {"name": "main", "image": "i", "env": [{"name": "A", "value": "1"}]},
                {"name": "sidecar", "image": "j"},
            ],
            "tolerations": [{"key": "x"}],
        },
    },
}
LLAMA = Workload(kind="Deployment", namespace="serving", name="llama", api_version="apps/v1", spec=SPEC)
ITSELF = Subject("Deployment", "llama", "serving")
names = st.text(min_size=1, max_size=60).filter(lambda s: "\x00" not in s)


def fix_of(*documents: dict[str, Any]) -> Fix:
    text = "---\n".join(manifests.to_yaml(document) for document in documents)
    step = Step(kind=StepKind.FIX, title="t", why="w", risk=Risk.SAFE, expect="e", manifest=text)
    return Fix("s", (step,))


def diff_of(*documents: dict[str, Any], workload: Workload = LLAMA, subject: Subject = ITSELF) -> str:
    (step,) = with_diffs(fix_of(*documents), subject, snapshot(workloads=(workload,))).steps
    return step.diff


def corrected(diff: str, workload: Workload = LLAMA) -> Any:
    """The workload as the diff makes it."""
    return yaml.safe_load(with_diff(as_text(own_manifest(workload)), diff))


def patch(spec: dict[str, Any], **head: Any) -> dict[str, Any]:
    metadata = {"name": "llama", "namespace": "serving"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec} | head


def in_template(**spec: Any) -> dict[str, Any]:
    return {"template": {"spec": spec}}


def test_a_diff_changes_what_the_patch_names_and_keeps_the_rest() -> None:
    limits = {"resources": {"limits": {"memory": "64Gi"}}}
    after = corrected(diff_of(patch(in_template(containers=[{"name": "main", **limits}]))))
    main, sidecar = after["spec"]["template"]["spec"]["containers"]
    assert main == SPEC["template"]["spec"]["containers"][0] | limits
    assert sidecar == {"name": "sidecar", "image": "j"}
    assert after["spec"]["template"]["spec"]["tolerations"] == [{"key": "x"}]


def test_a_null_takes_away_and_is_a_line_with_a_minus() -> None:
    diff = diff_of(patch(in_template(tolerations=None)))
    assert "-      - key: x" in diff
    assert "tolerations" not in corrected(diff)["spec"]["template"]["spec"]


def test_a_volume_is_added_beside_the_others() -> None:
    volumes = [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    assert (
        corrected(diff_of(patch(in_template(volumes=volumes))))["spec"]["template"]["spec"]["volumes"]
        == volumes
    )


def test_lines_of_a_pods_spec_find_their_template() -> None:
    lines = {"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}]}]}
    (main, _) = corrected(diff_of(lines))["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in main["env"]] == ["A", "B"]


def test_a_patch_without_a_kind_is_of_what_the_finding_is_about() -> None:
    assert corrected(diff_of({"spec": {"replicas": 0}}))["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "llama", "namespace": "serving"}},
        patch({"replicas": 1}, metadata={"name": "other", "namespace": "serving"}),
        patch({"replicas": 1}, apiVersion="example.com/v1"),
        patch({"replicas": 2}),
        patch(in_template(containers=[{"name": "injected", "image": "k"}])),
        {"containers": [{"name": "nobody"}]},
    ],
    ids=["new", "another", "of another group", "changes nothing", "no such container", "of no template"],
)
def test_what_changes_nothing_of_its_own_has_no_diff(document: dict[str, Any]) -> None:
    assert diff_of(document) == ""


def test_a_workload_whose_spec_is_not_kept_has_no_diff() -> None:
    assert diff_of(patch({"replicas": 1}), workload=msgspec.structs.replace(LLAMA, spec={})) == ""


def test_a_diff_longer_than_anybody_reads_is_left_out() -> None:
    many = [{"key": str(number)} for number in range(MOST_LINES)]
    assert diff_of(patch(in_template(tolerations=many))) == ""


@pytest.mark.parametrize("odd", [None, "x", 1, [], ["x"], [1, {"name": 2}], {"name": "main"}])
def test_a_spec_of_another_shape_costs_the_diff_and_nothing_else(odd: Any) -> None:
    spec = {"template": {"spec": {"containers": odd}}}
    odd_one = msgspec.structs.replace(LLAMA, spec=spec)
    for document in (patch(in_template(containers=[{"name": "main"}])), {"containers": [{"name": "main"}]}):
        diff_of(document, workload=odd_one)
    with pytest.raises(NoSuchItem):
        merged({"containers": ["x"]}, {"containers": [{"name": "main"}]})


def test_a_diff_stands_in_the_document() -> None:
    fix = fix_of(patch({"replicas": 1}))
    seen_now = with_diffs(fix, ITSELF, snapshot(workloads=(LLAMA,)))
    assert seen_now.steps[0].diff
    assert fix_document(seen_now)["steps"][0]["diff"] == seen_now.steps[0].diff
    assert fix_document(fix)["steps"][0]["diff"] is None


@given(names, names)
def test_names_come_back_whole_from_a_diff(name: str, value: str) -> None:
    containers = [{"name": name, "image": value}, {"name": f"{name}-2"}]
    spec = {"template": {"spec": {"containers": containers, "nodeSelector": {name: value}}}}
    one = Workload(kind="Deployment", namespace=value, name=name, api_version="apps/v1", spec=spec)
    change = {"containers": [{"name": name, "env": [{"name": value, "value": name}]}]}
    document = patch(in_template(**change), metadata={"name": name, "namespace": value})
    diff = diff_of(document, workload=one)
    assert len(diff.split("\n", 2)[0].split("\n")) == 1
    after = corrected(diff, one)
    assert after == as_the_server(own_manifest(one), document, is_strategic=True)


def gang_diffs(kind: str, version: str, **spec: Any) -> list[tuple[str, Any, Any]]:
    """(variant, the job as it is, as the diff makes it) of all that could be installed."""
    root = OwnerKey(kind, "research", "train", version, "uid")
    workload = job(kind, version, **spec)
    queue = Queue(system="kueue", kind="LocalQueue", namespace="research", name="team", parent="gpus")
    yunikorn = pod("yunikorn-scheduler-7d", "yunikorn", gpus=0, node="gpu-9")
    whole: Snapshot = cluster(
        node(), yunikorn, *runs("a", "b", root=root), *waits("c", "d", root=root),
        workload=workload, apis=(KUEUE, VOLCANO, COSCHEDULING, NATIVE), queues=(queue,),
    )  # fmt: skip
    outcome = engine.run((GANG_RULE,), whole, Limits())
    assert outcome.failed == ()
    (finding,) = outcome.findings
    before = own_manifest(workload)
    return [
        (step.title.partition("with ")[2], before, yaml.safe_load(with_diff(as_text(before), step.diff)))
        for step in finding.fix.steps
        if step.diff
    ]


JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "Job": ("batch/v1", {"parallelism": 4, "backoffLimit": 1, "template": TEMPLATE}),
    "PyTorchJob": (
        "kubeflow.org/v1",
        {
            "runPolicy": {"cleanPodPolicy": "None"},
            "pytorchReplicaSpecs": {
                "Master": {"template": TEMPLATE},
                "Worker": {"replicas": 3, "template": TEMPLATE},
            },
        },
    ),
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        {
            "failurePolicy": {"maxRestarts": 3},
            "replicatedJobs": [
                {"name": "driver", "template": {"spec": {"template": TEMPLATE}}},
                {"name": "workers", "template": {"spec": {"parallelism": 3, "template": TEMPLATE}}},
            ],
        },
    ),
    "RayCluster": (
        "ray.io/v1",
        {
            "rayVersion": "2.40.0",
            "headGroupSpec": {"template": TEMPLATE},
            "workerGroupSpecs": [{"groupName": "gpu", "replicas": 3, "template": TEMPLATE}],
        },
    ),
}


@pytest.mark.parametrize("kind", JOBS)
def test_every_gang_variant_is_a_diff_that_takes_nothing_away(kind: str) -> None:
    version, spec = JOBS[kind]
    found = gang_diffs(kind, version, **spec)
    assert [name.replace("a PodGroup of Volcano", "Volcano") for name, *_ in found] == [
        "Kueue", "Volcano", "coscheduling", "a PodGroup of Kubernetes itself", "YuniKorn",
    ]  # fmt: skip
    for name, before, after in found:
        assert list(taken_away(before, after, {})) == [], name
        assert (after["apiVersion"], after["kind"]) == (version, kind), name


REQUIRED = {
    "Kueue": "kueue.x-k8s.io/queue-name",
    "Volcano": "scheduling.k8s.io/group-name",
    "coscheduling": "scheduling.x-k8s.io/pod-group",
    "a PodGroup of Kubernetes itself": "podGroupName",
    "YuniKorn": "yunikorn.apache.org/task-groups",
}
"""What each cannot do without."""


@pytest.mark.parametrize("kind", JOBS)
def test_every_gang_variant_has_what_it_asks_for_in_each_template(kind: str) -> None:
    version, spec = JOBS[kind]
    templates = json.dumps(spec).count('"restartPolicy"')
    for name, _, after in gang_diffs(kind, version, **spec):
        wanted = REQUIRED[name.replace("a PodGroup of Volcano", "Volcano")]
        places = 1 if name == "Kueue" else templates
        assert json.dumps(after).count(f'"{wanted}"') == places, name


def test_the_diffs_of_a_job_fit_its_schema_afterwards() -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason="run: make install")
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "containers": [{"name": "main", "image": "i"}]}}
    for name, _, after in gang_diffs("Job", "batch/v1", parallelism=4, template=template):
        if "Kubernetes itself" not in name:
            schemas.validate(after, "1.36", strict=True)


def test_every_diff_of_the_simulated_faults_is_of_a_live_object_and_takes_nothing_else_away() -> None:
    whole = seen(*CATALOGUE, nodes=ROOMY)
    found = [one for one in advice(diagnose(whole)) if one.step.diff]
    assert {one.finding.code for one in found} >= {"GPU302", "GPU303", "GPU401", "GPU407"}
    by_name = {f"--- {w.kind} {w.namespace}/{w.name}": w for w in whole.workloads}
    for one in found:
        before = own_manifest(by_name[one.step.diff.partition("\n")[0]])
        after = yaml.safe_load(with_diff(as_text(before), one.step.diff))
        (change, *_) = [
            body
            for body in yaml.safe_load_all(one.step.manifest)
            if body.get("kind", before["kind"]) == before["kind"]
        ]
        assert list(taken_away(before, after, change)) == [], str(one)


def test_what_is_not_installed_brings_no_diff() -> None:
    whole = cluster(node(), *runs("a", "b"), *waits("c", "d"), workload=job())
    (finding,) = engine.run((GANG_RULE,), whole, Limits()).findings
    assert not [step for step in finding.fix.steps if step.diff]

"""Manifests and patches of all guided fixes: they fit the schema of their kind, and take nothing else away."""

import json
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

from diagnostics.rules import diagnose
from diagnostics.simulator.faults import CATALOGUE
from diagnostics.snapshot import Pod, Snapshot
from tests.fixes.patching import edited, merged, taken_away
from tests.fixes.renamed import Advice, advice
from tests.simulated import ROOMY, seen

schemas = pytest.importorskip("kubernetes_validate", reason="run: make install")

VERSION = "1.36"
OF_OPERATORS: dict[str, dict[str, tuple[str, ...]]] = {
    "Job": {"batch.volcano.sh/v1alpha1": ("minAvailable", "schedulerName", "tasks")},
    "PodGroup": {
        "scheduling.volcano.sh/v1beta1": ("minMember",),
        "scheduling.x-k8s.io/v1alpha1": ("minMember",),
    },
    "Queue": {"scheduling.volcano.sh/v1beta1": ()},
    "RayCluster": {"ray.io/v1": ("headGroupSpec",)},
    "JobSet": {"jobset.x-k8s.io/v1alpha2": ("replicatedJobs",)},
    "LocalQueue": {"kueue.x-k8s.io/v1beta1": ("clusterQueue",), "kueue.x-k8s.io/v1beta2": ("clusterQueue",)},
    "ClusterQueue": {"kueue.x-k8s.io/v1beta1": (), "kueue.x-k8s.io/v1beta2": ()},
}
"""Kind of a custom resource -> the versions that its operator serves, and what its spec cannot do without."""


BY_ADMISSION = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
"""Tolerations that every pod is given on its way in, and that no manifest has to name (DefaultTolerationSeconds)."""


ANY_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "any"},
    "spec": {"containers": [{"name": "main", "image": "any"}]},
}
"""What a part of a pod's spec without a kind belongs to: it is for the pods of several workloads."""


class Document(NamedTuple):
    """A manifest or patch of a step, and the object that it changes as it is (None for a new one)."""

    of: Advice
    body: Any
    live: dict[str, Any] | None
    way: str
    """`strategic`, `merge` or `json`."""

    @property
    def after(self) -> dict[str, Any]:
        """The object as it would be."""
        if self.way == "json":
            return dict(edited(self.live, self.body))
        return dict(merged(self.live or {}, self.body, is_strategic=self.way == "strategic"))


def documents() -> Iterator[Document]:
    whole = seen(*CATALOGUE, nodes=ROOMY)
    for one in advice(diagnose(whole)):
        words = shlex.split(one.step.command)
        target, way = _target(one, words), _way(words)
        for body in yaml.safe_load_all(one.step.manifest) if one.step.manifest else ():
            named = body.get("metadata", {})
            kind = body.get("kind", target[0])
            name = named.get("name", target[2])
            live = _live(whole, kind, named.get("namespace", target[1]), name)
            if live is None and "kind" not in body:
                live = ANY_POD
            yield Document(one, body, live, "strategic" if way == "json" else way)
        if words[1:2] == ["patch"]:
            body = json.loads(words[words.index("-p") + 1])
            yield Document(one, body, _live(whole, *target), way)


def _target(one: Advice, words: list[str]) -> tuple[str, str, str]:
    """Kind, namespace and name of what a step changes."""
    subject = one.finding.subject
    if words[1:2] != ["patch"]:
        return subject.kind, subject.namespace, subject.name
    kinds = {kind.lower(): kind for kind in (subject.kind, *KINDS)}
    return kinds[words[2].partition(".")[0]], words[words.index("-n") + 1], words[-1]


KINDS = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicaSet", "Node")


def _way(words: list[str]) -> str:
    kind = next((word for word in words if word.startswith("--type=")), "--type=strategic")
    return kind.removeprefix("--type=")


def _live(whole: Snapshot, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
    head = {"kind": kind, "metadata": {"name": name, "namespace": namespace}}
    if kind == "Pod":
        pod = whole.pod_by_key.get(f"{namespace}/{name}")
        return None if pod is None else {"apiVersion": "v1", **head, "spec": _pod_spec(pod)}
    workload = whole.workload_by_key.get((kind, namespace, name))
    if workload is not None and workload.spec:
        return {"apiVersion": workload.api_version, **head, "spec": msgspec.to_builtins(workload.spec)}
    for owner, pods in whole.pods_by_root.items():
        if (owner.kind, owner.namespace, owner.name) == (kind, namespace, name):
            # Of what asks for no GPU the snapshot keeps no spec.
            labels = {"metadata": {"labels": dict(pods[0].labels)}}
            spec = {"template": {**labels, "spec": _pod_spec(pods[0])}}
            selector = {} if kind == "Job" else {"selector": {"matchLabels": dict(pods[0].labels)}}
            return {"apiVersion": owner.api_version, **head, "spec": {**selector, **spec}}
    return None


def _pod_spec(pod: Pod) -> dict[str, Any]:
    """What a snapshot keeps of a bare pod's."""
    return {
        "containers": [
            {
                "name": c.name,
                "image": c.image,
                "command": list(c.command),
                "resources": {"limits": {k: f"{v:g}" for k, v in c.limits.items()}},
                "volumeMounts": [{"name": volume, "mountPath": path} for path, volume in c.mounts.items()],
            }
            for c in pod.containers
        ],
        "nodeSelector": dict(pod.node_selector),
        "affinity": msgspec.to_builtins(pod.affinity),
        "tolerations": [
            {
                k: v
                for k, v in (
                    ("key", t.key),
                    ("operator", t.operator),
                    ("value", t.value),
                    ("effect", t.effect),
                )
                if v
            }
            for t in pod.tolerations
            if t.key not in BY_ADMISSION
        ],
        "volumes": [{"name": volume.name, "emptyDir": {}} for volume in pod.volumes],
    }


@pytest.fixture(scope="module")
def given() -> list[Document]:
    return list(documents())


def test_there_are_documents_to_look_at(given: list[Document]) -> None:
    assert sum(one.live is not None for one in given) > 20
    assert {one.way for one in given} >= {"strategic", "merge"}


def test_every_object_of_a_built_in_kind_fits_its_schema_afterwards(given: list[Document]) -> None:
    for one in given:
        after = one.after
        assert after.get("kind"), f"{one.of}: nothing says what this is about: {one.body}"
        if is_built_in(after["apiVersion"]):
            try:
                schemas.validate(after, VERSION, strict=True)
            except (schemas.ValidationError, schemas.SchemaNotFoundError) as error:
                pytest.fail(f"{one.of}: {error}")


def is_built_in(api_version: str) -> bool:
    group = api_version.rpartition("/")[0]
    return "." not in group or (group.endswith(".k8s.io") and "x-k8s" not in group)


def test_a_slip_in_a_manifest_is_seen() -> None:
    spec = {"containers": [{"name": "a", "image": "b", "resources": {"limit": {"nvidia.com/gpu": "1"}}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    with pytest.raises(schemas.ValidationError, match="limit"):
        schemas.validate(pod, VERSION, strict=True)


def test_every_object_of_a_custom_kind_has_what_its_operator_asks_for(given: list[Document]) -> None:
    for one in given:
        after = one.after
        if is_built_in(after["apiVersion"]) or after["kind"] not in OF_OPERATORS:
            continue
        versions = OF_OPERATORS[after["kind"]]
        assert after["apiVersion"] in versions, str(one.of)
        assert set(versions[after["apiVersion"]]) <= after["spec"].keys(), str(one.of)


def test_a_patch_takes_nothing_away_but_what_it_says(given: list[Document]) -> None:
    for one in given:
        if one.live is not None:
            change = one.body if one.way != "json" else None
            assert list(taken_away(one.live, one.after, change)) == [], str(one.of)


def test_a_strategic_patch_is_for_built_in_kinds_alone(given: list[Document]) -> None:
    """An API server refuses it for a custom kind."""
    for one in given:
        words = shlex.split(one.of.step.command)
        if words[1:2] == ["patch"] and one.way == "strategic":
            assert is_built_in(one.after["apiVersion"]), str(one.of)

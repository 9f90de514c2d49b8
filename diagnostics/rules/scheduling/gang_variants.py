"""Ways to start a job's pods all together or not at all, one for each gang scheduler or queue that is installed.

Sources: Kueue (jobs by queue label), Volcano (PodGroup by annotation `scheduling.k8s.io/group-name`, Job with
minAvailable), scheduler-plugins (coscheduling PodGroup by label), YuniKorn (task groups by annotation), Kubernetes'
own gang scheduling (KEP-4671: spec.schedulingGroup). A Volcano scheduler name alone makes groups of one pod.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from diagnostics.fixes import Risk, Step, StepKind, manifests, steps
from diagnostics.gangs import pods_wanted, roles_of
from diagnostics.masking import MASKED
from diagnostics.rules.scheduling.gang_names import Hosts, moved
from diagnostics.snapshot import Gang, Pod, Snapshot, Workload
from diagnostics.text import listed, printable

_WHY = (
    "The scheduler places pods one by one, so that a part of a job can hold GPUs while the rest waits. Starting all or "
    "none says nothing about where the pods land: topology is a setting of its own."
)
_EXPECT = "Either all members run, or none holds a GPU."
_MADE_BY_CONTROLLER = ("controller-uid", "job-name", "batch.kubernetes.io/")
_GROUPS = (
    ("Kueue", "kueue.x-k8s.io"),
    ("Volcano", "scheduling.volcano.sh"),
    ("coscheduling", "scheduling.x-k8s.io"),
    ("native", "scheduling.k8s.io"),
)
_SHARED = frozenset({"scheduling.k8s.io"})
"""Groups that are served for other kinds as well."""
_BACKOFF_LIMIT = 6
"""Of a Job that says nothing (documentation of Jobs)."""
_OF_THE_CONTROLLER = frozenset({"selector", "manualSelector", "suspend", "ttlSecondsAfterFinished"})
"""Fields of a Job's spec that the JobSet controller sets, or that would take a part of a JobSet away."""
_ALPHA = re.compile(r"^apiVersion: (\S+/v\d+alpha\d+)$", re.MULTILINE)
Patch = Mapping[str, Any]


def installed(snapshot: Snapshot) -> tuple[str, ...]:
    """Names of what could start a gang here, by the APIs that are served and the pods that run."""
    groups = {api.group for api in snapshot.apis if api.resource == "podgroups" or api.group not in _SHARED}
    found = [name for name, group in _GROUPS if group in groups]
    if any(pod.scheduler == "yunikorn" or "yunikorn-scheduler" in pod.name for pod in snapshot.pods):
        found.append("YuniKorn")
    return tuple(found)


def variants(gang: Gang, pod: Pod, snapshot: Snapshot) -> tuple[Step, ...]:
    """A step for each that is installed, of which one is enough; else the advice to get one."""
    job = _Job(gang, pod, snapshot)
    ways = {
        "Kueue": job.kueue,
        "Volcano": job.volcano,
        "coscheduling": job.coscheduling,
        "native": job.native,
        "YuniKorn": job.yunikorn,
    }
    # The groups of a LeaderWorkerSet would need a pod group each, which it makes itself where it is told to.
    names = [name for name in installed(snapshot) if gang.kind != "LeaderWorkerSet" or name == "Kueue"]
    found = tuple(step for name in names for step in ways[name]())
    if found:
        return tuple(_one_of(len(found), step) for step in found)
    lacks = "This cluster serves no queue and no gang scheduler."
    if gang.kind == "LeaderWorkerSet" and installed(snapshot):
        lacks = (
            "LeaderWorkerSet makes a pod group for each of its groups where its controller is configured to."
        )
    return (
        steps.escalate(
            "whoever runs the cluster's schedulers",
            why=f"{_WHY} {lacks}",
            expect="A queue or a gang scheduler for jobs of several pods.",
        ),
    )


class _Job:
    """The job that is to start as a whole: its own object, its templates, and how many pods it has."""

    def __init__(self, gang: Gang, pod: Pod, snapshot: Snapshot) -> None:
        self.gang = gang
        self.pod = pod
        self.snapshot = snapshot
        self.workload: Workload | None = snapshot.workload_by_key.get((gang.kind, gang.namespace, gang.name))
        self._own: dict[str, Any] = self.workload.spec if self.workload is not None else {}
        spec = self._own
        wanted = pods_wanted(gang.kind, gang.api_version, spec) if spec else None
        self.size = max(wanted or 0, gang.size or 0, len(gang.members))

    def kueue(self) -> Iterator[Step]:
        queue, first, lacks = self._local_queue()
        labels = {"kueue.x-k8s.io/queue-name": queue}
        said = "Kueue admits a whole job at once when its queue has quota for all of it; it holds nothing before. "
        said += "Quota is a sum: where GPUs lie in pieces, topology-aware scheduling counts room on nodes. Kueue takes "
        said += "the label of a job that is suspended or new, and refuses it on one that runs: suspend it first. Kueue "
        said += f"resumes it by itself when it admits it.{lacks}"
        yield _step("Kueue", said, first + self._patched({"labels": labels}))
        if self.serves_job_set and self.gang.kind == "Job" and self._own_template():
            gang = self.gang
            of_set = moved(self._own_template(), gang.name, Hosts(gang.name, f"{gang.name}-workers-0"))
            said = "Kueue admits the whole JobSet at once; a JobSet also restarts all of its pods together, and gives "
            said += f"them stable names.{of_set.words}{self._masked_words()}{lacks} Delete the Job before."
            made = manifests.to_yaml(self._job_set(labels, of_set.template))
            yield _step("JobSet and Kueue", said, first + made)

    @property
    def serves_job_set(self) -> bool:
        return self._serves("jobset.x-k8s.io")

    def _local_queue(self) -> tuple[str, str, str]:
        """Name of the LocalQueue to use, the manifest of one that is not there yet, and what must be said of it."""
        served = [q for q in self.snapshot.queues if q.system == "kueue" and not q.state]
        where = printable(self.gang.namespace, 80)
        own = [q for q in served if q.kind == "LocalQueue" and q.namespace == self.gang.namespace]
        if own:
            others = [printable(q.name, 80) for q in own[1:]]
            return (
                own[0].name,
                "",
                f" Namespace {where} has these queues too: {listed(others)}." if others else "",
            )
        clusters = [q for q in served if q.kind == "ClusterQueue"]
        if len(clusters) != 1:
            known = f": {listed([printable(q.name, 80) for q in clusters])}" if clusters else ""
            lacks = f" No LocalQueue of namespace {where} was read: ask whoever runs Kueue for one on a ClusterQueue"
            return "<local queue>", "", f"{lacks}{known}, and put its name in."
        (cluster,) = clusters
        metadata = {"name": cluster.name, "namespace": self.gang.namespace}
        version = cluster.api_version or "kueue.x-k8s.io/v1beta1"
        spec = {"clusterQueue": cluster.name}
        made = {"apiVersion": version, "kind": "LocalQueue", "metadata": metadata, "spec": spec}
        lacks = f" Namespace {where} has no LocalQueue, so that the lines begin with one of ClusterQueue "
        lacks += f"{printable(cluster.name, 80)}: ask whoever runs Kueue first."
        return cluster.name, manifests.to_yaml(made) + "---\n", lacks

    def volcano(self) -> Iterator[Step]:
        is_job = self.gang.kind == "Job" and self.gang.api_version == "batch/v1"
        group = self._group(
            "scheduling.volcano.sh/v1beta1", {"minMember": self.size, "queue": self._volcano_queue()}
        )
        change = {
            "metadata": {"annotations": {"scheduling.k8s.io/group-name": self.gang.name}},
            "spec": {"schedulerName": "volcano"},
        }
        said = "Volcano starts the pods of a PodGroup when minMember of them fit; the scheduler's name alone would "
        said += "make a group of each pod."
        name = "a PodGroup of Volcano" if is_job else "Volcano"
        manifest = group + "---\n" + self._patched({}, change)
        yield _step(name, said + (self._anew if is_job else ""), manifest)
        if is_job and self._own_template():
            hosts = Hosts(self.gang.name, f"{self.gang.name}-worker", "VC_TASK_INDEX")
            of_job = moved(self._own_template(), self.gang.name, hosts)
            # A pod that names a scheduler keeps it, and would be placed alone.
            of_job.template["spec"].pop("schedulerName", None)
            said = "Volcano's own Job starts with minAvailable pods or with none. The index of a pod is VC_TASK_INDEX "
            said += (
                f"there, not JOB_COMPLETION_INDEX.{of_job.words}{self._masked_words()} Delete the Job before."
            )
            yield _step("Volcano", said, manifests.to_yaml(self._volcano_job(of_job.template)))

    def coscheduling(self) -> Iterator[Step]:
        group = self._group(
            "scheduling.x-k8s.io/v1alpha1", {"minMember": self.size, "scheduleTimeoutSeconds": 60}
        )
        change = {
            "metadata": {"labels": {"scheduling.x-k8s.io/pod-group": self.gang.name}},
            "spec": {"schedulerName": self._coscheduler()},
        }
        said = "The coscheduling plugin binds the pods of a PodGroup when minMember of them have a place. Only a "
        said += "scheduler that runs the plugin looks at the label."
        manifest = group + "---\n" + self._patched({}, change)
        yield _step("coscheduling", said + self._anew, manifest)

    def native(self) -> Iterator[Step]:
        api = next(
            a for a in self.snapshot.apis if (a.group, a.resource) == ("scheduling.k8s.io", "podgroups")
        )
        group = self._group(api.api_version, {"schedulingPolicy": {"gang": {"minCount": self.size}}})
        change = {"spec": {"schedulingGroup": {"podGroupName": self.gang.name}}}
        said = "Kubernetes' own scheduler starts the pods of a PodGroup with a gang policy when minCount of them fit."
        said += " It needs the feature gate GenericWorkload, and GangScheduling where that is separate, on the API "
        said += "server and the scheduler; without them the field is dropped in silence."
        manifest = group + "---\n" + self._patched({}, change)
        yield _step("a PodGroup of Kubernetes itself", said + self._anew, manifest)

    def yunikorn(self) -> Iterator[Step]:
        requests = {name: f"{amount:.0f}" for name, amount in sorted(self.pod.effective_requests.items())}
        task = {"name": "members", "minMember": self.size, "minResource": requests}
        change = {
            "metadata": {
                "labels": {"applicationId": self.gang.name},
                "annotations": {
                    "yunikorn.apache.org/task-group-name": "members",
                    "yunikorn.apache.org/task-groups": json.dumps([task], separators=(",", ":")),
                },
            },
            "spec": {"schedulerName": "yunikorn"},
        }
        said = (
            "YuniKorn reserves room for a whole task group with placeholder pods before it starts a member."
        )
        yield _step("YuniKorn", said + self._anew, self._patched({}, change))

    @property
    def _anew(self) -> str:
        """How the change of a template gets into this kind of job."""
        return (
            " A Job's template cannot be changed: make the Job anew for it."
            if self.gang.kind == "Job"
            else ""
        )

    def _patched(self, metadata: Patch, change: Patch | None = None) -> str:
        """The job's own object with these lines changed: its metadata, and every pod template in its spec."""
        gang = self.gang
        head: dict[str, Any] = {"apiVersion": gang.api_version} if gang.api_version else {}
        head |= {"kind": gang.kind, "metadata": {"name": gang.name, "namespace": gang.namespace, **metadata}}
        if self.workload is None and gang.kind in {"PodGroup", "Application"}:
            # Bare pods: each is changed by itself.
            own = dict(change or {"metadata": metadata})
            about = {"name": self.pod.name, "namespace": self.pod.namespace, **own.pop("metadata", {})}
            return manifests.to_yaml({"apiVersion": "v1", "kind": "Pod", "metadata": about, **own})
        if change is None:
            return manifests.to_yaml(head)
        spec: dict[str, Any] = {}
        own_spec = self.workload.spec if self.workload is not None else {}
        for role in roles_of(gang.kind, gang.api_version, own_spec):
            if role.path:
                spec = _merged(spec, _nested(role.path, role.name, change))
        return manifests.to_yaml(head | {"spec": spec or {"template": change}})

    def _group(self, api_version: str, spec: Patch) -> str:
        metadata = {"name": self.gang.name, "namespace": self.gang.namespace}
        return manifests.to_yaml(
            {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": dict(spec)}
        )

    def _own_template(self) -> dict[str, Any]:
        """The pod template of a Job without what its controller added; empty where the spec was not kept."""
        own = self.workload.spec.get("template") if self.workload is not None else None
        if not isinstance(own, dict) or not own.get("spec") or not isinstance(own["spec"], dict):
            return {}
        labels = {
            key: value
            for key, value in dict(own.get("metadata", {}).get("labels", {})).items()
            if not key.startswith(_MADE_BY_CONTROLLER)
        }
        return ({"metadata": {"labels": labels}} if labels else {}) | {"spec": own["spec"]}

    def _volcano_job(self, template: Patch) -> dict[str, Any]:
        task = {"name": "worker", "replicas": self.size, "template": dict(template)}
        kept = {key: self._own[key] for key in ("ttlSecondsAfterFinished",) if key in self._own}
        return {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": self.gang.name, "namespace": self.gang.namespace},
            "spec": {
                "schedulerName": "volcano",
                "minAvailable": self.size,
                "maxRetry": self._own.get("backoffLimit", _BACKOFF_LIMIT),
                "queue": self._volcano_queue(),
                "plugins": {"env": [], "svc": []},
                **kept,
                "tasks": [task],
            },
        }

    def _job_set(self, labels: Patch, template: Patch) -> dict[str, Any]:
        """The Job as the only one of a JobSet, which starts all of it anew where the Job would replace one pod."""
        size = self.size
        kept = {key: value for key, value in self._own.items() if key not in _OF_THE_CONTROLLER}
        all_at_once = {
            "parallelism": size,
            "completions": size,
            "backoffLimit": 0,
            "completionMode": "Indexed",
        }
        job = {"spec": kept | all_at_once | {"template": dict(template)}}
        return {
            "apiVersion": self._version_of("jobset.x-k8s.io"),
            "kind": "JobSet",
            "metadata": {"name": self.gang.name, "namespace": self.gang.namespace, "labels": dict(labels)},
            "spec": {
                "failurePolicy": {"maxRestarts": self._own.get("backoffLimit", _BACKOFF_LIMIT)},
                "replicatedJobs": [{"name": "workers", "replicas": 1, "template": job}],
            },
        }

    def _masked_words(self) -> str:
        has_masks = MASKED in str(self._own_template())
        return f" Where a value is {MASKED}, put in what the job's own manifest has." if has_masks else ""

    def _volcano_queue(self) -> str:
        names = [q.name for q in self.snapshot.queues if q.system == "volcano" and q.state in {"", "Open"}]
        return "default" if "default" in names or not names else names[0]

    def _coscheduler(self) -> str:
        """A scheduler that places pods of such groups already."""
        seen = (p.scheduler for p in self.snapshot.pods if "scheduling.x-k8s.io/pod-group" in p.labels)
        return next((name for name in seen if name), "<scheduler that runs the plugin>")

    def _serves(self, group: str) -> bool:
        return any(api.group == group for api in self.snapshot.apis)

    def _version_of(self, group: str) -> str:
        return next(api.api_version for api in self.snapshot.apis if api.group == group)


def _nested(path: tuple[str | int, ...], name: str, change: Patch) -> dict[str, Any]:
    """`change` at `path`; a list keeps only the named item, which is how the API tells items apart."""
    inner: Any = dict(change)
    for step, before in zip(reversed(path), [*list(reversed(path))[1:], ""], strict=True):
        if isinstance(step, int):
            key = "groupName" if before == "workerGroupSpecs" else "name"
            inner = [{key: name, **inner}]
        else:
            inner = {step: inner}
    found: dict[str, Any] = inner
    return found


def _merged(one: Patch, other: Patch) -> dict[str, Any]:
    found = dict(one)
    for key, value in other.items():
        mine = found.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            found[key] = _merged(mine, value)
        elif isinstance(mine, list) and isinstance(value, list):
            found[key] = mine + value
        else:
            found[key] = value
    return found


def _step(name: str, said: str, manifest: str) -> Step:
    """Disruptive: whatever runs of the job ends for it, by suspending it or making it anew."""
    alpha = sorted(set(_ALPHA.findall(manifest)))
    if alpha:
        said += f" An alpha API ({listed([printable(one, 80) for one in alpha])}) may change with an update."
    return Step(
        kind=StepKind.FIX,
        title=printable(f"Have all members started or none with {name}", 160),
        why=f"{_WHY} {said}",
        risk=Risk.DISRUPTIVE,
        manifest=manifest,
        expect=_EXPECT,
    )


def _one_of(number: int, step: Step) -> Step:
    if number < 2:
        return step
    title = f"One of these {number}: {step.title[0].lower()}{step.title[1:]}"
    why = f"One of {number} alternatives: take one of them, not several. {step.why}"
    return msgspec.structs.replace(step, title=title, why=why)

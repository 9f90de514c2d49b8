"""Every threshold that a site may tune: default, unit and source; and what overrides it for one subject.

Rules never use a bare constant: they ask `limits.of(subject)`. Site values, overrides per cluster, namespace and
rule, and annotations on the workload are resolved here, and the origin of each goes into the evidence.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

ANNOTATION_PREFIX = "gpuhealth.io/"
EXEMPT = ANNOTATION_PREFIX + "exempt"
"""Value: rule slugs separated by commas, or `all`."""
EXEMPT_REASON = ANNOTATION_PREFIX + "exempt-reason"


class Thresholds(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One resolved set. "ours" marks a number that no source backs."""

    pending_after: Annotated[timedelta, Meta(description="A pod may wait this long for GPUs (ours).")] = (
        timedelta(minutes=5)
    )
    partial_gang_after: Annotated[
        timedelta, Meta(description="Members of a gang may start this far apart (ours).")
    ] = timedelta(minutes=10)
    queue_wait_after: Annotated[
        timedelta,
        Meta(description="A job that waits its turn in a queue is mentioned after this long (ours)."),
    ] = timedelta(hours=24)
    window: Annotated[timedelta, Meta(description="Span over which activity is judged (ours).")] = timedelta(
        minutes=30
    )
    window_coverage_min_ratio: Annotated[
        float, Meta(description="Less of the window than this sampled: not judged (ours).")
    ] = 0.8
    starting_for: Annotated[
        timedelta, Meta(description="A young pod counts as starting for this long (ours).")
    ] = timedelta(minutes=30)
    not_ready_stuck_after: Annotated[
        timedelta, Meta(description="Not Ready for longer than this is stuck (ours).")
    ] = timedelta(minutes=30)
    idle_after: Annotated[timedelta, Meta(description="No engine activity for this long is idle (ours).")] = (
        timedelta(minutes=30)
    )
    idle_activity_max_ratio: Annotated[
        float, Meta(description="Peak engine activity up to this reads as none: sampling noise (ours).")
    ] = 0.0
    idle_power_max_ratio: Annotated[
        float,
        Meta(
            description="Power below this share of the limit is the idle band: 50 to 120 W of 400 to 700 W "
            "(ours, from what idle boards draw)."
        ),
    ] = 0.3
    idle_memory_resident_bytes: Annotated[
        float,
        Meta(description="More than this in GPU memory is a resident model, not a bare context (ours)."),
    ] = 1.5 * 2**30
    effective_activity_min_ratio: Annotated[
        float, Meta(description="max(SM_ACTIVE, DRAM_ACTIVE / 0.8) from here on is effective (ours).")
    ] = 0.5
    hung_utilization_min_ratio: Annotated[float, Meta(description="Hang signature: utilisation (ours).")] = (
        0.95
    )
    hung_dram_max_ratio: Annotated[float, Meta(description="Hang signature: DRAM activity (ours).")] = 0.05
    hung_tensor_max_ratio: Annotated[float, Meta(description="Hang signature: tensor activity (ours).")] = (
        0.02
    )
    hung_power_max_ratio: Annotated[
        float, Meta(description="Hang signature: power as a share of the limit (ours).")
    ] = 0.5
    hung_power_flat_ratio: Annotated[
        float, Meta(description="Hang signature: (max - min) / mean of power at most (ours).")
    ] = 0.1
    scatter_min_ratio: Annotated[
        float, Meta(description="(used - min) / (max - min) hosts from here on is scattered (ours).")
    ] = 0.3
    isolated_ranks_min: Annotated[
        int, Meta(description="Ranks of a job on one host, each in a pod of one GPU: worth mention (ours).")
    ] = 4
    xid_recent: Annotated[
        timedelta, Meta(description="A fatal Xid is reported for this long after it was seen (ours).")
    ] = timedelta(hours=24)
    xid_repeats_min: Annotated[
        int, Meta(description="Xids of applications on one GPU alone that point at the GPU (ours).")
    ] = 5
    retired_pages_max: Annotated[
        int, Meta(description="Retired memory pages from here on call for a new board (DCGM's health watch).")
    ] = 63
    link_busy_min_ratio: Annotated[
        float,
        Meta(description="Utilisation from which a link or clock is judged: idle GPUs lower both (ours)."),
    ] = 0.3
    nvlink_crc_errors_per_h_max: Annotated[
        float, Meta(description="CRC errors that NVLink repeats an hour: more is a bad link (ours).")
    ] = 1000.0
    pcie_replays_per_min_max: Annotated[
        float, Meta(description="PCIe replays a minute: more is a bad link (DCGM's health watch).")
    ] = 8.0
    clock_loss_min_ratio: Annotated[
        float, Meta(description="A clock this far below the highest costs work (ours).")
    ] = 0.1
    slowdown_min_ratio: Annotated[
        float, Meta(description="Share of the window with lowered clocks that costs work (ours).")
    ] = 0.05
    lemon_incidents_min: Annotated[
        int, Meta(description="Hardware failures of a node in 30 days that make it a lemon (ours).")
    ] = 4
    terminating_grace: Annotated[
        timedelta, Meta(description="Past deletionTimestamp by this much is stuck terminating (ours).")
    ] = timedelta(minutes=2)
    recovered_after: Annotated[
        timedelta,
        Meta(
            description="A container that crashed again and again has recovered when it runs for this long: the "
            "kubelet forgets its back-off then (Kubernetes, pod lifecycle: 10 minutes)."
        ),
    ] = timedelta(minutes=10)
    restarts_min: Annotated[int, Meta(description="Restarts before a crash loop holds GPUs (ours).")] = 3
    operator_failing_after: Annotated[
        timedelta, Meta(description="An operator pod may take this long to become ready (ours).")
    ] = timedelta(minutes=10)
    allocatable_after: Annotated[
        timedelta, Meta(description="A new or rebooted node may take this long to advertise GPUs (ours).")
    ] = timedelta(minutes=15)
    cuda_error_recent: Annotated[
        timedelta, Meta(description="A CUDA or driver error of a container is reported for this long (ours).")
    ] = timedelta(hours=24)
    mig_pending_after: Annotated[
        timedelta, Meta(description="A change of the MIG layout, reboot included, may take this long (ours).")
    ] = timedelta(minutes=20)
    admission_recent: Annotated[
        timedelta, Meta(description="A pod refused by the kubelet is reported for this long (ours).")
    ] = timedelta(hours=6)
    node_settling: Annotated[
        timedelta,
        Meta(description="A pod refused so soon after its node came up was there before the plugin (ours)."),
    ] = timedelta(minutes=15)
    oom_killed_recent: Annotated[
        timedelta, Meta(description="An OOM kill of a pod that runs again is reported for this long (ours).")
    ] = timedelta(hours=24)
    oom_other_process_min_bytes: Annotated[
        float, Meta(description="Memory of others on the GPU that explains an OOM (ours).")
    ] = float(2**30)
    oom_other_process_min_ratio: Annotated[
        float, Meta(description="The same as a share of the GPU (ours).")
    ] = 0.1
    oom_fragmented_min_bytes: Annotated[
        float, Meta(description="Reserved but unallocated from here on may be fragmentation (ours).")
    ] = 512.0 * 2**20
    oom_fragmented_min_ratio: Annotated[float, Meta(description="The same as a share of the GPU (ours).")] = (
        0.05
    )
    oom_single_tensor_ratio: Annotated[
        float, Meta(description="One request of this share of the GPU can never fit (ours).")
    ] = 0.9
    oom_outside_allocator_min_bytes: Annotated[
        float, Meta(description="Memory of the process outside the framework's allocator (ours).")
    ] = 2.0 * 2**30
    memory_full_ratio: Annotated[
        float, Meta(description="From this share of a GPU's memory on, it is nearly full (ours).")
    ] = 0.97
    memory_moving_min_ratio: Annotated[
        float,
        Meta(description="Use that varies by this share of the GPU was not reserved once for all (ours)."),
    ] = 0.05
    host_memory_near_limit_ratio: Annotated[
        float,
        Meta(description="Memory that cannot be given back, as a share of the container's limit (ours)."),
    ] = 0.9
    memory_growth_min_ratio: Annotated[
        float, Meta(description="Growth over hours from here on, as a share of what there is (ours).")
    ] = 0.1
    memory_full_within: Annotated[
        timedelta, Meta(description="Growth that fills the memory later than this is not reported (ours).")
    ] = timedelta(hours=24)
    typical_cpu_cores_per_gpu: Annotated[
        float, Meta(description="CPU that a typical request brings per GPU: stranded without it (ours).")
    ] = 4.0
    typical_memory_bytes_per_gpu: Annotated[
        float, Meta(description="Memory that a typical request brings per GPU (ours).")
    ] = 16.0 * 2**30
    stranded_after: Annotated[
        timedelta, Meta(description="Free GPUs may lack CPU or memory beside them for this long (ours).")
    ] = timedelta(minutes=30)
    preemptions_min: Annotated[
        int, Meta(description="So many preemptions of one workload within an hour are a loop (ours).")
    ] = 3
    preemptions_recent: Annotated[
        timedelta, Meta(description="A loop whose last preemption is older than this has ended (ours).")
    ] = timedelta(minutes=30)


SITE_ONLY = frozenset(
    name
    for name in Thresholds.__struct_fields__
    if name.startswith(("window", "hung_")) or name in {"idle_activity_max_ratio", "idle_power_max_ratio"}
) | {"idle_memory_resident_bytes"}
"""They define the states of GPUs, and so the ledger: one value for the whole site, which no override changes."""


class Override(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A site's exception: which subjects, which rule, and what changes."""

    rule: str = ""
    """Slug; empty for every rule."""
    namespace: str = ""
    cluster: str = ""
    values: dict[str, Any] = {}
    severity: str = ""
    exempt: bool = False
    reason: str = ""
    expires_at: datetime | None = None

    @property
    def scope(self) -> tuple[str, str, str]:
        """What it is about: of two overrides of one scope one replaces the other."""
        return self.cluster, self.rule, self.namespace

    def is_over(self, now: datetime | None) -> bool:
        """It has expired, and changes nothing any more."""
        return bool(self.expires_at and now and self.expires_at <= now)


class Resolved(msgspec.Struct, frozen=True):
    """The thresholds for one subject, and where those that are not default come from."""

    values: Thresholds
    """Of these, reading one that is not the site's is noted in `Limits.noted`."""
    origins: dict[str, str] = {}
    """Field name -> origin in words."""
    exemptions: dict[str, str] = {}
    """Rule slug (or `all`) -> reason."""
    severities: dict[str, tuple[str, str]] = {}
    """Rule slug (or `all`) -> (severity, reason)."""

    def exempt(self, slug: str) -> str | None:
        """Why this rule is silenced here; None when it is not."""
        return self.exemptions.get(slug) or self.exemptions.get("all")

    def severity(self, slug: str) -> tuple[str, str] | None:
        return self.severities.get(slug) or self.severities.get("all")


AnnotationsOf = Callable[[Any], Mapping[str, str]]


class _Noting:
    """Thresholds of which it is noted which are read."""

    def __init__(self, values: Thresholds, noted: set[str]) -> None:
        self._values, self._noted = values, noted

    def __getattr__(self, name: str) -> Any:
        self._noted.add(name)
        return getattr(self._values, name)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Site values and overrides, bound by `diagnose()` to the snapshot's annotations and time, and to a rule."""

    site: Thresholds = Thresholds()
    overrides: tuple[Override, ...] = ()
    cluster: str = ""
    rule: str = ""
    """Slug of the rule that asks: overrides of others' thresholds are none of its. Empty: whoever asks."""
    noted: set[str] | None = None
    """Where it is noted which thresholds were read of subjects that something overrides."""
    now: datetime | None = None
    annotations_of: AnnotationsOf | None = None

    def of(self, subject: Any) -> Resolved:
        """Thresholds for one subject (anything with `namespace`), the most specific source winning:
        annotation on the workload, then override (later ones over earlier), then the site's value.

        An annotation that cannot be read is ignored and named in `origins`.
        """
        changed: dict[str, Any] = {}
        origins: dict[str, str] = {}
        exemptions: dict[str, str] = {}
        severities: dict[str, tuple[str, str]] = {}
        namespace = getattr(subject, "namespace", "")
        for override in self.overrides:
            if not self._applies(override, namespace):
                continue
            why = override.reason or "site override"
            if not self.rule or override.rule in {"", self.rule}:
                for name, value in override.values.items():
                    changed[name], origins[name] = value, f"override: {why}"
            if override.exempt:
                exemptions[override.rule or "all"] = why
            if override.severity:
                severities[override.rule or "all"] = (override.severity, why)
        annotations = self.annotations_of(subject) if self.annotations_of else {}
        _read_annotations(annotations, changed, origins, exemptions)
        if not origins:
            return Resolved(self.site, origins, exemptions, severities)
        values = msgspec.structs.replace(self.site, **changed)
        if self.noted is not None:
            values = cast(Thresholds, _Noting(values, self.noted))
        return Resolved(values, origins, exemptions, severities)

    def _applies(self, override: Override, namespace: str) -> bool:
        if override.cluster and override.cluster != self.cluster:
            return False
        if override.namespace and override.namespace != namespace:
            return False
        return not override.is_over(self.now)


def _read_annotations(
    annotations: Mapping[str, str],
    changed: dict[str, Any],
    origins: dict[str, str],
    exemptions: dict[str, str],
) -> None:
    for key, text in annotations.items():
        if not key.startswith(ANNOTATION_PREFIX) or key == EXEMPT_REASON:
            continue
        if key == EXEMPT:
            why = annotations.get(EXEMPT_REASON) or "no reason given"
            for slug in filter(None, (part.strip() for part in text.split(","))):
                exemptions[slug] = f"annotation {EXEMPT}: {why}"
            continue
        name = key.removeprefix(ANNOTATION_PREFIX).replace("-", "_")
        if name not in Thresholds.__struct_fields__:
            continue
        try:
            changed[name] = parsed(name, text)
            origins[name] = f"annotation {key}"
        except ValueError:
            origins[name] = f"annotation {key} ignored: not readable"


_DURATION = re.compile(r"(\d+)\s*([smhd])")
_UNIT = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parsed(name: str, text: str) -> Any:
    """The value of one threshold, from text: `1h 30m` for a duration, else a number. Raises ValueError."""
    default = getattr(Thresholds(), name)
    if isinstance(default, timedelta):
        return duration(text)
    return type(default)(text)


def duration(text: str) -> timedelta:
    """`30s`, `1h 30m`, `2d` and their like. Raises ValueError."""
    parts = _DURATION.findall(text)
    if not parts or _DURATION.sub("", text).strip():
        msg = f"not a duration: {text[:40]!r}"
        raise ValueError(msg)
    try:
        return sum((timedelta(**{_UNIT[unit]: int(number)}) for number, unit in parts), timedelta())
    except OverflowError:
        msg = f"too long: {text[:40]!r}"
        raise ValueError(msg) from None

"""The states of a GPU, in the order in which they are decided: the first that matches wins."""

from diagnostics.glossary.term import Term

TERMS = (
    Term(
        slug="unavailable",
        name="unavailable",
        gist="not ready, unhealthy, cordoned or not allocatable",
        meaning="Its node is not Ready, or the GPU is unhealthy (marked by the device plugin, row remap "
        "failed), or it is fitted but not allocatable; or its node is cordoned and nobody holds it.",
        source="Node condition `Ready`, `spec.unschedulable`, `status.allocatable`; DCGM row remap failure",
        see=("fitted", "offered"),
    ),
    Term(
        slug="stranded",
        name="stranded",
        gist="held by nobody, but no request fits where it is",
        meaning="Held by nobody, but its node lacks the CPU or memory that any waiting pod or a typical "
        "request would need: {typical_cpu_cores_per_gpu} cores and {typical_memory_bytes_per_gpu} for "
        "each GPU. The cluster's waste, never a team's.",
        source="Node `status.allocatable` minus the requests of the pods that are bound to it; ours",
        see=("held", "slots"),
    ),
    Term(
        slug="free",
        name="free",
        gist="held by nobody, and usable",
        meaning="Held by nobody, and usable.",
        see=("held", "slots"),
    ),
    Term(
        slug="stuck",
        name="stuck",
        gist="held by a pod that cannot work",
        meaning="Held by a pod that cannot work: in a crash loop after {restarts_min} restarts and until it "
        "has run for {recovered_after}, unable to pull its image or to mount a volume, Terminating for "
        "{terminating_grace} past its grace period, of phase Unknown, or not Ready for "
        "more than {not_ready_stuck_after}.",
        source="Pod `status.containerStatuses`, `status.conditions`, `metadata.deletionTimestamp`",
        see=("held",),
    ),
    Term(
        slug="starting",
        name="starting",
        gist="held by a pod that is starting or loading a model",
        meaning="Held by a pod that is younger than {starting_for} and not Ready yet.",
        source="Pod `status.startTime`, condition `Ready`; ours",
    ),
    Term(
        slug="blocked",
        name="blocked",
        gist="held by a running member of a gang whose other members do not run",
        meaning="Held by a running member of a collective job of which another member neither runs nor has "
        "finished: it can only wait.",
        source="Pods of the job and their phases",
        see=("collective_job",),
    ),
    Term(
        slug="no_data",
        name="no data",
        gist="held, but what is needed to judge it was not measured",
        meaning="Held, and a metric needed to decide is absent, too old, or covers less than "
        "{window_coverage_min_ratio} of the window; or given out by a resource claim (DRA), whose "
        "holders are not read. Never counted as idle or as healthy.",
        source="GPU metrics",
        see=("window", "unobserved"),
    ),
    Term(
        slug="hung",
        name="hung",
        gist="held; kernels are resident everywhere in the gang, but nothing moves",
        meaning="Held by a collective job of which every GPU looks, over the window, like one that waits for "
        "the others: utilisation of at least {hung_utilization_min_ratio}, DRAM activity below "
        "{hung_dram_max_ratio}, tensor activity below {hung_tensor_max_ratio}, power flat within "
        "{hung_power_flat_ratio} of its mean and below {hung_power_max_ratio} of the limit.",
        source="GPU metrics over the window; ours",
        see=("utilization", "dram_active", "tensor_active", "power", "collective_job"),
    ),
    Term(
        slug="idle_empty",
        name="idle, empty",
        gist="held, no activity, nothing in its memory",
        meaning="Held; no engine was active over the window (peak at most {idle_activity_max_ratio}), power "
        "is in the idle band, and GPU memory holds no more than a bare context: "
        "{idle_memory_resident_bytes} at most.",
        source="GPU metrics over the window; ours",
        see=("peak_activity", "idle_band", "gpu_memory", "window"),
    ),
    Term(
        slug="idle_held",
        name="idle, memory held",
        gist="held, no activity, with data in its memory",
        meaning="Idle like an empty one, but with more than {idle_memory_resident_bytes} in GPU memory: a "
        "loaded model that nobody calls, or a leftover.",
        source="GPU metrics over the window; ours",
        see=("idle_empty", "gpu_memory"),
    ),
    Term(
        slug="ineffective",
        name="low activity",
        gist="held, and active for less than half of what the GPU can do",
        meaning="Held and active, but its activity over the window is below {effective_activity_min_ratio}.",
        source="GPU metrics over the window; ours",
        see=("activity", "waste"),
    ),
    Term(
        slug="effective",
        name="effective",
        gist="held and working",
        meaning="Held, and none of the states before. Where neither SM nor DRAM activity is collected it is "
        "marked as not judged.",
        source="GPU metrics over the window",
        see=("activity", "unjudged"),
    ),
    Term(
        slug="unjudged",
        name="not judged",
        gist="counted as effective, because nothing measured says otherwise",
        meaning="Held and not idle, but neither SM nor DRAM activity is collected, so that low activity "
        "cannot be told from full. In sums it counts as effective, and is marked.",
        source="The exporter's list of counters: profiling metrics are off there",
        see=("sm_active", "dram_active"),
    ),
)

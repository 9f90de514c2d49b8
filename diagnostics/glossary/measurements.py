"""What is measured at a GPU: each number with its unit and the DCGM field behind it."""

from diagnostics.glossary.term import Term

TERMS = (
    Term(
        slug="window",
        name="window",
        meaning="The span of GPU metrics over which activity is judged: the last {window}, from Prometheus or "
        "from earlier polls, as minimum, mean and maximum of each metric.",
        unit="a span of time",
        source="Prometheus `*_over_time` functions, or our own samples; length ours",
        see=("window_coverage",),
    ),
    Term(
        slug="window_coverage",
        name="coverage of the window",
        meaning="The share of the window for which samples exist. Below {window_coverage_min_ratio} nothing "
        "is judged from it.",
        formula="samples found / (window / scrape interval), at most 1",
        unit="ratio, 0 to 1",
        source="ours",
        see=("window", "no_data"),
    ),
    Term(
        slug="utilization",
        name="utilisation",
        gist="share of the time with a kernel resident, not the share of the GPU that works",
        meaning="The share of the time in which at least one kernel was resident. It says nothing of how much "
        "of the GPU works: one small kernel reads as 100 %, and so does a collective that only waits.",
        unit="percent of the time",
        source="`DCGM_FI_DEV_GPU_UTIL`; NVML, `nvmlUtilization_t`",
        see=("sm_active", "hung"),
    ),
    Term(
        slug="gr_engine",
        name="engine activity",
        meaning="The share of the time in which the graphics or compute engine was active.",
        unit="ratio of the time, shown in percent",
        source="`DCGM_FI_PROF_GR_ENGINE_ACTIVE` (DCGM field 1001)",
        see=("utilization",),
    ),
    Term(
        slug="sm_active",
        name="SM activity",
        gist="share of the time and of the multiprocessors with work assigned",
        meaning="The share of the time in which a multiprocessor had at least one warp assigned, averaged "
        "over all of them: how much of the GPU is in use, where utilisation says only whether.",
        unit="ratio, shown in percent",
        source="`DCGM_FI_PROF_SM_ACTIVE` (DCGM field 1002). NVIDIA: 0.8 or more is needed for effective use, "
        "below 0.5 likely is not",
        see=("utilization", "activity"),
    ),
    Term(
        slug="tensor_active",
        name="tensor activity",
        meaning="The share of the cycles in which the tensor cores' pipe was active. Low for kernels that do "
        "not multiply matrices, however busy they are.",
        unit="ratio, shown in percent",
        source="`DCGM_FI_PROF_PIPE_TENSOR_ACTIVE` (DCGM field 1004)",
    ),
    Term(
        slug="dram_active",
        name="DRAM activity",
        gist="share of the cycles in which GPU memory was read or written",
        meaning="The share of the cycles in which GPU memory was sending or receiving data. About 0.8 is "
        "practically saturated.",
        unit="ratio, shown in percent",
        source="`DCGM_FI_PROF_DRAM_ACTIVE` (DCGM field 1005)",
        see=("activity",),
    ),
    Term(
        slug="activity",
        name="activity",
        meaning="How much of a GPU works: the larger of what its multiprocessors and its memory are used for, "
        "as the mean over the window. Unknown where neither is collected.",
        formula="max(SM activity, min(1, DRAM activity / 0.8))",
        unit="ratio, shown in percent",
        source="DCGM fields 1002 and 1005; the combination is ours",
        see=("sm_active", "dram_active", "ineffective"),
    ),
    Term(
        slug="peak_activity",
        name="peak engine activity",
        meaning="The largest value within the window of whichever of utilisation, engine, SM, tensor and DRAM "
        "activity are collected.",
        unit="ratio, 0 to 1",
        source="GPU metrics over the window",
        see=("idle_empty",),
    ),
    Term(
        slug="gpu_memory",
        name="GPU memory in use",
        meaning="Frame buffer memory that processes have taken from the GPU. A framework keeps what it once "
        "took, so that memory in use says nothing of how much of it is needed.",
        unit="bytes, shown in MiB or GiB of 1,024",
        source="`DCGM_FI_DEV_FB_USED`",
        see=("idle_held",),
    ),
    Term(
        slug="power",
        name="power",
        meaning="What the board draws.",
        unit="watts",
        source="`DCGM_FI_DEV_POWER_USAGE`",
        see=("power_limit",),
    ),
    Term(
        slug="power_limit",
        name="power limit",
        meaning="The limit that the driver enforces, as the exporter reports it; else the datasheet's maximum "
        "of the model; unknown for a model that we do not know.",
        unit="watts",
        source="`DCGM_FI_DEV_ENFORCED_POWER_LIMIT`, else NVIDIA's datasheets",
    ),
    Term(
        slug="idle_band",
        name="idle band",
        meaning="Power that a board draws without work: at most {idle_power_max_ratio} of its limit, as the "
        "mean over the window. Where power or limit is unknown, activity alone decides.",
        unit="share of the power limit",
        source="Ours, from what idle boards draw",
        see=("power", "power_limit"),
    ),
    Term(
        slug="temperature",
        name="temperature",
        meaning="Of the GPU's chip; that of its memory is another sensor, and often hotter.",
        unit="degrees Celsius",
        source="`DCGM_FI_DEV_GPU_TEMP`, `DCGM_FI_DEV_MEMORY_TEMP`",
    ),
    Term(
        slug="xid",
        name="Xid",
        meaning="The number under which the driver reports an error of a GPU or of the process on it. A fatal "
        "one is reported for {xid_recent} after it was seen.",
        source="NVIDIA, XID Errors; `DCGM_FI_DEV_XID_ERRORS` is the last one, for as long as the driver runs",
    ),
)

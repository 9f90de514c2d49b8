"""How time becomes GPU-hours, waste and money."""

from diagnostics.glossary.term import Term

TERMS = (
    Term(
        slug="gpu_hour",
        name="GPU-hour",
        gist="one physical GPU for one hour",
        meaning="One physical GPU for one hour, whoever holds it and whatever it does. The ledger counts "
        "whole GPU-milliseconds; shares are cut at absolute times, so that nothing is rounded away "
        "and the states of a GPU sum to the time for which it existed.",
        formula="3,600,000 GPU-milliseconds; a MIG instance counts as its share of the compute slices, a "
        "shared GPU as one share per holder",
        unit="GPU-hours",
        source="ours",
        see=("mig", "shared_gpu", "interval"),
    ),
    Term(
        slug="interval",
        name="interval",
        meaning="The time from one poll to the next. It takes the holder and the sample of its beginning.",
        unit="a span of time",
        source="ours",
        see=("poll", "unobserved"),
    ),
    Term(
        slug="stretch",
        name="stretch",
        meaning="Quiet or waiting time of one set of pods on one GPU. From the length of a window on it is "
        "idle or hung, all of it; shorter, it counts as low activity.",
        unit="a span of time",
        source="ours",
        see=("window", "ineffective"),
    ),
    Term(
        slug="complete_through",
        name="complete through",
        gist="up to here nothing changes any more",
        meaning="Up to here the ledger does not change any more: one window behind the last poll at most, "
        "because only then it is known whether quiet time was idle.",
        unit="a time",
        source="ours",
        see=("stretch",),
    ),
    Term(
        slug="unobserved",
        name="unobserved",
        meaning="More than two poll intervals without a poll. Its state is no data and its holder unknown, "
        "marked as a gap, until it is back-filled.",
        unit="GPU-hours",
        source="ours",
        see=("no_data", "back_filled"),
    ),
    Term(
        slug="back_filled",
        name="back-filled",
        meaning="Rebuilt from what Prometheus remembers, by the same functions as live time, and marked. The "
        "newest part comes first.",
        source="Prometheus: kube-state-metrics and dcgm-exporter",
        see=("unobserved",),
    ),
    Term(
        slug="waste",
        name="waste",
        gist="GPU time that nobody benefits from",
        meaning="GPU time that nobody benefits from: idle, hung, blocked and stuck time in full, low activity "
        "in part. Stranded time is the cluster's, never a team's; time without data is no waste.",
        formula="idle + hung + blocked + stuck + low activity × (1 - activity / "
        "{effective_activity_min_ratio})",
        unit="GPU-hours",
        source="ours",
        see=("idle_empty", "idle_held", "hung", "blocked", "stuck", "ineffective", "activity"),
    ),
    Term(
        slug="wasted_gpus",
        name="wasted GPUs",
        gist="GPUs that nobody benefits from while the finding lasts",
        meaning="GPUs of a finding that nobody benefits from while it lasts; a shared GPU counts as its "
        "share. Unknown is shown as a dash, not as zero.",
        unit="GPUs",
        source="The rule that found it",
        see=("waste",),
    ),
    Term(
        slug="team",
        name="team",
        meaning="Whose a workload is: the first team rule that matches its label, annotation or namespace; "
        "without one, its namespace. Applied when reading, so that a correction moves the past too.",
        source="The site's team rules",
    ),
    Term(
        slug="money",
        name="money",
        meaning="What GPU-hours cost at the price of their model at that hour. Unknown where no price is "
        "given, never zero. Applied when reading.",
        formula="GPU-hours × price per GPU-hour",
        unit="the currency of the price",
        source="The site's price table",
        see=("gpu_hour",),
    ),
)

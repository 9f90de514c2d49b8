"""What rules find, and what becomes of it."""

from diagnostics.glossary.term import Term

TERMS = (
    Term(
        slug="finding",
        name="finding",
        meaning="Something that a rule found wrong at one subject (a workload, pod, node or GPU), with its "
        "evidence, its cause and a guided fix. Pods of one owner make one finding.",
        source="The catalogue of rules",
        see=("incident", "severity", "confidence"),
    ),
    Term(
        slug="incident",
        name="incident",
        meaning="The life of one finding over time: open, acknowledged, resolved, reopened. It is the same "
        "one for as long as cluster, rule and subject are the same. A rule that could not look "
        "neither opens nor resolves anything.",
        source="ours",
        see=("finding", "holding", "not_evaluated"),
    ),
    Term(
        slug="severity",
        name="severity",
        meaning="How urgent it is. Critical: GPUs or a job do not work. Warning: GPUs are wasted, wait or "
        "work less well than they could, or a trouble has ended by itself but may return. Info: worth "
        "knowing; nothing has to be done at once.",
        unit="critical, warning, info",
        source="The rule; a site's override is named on the finding",
    ),
    Term(
        slug="confidence",
        name="confidence",
        meaning="How sure the rule is of the cause that it names. High: the evidence leaves one cause. "
        "Medium: it fits better than others. Low: it is one of several.",
        unit="high, medium, low",
        source="The rule",
    ),
    Term(
        slug="holding",
        name="holding",
        meaning="A finding opens once it was seen in as many polls as its rule asks for: one where the fact "
        "carries its own age, mostly two where it does not. Polls in which the rule could not look "
        "neither count nor start anew.",
        unit="polls",
        source="The rule",
        see=("open_for",),
    ),
    Term(
        slug="open_for",
        name="open for",
        gist="since it opened, or opened again; the trouble itself may be older",
        meaning="Time since the finding opened; where it had been resolved, since it opened again. The trouble may be "
        "older: its own age stands in the title or in the evidence.",
        unit="a span of time",
        source="ours",
    ),
    Term(
        slug="symptom",
        name="symptom",
        meaning="A finding that another one explains, because both touch the same pod or node and the one's "
        "rule names the other's as a cause. It stands under its cause, whatever its severity.",
        source="The rules",
    ),
    Term(
        slug="evidence",
        name="evidence",
        meaning="One fact with its value, its unit and where it was read: an object's field, a query or a log "
        "line.",
    ),
    Term(
        slug="risk",
        name="risk",
        gist="what running a step may cost",
        meaning="What a step of a guided fix may cost. Read-only: changes nothing. Safe: changes something, "
        "disturbs no running pod. Disruptive: restarts or evicts something that runs. Destructive: "
        "loses something, and the step says what. What only looks comes first, then the mildest repair before "
        "one that loses something; after it what puts things back, verifies and escalates.",
        unit="read-only, safe, disruptive, destructive",
        source="ours",
    ),
    Term(
        slug="verified",
        name="verified",
        meaning="The last 3 polls in which the rule could look at complete data did not find it any more. A poll "
        "in which it could not look neither verifies nor refutes. Nor is anything verified where no pod of it is left "
        "and nobody has checked a fix off: then it is resolved because its pods are gone or have ended.",
        unit="polls",
        source="ours",
        see=("not_evaluated", "success_rate"),
    ),
    Term(
        slug="success_rate",
        name="success rate",
        meaning="How often a fix has held in this installation, for one rule and cause. It is tried when an "
        "incident is resolved with a step of kind fix checked off; it has held once that is verified, and failed "
        "when the trouble is back within 24 hours. Shown from 5 outcomes on.",
        formula="held / (held + failed)",
        unit="percent",
        source="ours",
        see=("verified", "incident"),
    ),
    Term(
        slug="cost_so_far",
        name="cost so far",
        gist="GPU-hours wasted since the incident opened",
        meaning="Of a workload, all that it wasted since the full hour in which the incident opened, whatever the "
        "reason, by the ledger. Else an estimate: the GPUs that it wastes now, for as long as it was open. Money "
        "is shown where a price is known.",
        unit="GPU-hours",
        source="ours",
        see=("waste", "wasted_gpus", "complete_through", "money"),
    ),
    Term(
        slug="exempt",
        name="exempt",
        meaning="A workload's owner or the site has silenced a rule there, with a reason, which is shown: a "
        "warm standby, an interactive session.",
        source="Annotation `gpuhealth.io/exempt`, or an exception of the site",
        see=("exception",),
    ),
    Term(
        slug="exception",
        name="exception",
        meaning="What a site judges differently from the catalogue: for one rule or all, in one cluster and namespace "
        "or in all, a rule is off, has another severity or other limits, for a reason and until a day. It stands on "
        "every finding that it touches. Of several that apply, one for a namespace wins over one for a rule, that over "
        "one for a cluster, what is entered over what the clusters file declares, and an annotation on the workload "
        "over all.",
        source="The page of exceptions, or the clusters file",
        see=("exempt", "limit", "severity"),
    ),
)

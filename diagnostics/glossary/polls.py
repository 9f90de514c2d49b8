"""What was asked of a cluster, what came back, and what cannot be seen."""

from diagnostics.glossary.term import Term

TERMS = (
    Term(
        slug="poll",
        name="poll",
        meaning="One look at a cluster: every source is asked once, the rules judge what came back, and both "
        "are kept.",
        source="The setting `GPUHEALTH_POLL_INTERVAL`",
    ),
    Term(
        slug="source",
        name="source",
        meaning="One kind of data that a poll asks for. ok: all of it came. partial: some is missing, and it "
        "is said which. stale: it is old. forbidden: the role does not allow it. absent: it does not "
        "exist there. failed: it was asked for and did not answer.",
        unit="ok, partial, stale, forbidden, absent, failed",
        see=("stale",),
    ),
    Term(
        slug="freshness",
        name="age of a page",
        gist="since the cluster was last seen as the page shows it",
        meaning="The time since the cluster was last seen as a page shows it. It stands at the top of every "
        "page of a cluster.",
        formula="now - time of the latest snapshot, by the cluster's clock",
        unit="a span of time",
        source="The `Date` header of the API server",
        see=("stale",),
    ),
    Term(
        slug="stale",
        name="stale",
        meaning="Too old to act on. A page: no poll has succeeded for three intervals. A metric: its sample "
        "is older than three scrapes. Stale data is marked, and what rests on "
        "it is not judged.",
        source="ours",
        see=("no_data",),
    ),
    Term(
        slug="coverage",
        name="coverage",
        meaning="How much of the catalogue could look, and at how much. What could not be seen is listed with "
        "the line that cures it; it is neither healthy nor a finding.",
        unit="rules",
        source="The last poll",
        see=("blind_spot", "not_evaluated"),
    ),
    Term(
        slug="blind_spot",
        name="blind spot",
        meaning="Something that nobody can see from here: a right that is missing, GPUs without metrics, a "
        "log that may not be read. Its code begins with GPU9.",
        source="The rules of the family blind spots",
    ),
    Term(
        slug="not_evaluated",
        name="not evaluated",
        meaning="A rule or a value that could not be judged, because what it needs is missing or too old. It "
        "opens nothing, resolves nothing, and counts as neither good nor bad.",
    ),
    Term(
        slug="stage",
        name="stage",
        meaning="One part of a poll. Collecting contains the API server, logs, metrics and joining them; "
        "after it come the rules, the incidents, the ledger and the archive. The status page tells of each.",
        unit="milliseconds",
        source="Our own clock",
    ),
    Term(
        slug="limit",
        name="limit",
        meaning="A number that a rule compares with. Each has a default and a source; a site, a namespace or "
        "a workload may set its own, and findings name what was changed.",
        source="`docs/limits.md`",
    ),
)

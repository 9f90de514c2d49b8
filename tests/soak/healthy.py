"""A healthy simulated cluster for fourteen days, polled every 5 minutes: no incident may open.

Each poll is whole: over HTTP, through all rules, into SQLite. Windows fill within the first half hour; from then on
every rule has to have looked, and none may have failed.
"""

import sys
import time
from datetime import datetime, timedelta

from diagnostics.simulator.config import WorldConfig
from tests.soak.installation import SLUG, START, poll_all, scratch, set_up, variables, watched

DAYS = 14.0
EVERY = timedelta(minutes=5)
HEALTHY = WorldConfig(epoch=START)
WARM_UP = timedelta(minutes=40)
"""Until its own samples make whole windows, the cluster is told to be seen in part."""
WITHOUT_PROMETHEUS = "needs usage absent"
"""What the kubelets' own metrics are needed for is not looked at: this cluster has exporters alone."""
CHUNK = timedelta(hours=6)


def run() -> bool:
    """Fourteen days; True when nothing opened and every rule looked."""
    return soaked(DAYS)


def soaked(days: float) -> bool:
    """Poll so many days and say what came of it."""
    begin, end = START, START + timedelta(days=days)
    begun = time.perf_counter()
    polls = 0
    with scratch() as folder, watched(begin, folder, HEALTHY) as seen:
        set_up(
            variables(
                folder, f"sqlite://{folder}/gpuhealth.sqlite3", int(EVERY.total_seconds()), seen.declaration()
            )
        )
        at = begin
        while at < end:
            until = min(end, at + CHUNK)
            moments = [at + number * EVERY for number in range(int((until - at) / EVERY))]
            poll_all(seen, moments)
            polls, at = polls + len(moments), until
            spent = (time.perf_counter() - begun) / 60
            print(
                f"  {(at - begin) / timedelta(days=1):5.2f} days, {polls} polls, {spent:.1f} minutes",
                flush=True,
            )
        opened, doubts = judged(begin + WARM_UP)
    spent = (time.perf_counter() - begun) / 60
    print(
        f"{days:g} days, {polls} polls in {spent:.1f} minutes ({spent * 60 / polls:.2f} s each): "
        f"{len(opened)} incidents"
    )
    for line in (*opened, *doubts):
        print(f"  {line}")
    return not opened and not doubts


def judged(since: datetime) -> tuple[list[str], list[str]]:
    """What opened or was about to, and the polls from `since` on in which a rule failed or could not look."""
    from diagnostics.models import Cluster, Incident, Observation

    cluster = Cluster.objects.get(slug=SLUG)
    opened = [
        f"{i.code} {i.subject_kind} {i.subject_namespace}/{i.subject_name} "
        f"({i.status}, first seen {i.first_seen:%d %H:%M}): {i.title}"
        for i in Incident.objects.filter(cluster=cluster)
    ]
    doubts = []
    for poll in Observation.objects.filter(cluster=cluster, taken_at__gte=since):
        blind = [one for one in poll.rules_skipped if not one["reason"].startswith(WITHOUT_PROMETHEUS)]
        if poll.rules_failed or blind:
            said = str(poll.rules_failed or blind[0])
            doubts.append(f"poll of {poll.taken_at:%d %H:%M}: {len(blind)} rules could not look: {said}")
    return opened, doubts[:20]


if __name__ == "__main__":
    sys.exit(0 if soaked(float(sys.argv[1]) if len(sys.argv) > 1 else DAYS) else 1)

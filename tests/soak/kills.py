"""A hundred kills at random points: the ledger is as if the polls that were lost had never been due.

Real processes: a Celery worker that polls in simulated time, a Valkey as its broker, a PostgreSQL. One of them gets
SIGKILL at a random point of a poll and is started anew. Then everything that was recorded is compared with what an
undisturbed worker records into another database from the very polls that were kept: every row must be equal. Polls
that were lost leave unobserved time, marked as such in both.
"""

import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError

from diagnostics.management.children import broker
from tests.postgres import Postgres, programs
from tests.processes import ROOT
from tests.soak import ledger
from tests.soak.installation import START, Watched, scratch, set_up, variables, watched

KILLS, SEED = 100, 20260601
BEGIN = START + timedelta(days=5, hours=1)
"""Before pods crash-loop, a gang waits for its last members, and people come to work."""
MINUTE = timedelta(minutes=1)
TARGETS = ("worker", "broker", "database")
PATIENCE_S = 60.0
LOST_AFTER_S = 6.0
"""A poll that nobody has begun by then, after its message may have died, is lost."""


def run(kills: int = KILLS) -> bool:
    """Print what was killed and found; True when the ledgers are equal."""
    if programs() is None:
        print("kills: skipped, PostgreSQL's server is missing: install the Debian package postgresql")
        return True
    with scratch() as folder, Postgres(_apart(folder)) as database:
        disturbed, reference = (database.create(name) for name in ("disturbed", "reference"))
        with watched(BEGIN, folder) as seen:
            environment = variables(folder, disturbed, 60, seen.declaration())
            subprocess.run(
                [sys.executable, "manage.py", "migrate", "--verbosity=0"],
                cwd=ROOT,
                env=environment,
                check=True,
            )
            soak = Soak(seen, folder, environment, database, random.Random(SEED))
            with soak.running():
                soak.polled(kills)
        kept = _kept(environment)
        again = environment | {"GPUHEALTH_DATABASE_URL": reference}
        set_up(again)
        ledger.replay(folder, kept)
        theirs, ours = ledger.dumped(environment), ledger.dumped(again)
    return _report(soak, kept, theirs, ours)


def _apart(folder: Path) -> Path:
    """For another user, who must be able to get there."""
    folder.chmod(0o711)
    return folder / "postgres"


@dataclass
class Soak:
    """The three processes, and what was done to them."""

    seen: Watched
    folder: Path
    environment: dict[str, str]
    database: Postgres
    chance: random.Random
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    killed: Counter[str] = field(default_factory=Counter)
    torn: int = 0
    """Polls that had begun and never ended."""
    polls: int = 0

    def __post_init__(self) -> None:
        self.socket = self.folder / "broker.sock"
        self.notes = self.folder / "notes"
        self.notes.touch()
        url = f"redis+socket://{self.socket}"
        self.environment |= {"GPUHEALTH_BROKER_URL": url, "SOAK_NOTES": str(self.notes)}
        self.sender = Celery(broker=url, set_as_current=False)
        self.sender.conf.task_ignore_result = True

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            self._start("broker")
            self._start("worker")
            yield
        finally:
            self.sender.close()
            for process in self.processes.values():
                process.kill()
                process.wait()

    def polled(self, kills: int) -> None:
        """Poll after poll, a minute apart, until so many processes were killed and ten polls more."""
        moment, lasted = BEGIN, list[float]()
        pause = 6
        while sum(self.killed.values()) < kills or pause > 0:
            self.seen.clock.now = moment
            self.polls += 1
            pause -= 1
            if pause >= 0 or sum(self.killed.values()) >= kills:
                begun = time.monotonic()
                self._send(moment)
                self._until_ended(moment)
                lasted.append(time.monotonic() - begun)
            else:
                self._disturbed(moment, statistics.median(lasted[-9:]))
                is_last = sum(self.killed.values()) >= kills
                pause = 10 if is_last else self.chance.randrange(1, 6)
            moment += MINUTE
            self.seen.cluster.requests.clear()

    def _disturbed(self, moment: datetime, usual_s: float) -> None:
        """A poll during which one of the three is killed."""
        target = self.chance.choice(TARGETS)
        self._send(moment)
        time.sleep(self.chance.uniform(0, 1.1 * usual_s))
        if target == "database":
            self.database.kill()
            self.database.start()
        else:
            self.processes[target].kill()
            self.processes[target].wait()
            if target == "worker":
                # What it had not begun is lost with it: the next one must not poll a moment that is over.
                self.sender.control.purge()
            self._start(target)
        self.killed[target] += 1
        if target == "worker":
            self.torn += self._words(moment) == ["begun"]
        else:
            self._until_ended(moment, lost_after_s=LOST_AFTER_S if target == "broker" else PATIENCE_S)

    def _send(self, moment: datetime) -> None:
        for _ in range(100):
            try:
                self.sender.send_task("soak.poll", args=(moment.isoformat(),), retry=False)
                return
            except OperationalError:
                time.sleep(0.1)
        raise RuntimeError("the broker does not answer")

    def _until_ended(self, moment: datetime, *, lost_after_s: float = PATIENCE_S) -> None:
        begun = time.monotonic()
        while "ended" not in (words := self._words(moment)):
            waited = time.monotonic() - begun
            if not words and waited > lost_after_s < PATIENCE_S:
                return
            if waited > PATIENCE_S or self.processes["worker"].poll() is not None:
                raise RuntimeError(
                    f"no poll at {moment}:\n{(self.folder / 'worker.log').read_text()[-2000:]}"
                )
            time.sleep(0.01)

    def _words(self, moment: datetime) -> list[str]:
        lines = (line.split() for line in self.notes.read_text().splitlines()[-20:])
        return [line[0] for line in lines if line[1:] == [moment.isoformat()]]

    def _start(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                broker(self.socket) if name == "broker" else _worker(),
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )


def _worker() -> list[str]:
    """One process, so that its death is the death of its poll."""
    return [
        *(sys.executable, "-m", "celery", "--app=tests.soak.worker", "--quiet", "worker", "--pool=solo"),
        *("--loglevel=INFO", "--without-mingle", "--without-gossip", "--without-heartbeat"),
    ]


def _kept(environment: dict[str, str]) -> list[datetime]:
    return [datetime.fromisoformat(text) for text in ledger.asked("kept", environment)]


def _report(soak: Soak, kept: list[datetime], theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    what = ", ".join(f"{soak.killed[name]} {name}" for name in TARGETS)
    print(
        f"{sum(soak.killed.values())} kills ({what}) in {soak.polls} polls: {soak.torn} torn, {len(kept)} kept"
    )
    equal = True
    for name, rows in ours.items():
        missing, extra = Counter(rows) - Counter(theirs[name]), Counter(theirs[name]) - Counter(rows)
        equal &= not missing and not extra
        print(f"  {name:18} {len(rows):6} rows, {missing.total()} missing, {extra.total()} too many")
        for row in [*missing, *extra][:4]:
            print(f"    {row}")
    return equal and bool(ours["hours"])


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(0 if run(int(sys.argv[1])) else 1)

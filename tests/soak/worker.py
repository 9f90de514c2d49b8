"""A Celery worker that polls at the simulated moments that it is told, and notes when it begins and ends a poll."""

import os
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from gpuhealth.celery import app

NOTES = "SOAK_NOTES"
"""Variable with the file for its notes: a line `begun <moment>` or `ended <moment>` each."""


@app.task(name="soak.poll")
def poll(moment: str) -> None:
    """One poll of every cluster, as if it were that time: leases, too, run out by it."""
    from diagnostics.pipeline import observe

    now = datetime.fromisoformat(moment)
    wall_clock = timezone.now
    _note("begun", moment)
    timezone.now = lambda: now
    try:
        for slug in settings.CLUSTERS:
            observe(slug, clock=lambda: now)
    finally:
        timezone.now = wall_clock
        _note("ended", moment)


def _note(word: str, moment: str) -> None:
    with Path(os.environ[NOTES]).open("a") as notes:
        notes.write(f"{word} {moment}\n")

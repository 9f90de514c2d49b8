"""The Celery application, and what runs when."""

import os
from logging.config import dictConfig
from typing import Any

from celery import Celery, signals
from celery.schedules import crontab
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuhealth.settings")

app = Celery("gpuhealth")
BACKFILL_EVERY_S = 300.0


def _settings() -> dict[str, Any]:
    """Read when the application is first used, so that importing it costs nothing."""
    interval = settings.POLL_INTERVAL.total_seconds()
    longest_poll = max([cluster.poll_timeout_s for cluster in settings.CLUSTERS.values()], default=120.0)
    return {
        "broker_url": settings.BROKER_URL,
        "broker_connection_retry_on_startup": True,
        "task_ignore_result": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        # A poll whose worker died is not repeated: the next one is due within a minute, and sees more.
        "task_acks_late": False,
        "worker_prefetch_multiplier": 1,
        # Above the poll's own bound, for the one that hangs where no timeout reaches.
        "task_soft_time_limit": longest_poll + 30,
        "task_time_limit": longest_poll + 45,
        "timezone": "UTC",
        "beat_schedule": {
            "poll every cluster": {
                "task": "diagnostics.tasks.observe_all",
                "schedule": interval,
                # What was not begun when the next one is due is dropped, so that no backlog piles up.
                "options": {"expires": interval},
            },
            "roll up and delete": {
                "task": "diagnostics.tasks.retain_all",
                # By the clock, so that a beat that is often restarted comes to it too.
                "schedule": crontab(minute="11"),
                "options": {"expires": 3600.0},
            },
            "fill what was not observed": {
                "task": "diagnostics.tasks.backfill_all",
                "schedule": BACKFILL_EVERY_S,
                "options": {"expires": BACKFILL_EVERY_S},
            },
        },
    }


app.add_defaults(_settings)
app.autodiscover_tasks(["diagnostics"])


@signals.setup_logging.connect
def _configure_logging(**_: Any) -> None:
    """Workers log as the web does."""
    dictConfig(settings.LOGGING)

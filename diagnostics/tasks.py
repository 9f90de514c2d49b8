"""Celery tasks: what runs in the background, a few lines each."""

from celery import shared_task
from django.conf import settings

from diagnostics import pipeline


@shared_task
def observe(slug: str) -> None:
    """One poll of one cluster."""
    if slug in settings.CLUSTERS:
        pipeline.observe(slug)


@shared_task
def observe_all() -> None:
    """A poll of every cluster. One that has not begun when the next is due is dropped."""
    for slug in settings.CLUSTERS:
        observe.apply_async((slug,), expires=settings.POLL_INTERVAL.total_seconds())

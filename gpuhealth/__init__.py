"""The project: settings and wiring. What it does is in `diagnostics`."""

from gpuhealth.celery import app as celery_app

__all__ = ["celery_app"]

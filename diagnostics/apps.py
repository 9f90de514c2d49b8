"""The app's configuration, and checks of what the site declared."""

from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, register


class DiagnosticsConfig(AppConfig):
    name = "diagnostics"
    verbose_name = "GPU Health"
    default_auto_field = "django.db.models.BigAutoField"


@register(Tags.compatibility)
def check_declaration(**_: Any) -> list[CheckMessage]:
    """Overrides that name no rule, and time limits that no poll can keep."""
    from django.conf import settings

    from diagnostics.rules import catalogue

    slugs = {rule.slug for rule in catalogue()}
    found: list[CheckMessage] = [
        Error(f"override: there is no rule {override.rule!r}", id="gpuhealth.E001")
        for override in settings.LIMITS.overrides
        if override.rule and override.rule not in slugs
    ]
    for slug, cluster in settings.CLUSTERS.items():
        if cluster.request_timeout_s > cluster.poll_timeout_s:
            found.append(
                Error(
                    f"cluster {slug!r}: one request may take longer (request_timeout_s) than a whole poll "
                    "(poll_timeout_s)",
                    id="gpuhealth.E002",
                )
            )
    return found

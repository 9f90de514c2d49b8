"""Addresses of the pages: view, name and template are one word."""

from django.urls import path, register_converter

from diagnostics.views import (
    finding_page,
    findings,
    follow_up,
    glossary,
    home,
    incidents,
    maps,
    nodes,
    overview,
    rules,
    status,
)


class NameConverter:
    """Whatever a cluster calls its objects; a slash or line break must not make a page fail."""

    regex = r"[\s\S]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(NameConverter, "name")

urlpatterns = [
    path("", home.home, name="home"),
    path("c/<slug:slug>/", overview.overview, name="overview"),
    path("c/<slug:slug>/map/", maps.cluster_map, name="cluster_map"),
    path("c/<slug:slug>/findings/", findings.finding_list, name="finding_list"),
    path("c/<slug:slug>/findings/<slug:finding_id>/", finding_page.finding_detail, name="finding_detail"),
    path("c/<slug:slug>/findings/<slug:finding_id>/follow-up/", follow_up.follow_up, name="follow_up"),
    path("c/<slug:slug>/incidents/", incidents.incident_list, name="incident_list"),
    path("c/<slug:slug>/nodes/", nodes.node_list, name="node_list"),
    path("c/<slug:slug>/nodes/<name:name>/", nodes.node_detail, name="node_detail"),
    path("c/<slug:slug>/status/", status.status, name="status"),
    path("rules/", rules.rule_list, name="rule_list"),
    path("rules/<slug:code>/", rules.rule_detail, name="rule_detail"),
    path("glossary/", glossary.glossary, name="glossary"),
]

"""Addresses of the pages: view, name and template are one word."""

from django.urls import path

from diagnostics.views import (
    connect,
    converters,  # noqa: F401
    excerpts,
    finding_page,
    findings,
    follow_up,
    glossary,
    gpus,
    home,
    incidents,
    maps,
    nodes,
    overview,
    pending,
    rule_settings,
    rules,
    status,
    style,
    usage_settings,
    waste,
    workloads,
)

urlpatterns = [
    path("", home.home, name="home"),
    path("c/<slug:slug>/", overview.overview, name="overview"),
    path("c/<slug:slug>/map/", maps.cluster_map, name="cluster_map"),
    path("c/<slug:slug>/findings/", findings.finding_list, name="finding_list"),
    path("c/<slug:slug>/findings/<slug:finding_id>/", finding_page.finding_detail, name="finding_detail"),
    path("c/<slug:slug>/findings/<slug:finding_id>/follow-up/", follow_up.follow_up, name="follow_up"),
    path("c/<slug:slug>/findings/<slug:finding_id>/then/", excerpts.finding_excerpt, name="finding_excerpt"),
    path("c/<slug:slug>/gpus/<name:slot>/", gpus.gpu_detail, name="gpu_detail"),
    path("c/<slug:slug>/incidents/", incidents.incident_list, name="incident_list"),
    path("c/<slug:slug>/nodes/", nodes.node_list, name="node_list"),
    path("c/<slug:slug>/nodes/<name:name>/", nodes.node_detail, name="node_detail"),
    path("c/<slug:slug>/pending/", pending.pending_list, name="pending_list"),
    path("c/<slug:slug>/status/", status.status, name="status"),
    path("c/<slug:slug>/workloads/", workloads.workload_list, name="workload_list"),
    path(
        "c/<slug:slug>/workloads/<part:kind>/<part:namespace>/<part:name>/",
        workloads.workload_detail,
        name="workload_detail",
    ),
    path("connect/", connect.connect, name="connect"),
    path("c/<slug:slug>/waste/", waste.waste, name="waste"),
    path("settings/usage/", usage_settings.usage_settings, name="usage_settings"),
    path("settings/rules/", rule_settings.rule_settings, name="rule_settings"),
    path("rules/", rules.rule_list, name="rule_list"),
    path("rules/<slug:code>/", rules.rule_detail, name="rule_detail"),
    path("glossary/", glossary.glossary, name="glossary"),
    path("style/", style.style, name="style"),
]

"""What a site declares is read strictly, and what is wrong with it is said."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from diagnostics.clusters import DeclarationError, DeclaredCluster, DeclaredPrometheus, declaration
from diagnostics.collect.declared import declared_target
from diagnostics.collect.target import PrometheusTarget, Target
from diagnostics.limits import Thresholds


def declared(**document: Any) -> Any:
    return declaration(document, "clusters.toml")


def test_nothing_declared_is_nothing_watched() -> None:
    read = declared()

    assert read.clusters == {}
    assert read.limits.site == Thresholds()


def test_a_cluster_without_a_name_is_called_by_its_slug() -> None:
    read = declared(clusters={"prod": {}, "dev": {"name": "Development"}})

    assert {slug: cluster.name for slug, cluster in read.clusters.items()} == {
        "prod": "prod",
        "dev": "Development",
    }


def test_limits_and_overrides_are_read_with_units() -> None:
    read = declared(
        clusters={"prod": {}},
        limits={
            "idle_after": "1h 30m",
            "scatter_min_ratio": 0.5,
            "restarts_min": 5,
            "idle_power_max_ratio": 1,
        },
        overrides=[
            {"rule": "idle-gpu", "namespace": "lab", "cluster": "prod", "values": {"idle_after": "2d"}},
            {"exempt": True, "reason": "tests", "expires_at": datetime(2030, 1, 1, tzinfo=UTC)},
        ],
    )

    site = read.limits.site
    assert site.idle_after == timedelta(hours=1, minutes=30)
    assert (site.scatter_min_ratio, site.restarts_min, site.idle_power_max_ratio) == (0.5, 5, 1.0)
    assert read.limits.overrides[0].values == {"idle_after": timedelta(days=2)}
    assert read.limits.overrides[1].exempt


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"cluster": {}}, "unknown field `cluster`"),
        ({"clusters": {"Prod!": {}}}, "matching regex"),
        ({"clusters": {"prod": {"kubeconfg": "x"}}}, "unknown field `kubeconfg`"),
        ({"clusters": {"prod": {"page_size": 0}}}, "page_size"),
        ({"clusters": {"prod": {"exporters": "http://a"}}}, "exporters"),
        ({"clusters": {"prod": {"in_cluster": True, "context": "c"}}}, "exclude each other"),
        ({"clusters": {"prod": {"prometheus": {}}}}, "missing required field `url`"),
        ({"clusters": {"prod": {"prometheus": {"url": "ftp://x"}}}}, "prometheus.url: not an http"),
        ({"clusters": {"prod": {"prometheus": {"url": "http://[::1"}}}}, "prometheus.url: not an http"),
        ({"clusters": {"prod": {"prometheus": {"url": "http://x", "username": "u"}}}}, "go together"),
        ({"clusters": {"prod": {"exporters": ["http://a:9400", "b:9400"]}}}, "exporter 2: not an http"),
        ({"limits": {"idle_for": "1h"}}, "there is no limit 'idle_for'"),
        ({"limits": {"idle_after": 30}}, "idle_after: a duration needs its unit"),
        ({"limits": {"idle_after": "soon"}}, "idle_after: not a duration"),
        ({"limits": {"scatter_min_ratio": 1.5}}, "not from 0 to 1"),
        ({"limits": {"scatter_min_ratio": float("nan")}}, "not from 0 to 1"),
        ({"limits": {"restarts_min": -1}}, "negative"),
        ({"limits": {"restarts_min": True}}, "neither a number nor text"),
        ({"overrides": [{"rule": "idle-gpu"}]}, "override 1: changes nothing"),
        ({"overrides": [{"cluster": "prod", "exempt": True}]}, "there is no cluster 'prod'"),
        ({"overrides": [{"severity": "fatal"}]}, "Invalid enum value 'fatal'"),
        ({"overrides": [{"exempt": True, "expires_at": datetime(2030, 1, 1)}]}, "time zone"),  # noqa: DTZ001
    ],
)
def test_a_slip_of_the_pen_is_named(document: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=r"^clusters\.toml: ") as raised:
        declared(**document)
    assert message in str(raised.value)


def test_messages_and_representations_hold_no_password() -> None:
    secret = {"prometheus": {"url": "gopher://admin:hunter2@prometheus"}}
    with pytest.raises(DeclarationError) as raised:
        declared(clusters={"prod": secret})
    assert "hunter2" not in str(raised.value)

    good = declared(clusters={"prod": {"prometheus": {"url": "https://admin:hunter2@prometheus"}}})
    assert "hunter2" not in repr(good)


def test_a_declared_cluster_has_the_fields_of_a_target() -> None:
    def names(struct: type[msgspec.Struct]) -> set[str]:
        return set(struct.__struct_fields__)

    assert names(DeclaredCluster) == {field.name for field in fields(Target)}
    assert names(DeclaredPrometheus) == {field.name for field in fields(PrometheusTarget)}


def test_defaults_are_those_of_the_target() -> None:
    assert declared_target("prod", DeclaredCluster()) == Target(name="prod")


def test_a_target_is_made_with_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    fields = {
        "name": "Production",
        "kubeconfig": "~/prod.yaml",
        "prometheus": {"url": "http://prometheus", "bearer_token_file": "/run/token"},
    }
    target = declared_target("prod", declared(clusters={"prod": fields}).clusters["prod"])

    assert target.name == "prod"
    assert target.kubeconfig == Path("/home/someone/prod.yaml")
    assert target.prometheus is not None
    assert target.prometheus.bearer_token_file == Path("/run/token")
    assert target.prometheus.ca_file is None

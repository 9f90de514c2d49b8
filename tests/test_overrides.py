"""Exceptions that are entered, and the limits that a poll goes by because of them."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError

from diagnostics import overrides, pipeline
from diagnostics.limits import Limits, Override
from diagnostics.models import Cluster, OverrideEdit, RuleOverride, User
from tests.builders import NOW, ago
from tests.pages.stored import cluster

pytestmark = pytest.mark.django_db


class Asked:
    """A subject of a namespace."""

    def __init__(self, namespace: str = "research") -> None:
        self.namespace = namespace


@pytest.fixture
def lab() -> Cluster:
    return cluster()


@pytest.fixture
def sre() -> User:
    return User.objects.create_user("sre", password="only for this test")


def entered(**fields: Any) -> RuleOverride:
    return RuleOverride.objects.create(**{"reason": "known"} | fields)


def limits(of: Cluster, *declared: Override, rule: str = "") -> Limits:
    """As a rule asks them."""
    resolved = overrides.limits_of(of, Limits(overrides=declared), NOW)
    return Limits(site=resolved.site, overrides=resolved.overrides, cluster=of.slug, rule=rule, now=NOW)


def test_a_threshold_that_is_entered_is_the_rules(lab: Cluster) -> None:
    entered(rule="pending-gpu-pod", namespace="research", values={"pending_after": "2h"})

    there = limits(lab, rule="pending-gpu-pod").of(Asked())

    assert there.values.pending_after == timedelta(hours=2)
    assert there.origins == {"pending_after": "override: known"}
    assert limits(lab, rule="pending-gpu-pod").of(Asked("serving")).values.pending_after == timedelta(
        minutes=5
    )


def test_a_threshold_for_one_rule_is_none_of_anothers(lab: Cluster) -> None:
    entered(rule="idle-gpu", values={"pending_after": "2h"})

    resolved = limits(lab, rule="pending-gpu-pod").of(Asked())

    assert resolved.values.pending_after == timedelta(minutes=5)
    assert resolved.origins == {}


def test_a_rule_that_is_off_says_why(lab: Cluster) -> None:
    entered(rule="idle-gpu", exempt=True, reason="warm standby")

    resolved = limits(lab).of(Asked())

    assert resolved.exempt("idle-gpu") == "warm standby"
    assert resolved.exempt("oom-killed") is None


@pytest.mark.parametrize(
    ("expires_at", "is_exempt"),
    [(ago(seconds=1), False), (NOW, False), (NOW + timedelta(seconds=1), True), (None, True)],
)
def test_what_has_expired_does_nothing(lab: Cluster, expires_at: Any, is_exempt: bool) -> None:
    entered(rule="idle-gpu", exempt=True, expires_at=expires_at)

    assert (limits(lab).of(Asked()).exempt("idle-gpu") is not None) is is_exempt


def test_another_clusters_exception_is_not_asked_for(lab: Cluster) -> None:
    entered(rule="idle-gpu", exempt=True, cluster=cluster("other"))
    entered(rule="oom-killed", severity="info", cluster=lab)

    resolved = limits(lab).of(Asked())

    assert resolved.exempt("idle-gpu") is None
    assert resolved.severity("oom-killed") == ("info", "known")


def test_what_is_entered_replaces_what_is_declared_for_the_same(lab: Cluster) -> None:
    declared = Override(rule="idle-gpu", namespace="research", exempt=True, reason="declared")
    assert limits(lab, declared).of(Asked()).exempt("idle-gpu") == "declared"

    row = entered(rule="idle-gpu", namespace="research", severity="info")
    assert limits(lab, declared).of(Asked()).exempt("idle-gpu") is None

    row.expires_at = ago(minutes=1)
    row.save()
    assert limits(lab, declared).of(Asked()).exempt("idle-gpu") == "declared"


def test_of_several_the_one_that_is_about_less_wins(lab: Cluster) -> None:
    wide = Override(values={"pending_after": timedelta(hours=9)}, reason="declared")
    entered(namespace="research", values={"pending_after": "3h"})
    entered(rule="pending-gpu-pod", values={"pending_after": "2h"})
    entered(cluster=lab, values={"pending_after": "1h"})

    asked = limits(lab, wide, rule="pending-gpu-pod")

    assert asked.of(Asked("research")).values.pending_after == timedelta(hours=3)
    assert asked.of(Asked("serving")).values.pending_after == timedelta(hours=2)
    assert limits(lab, wide, rule="other").of(Asked("serving")).values.pending_after == timedelta(hours=1)


@pytest.mark.parametrize(
    "values", [{"gone_after": "1h"}, {"pending_after": "soon"}, {"pending_after": [1]}, [1]]
)
def test_a_limit_that_is_none_costs_only_itself(lab: Cluster, values: Any) -> None:
    entered(rule="idle-gpu", exempt=True, values=values)

    resolved = limits(lab).of(Asked())

    assert resolved.exempt("idle-gpu") == "known"
    assert resolved.values == Limits().site


@pytest.mark.parametrize("of", [True, False])
def test_there_is_one_exception_for_a_rule_cluster_and_namespace(lab: Cluster, of: bool) -> None:
    scope = {"rule": "idle-gpu", "namespace": "x", "cluster": lab if of else None}
    entered(exempt=True, **scope)
    with pytest.raises(IntegrityError):
        entered(severity="info", **scope)


def test_each_change_is_kept_with_who_when_and_what_it_was(lab: Cluster, sre: User) -> None:
    row = RuleOverride(rule="idle-gpu", namespace="research", cluster=lab, exempt=True, reason="warm standby")
    overrides.enter(row, sre)
    overrides.enter(row, sre)
    row.exempt, row.severity, row.values = False, "info", {"idle_after": "2h"}
    row.expires_at = NOW
    overrides.enter(row, sre)
    overrides.remove(row, sre)

    first = "idle-gpu in namespace research in cluster lab: off, because: warm standby"
    second = (
        "idle-gpu in namespace research in cluster lab: severity info; idle_after = 2h, "
        "until 2026-06-01T12:00:00Z, because: warm standby"
    )
    kept = OverrideEdit.objects.order_by("pk").values_list("actor_name", "rule", "action", "before", "after")
    assert list(kept) == [
        ("sre", "idle-gpu", "added", "", first),
        ("sre", "idle-gpu", "changed", first, second),
        ("sre", "idle-gpu", "removed", second, ""),
    ]


def test_a_poll_goes_by_them(lab: Cluster, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """The limits reach both the sources and the rules."""
    from diagnostics.clusters import declaration

    entered(rule="idle-gpu", exempt=True, cluster=lab)
    asked: list[Limits] = []

    class Seen(Exception):
        pass

    def take(*_: Any, limits: Limits, **__: Any) -> Any:
        asked.append(limits)
        raise Seen

    settings.CLUSTERS = declaration({"clusters": {"lab": {"kubeconfig": "/nowhere"}}}, "test").clusters
    monkeypatch.setattr(pipeline, "take_snapshot", take)

    pipeline.observe("lab", clock=lambda: NOW)

    assert asked[0].overrides == (Override(rule="idle-gpu", cluster="lab", exempt=True, reason="known"),)

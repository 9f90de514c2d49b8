"""Whose time it is and what it costs: mapped when reading, so that a correction moves the past."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from diagnostics import usage
from diagnostics.models import Price, TeamRule, Workload
from diagnostics.usage import Grouping
from diagnostics.usage.prices import PriceLine, price_of
from diagnostics.usage.teams import By, Owner, Rule, team_of
from tests.usage.scene import MIN, Scene, at

JUNE = datetime(2026, 6, 1, tzinfo=UTC)
OWNER = Owner("research-nlp", {"team": "nlp", "cost/center": "", "number": 7}, {"owner": "ann"})


@pytest.mark.parametrize(
    ("rules", "team"),
    [
        ([], "research-nlp"),
        ([Rule(By.LABEL, "team")], "nlp"),
        ([Rule(By.LABEL, "team", "n*", "language")], "language"),
        ([Rule(By.LABEL, "team", "vision*", "vision")], "research-nlp"),
        ([Rule(By.LABEL, "cost/center", team="x"), Rule(By.ANNOTATION, "owner")], "ann"),
        ([Rule(By.LABEL, "number", team="x")], "research-nlp"),
        ([Rule(By.NAMESPACE, pattern="research-*", team="research"), Rule(By.LABEL, "team")], "research"),
        ([Rule(By.NAMESPACE, pattern="other-*", team="other")], "research-nlp"),
    ],
)
def test_the_first_rule_that_matches_names_the_team(rules: list[Rule], team: str) -> None:
    assert team_of(OWNER, rules) == team


def test_a_price_holds_from_its_first_moment_to_its_last() -> None:
    old = PriceLine("*A100*", Decimal("2"), valid_to=JUNE)
    new = PriceLine("*a100*", Decimal("3"), valid_from=JUNE)
    model = "NVIDIA A100-SXM4-80GB"
    assert price_of(model, JUNE - timedelta(hours=1), [old, new]) == old
    assert price_of(model, JUNE, [old, new]) == new
    assert price_of("NVIDIA H100", JUNE, [old, new]) is None


def test_the_closest_price_wins() -> None:
    anything, model = PriceLine("*", Decimal("1")), PriceLine("*H100*", Decimal("5"))
    later = PriceLine("*H100*", Decimal("6"), valid_from=JUNE)
    own = PriceLine("*", Decimal("9"), is_for_cluster=True)
    assert price_of("NVIDIA H100", JUNE, [anything, model]) == model
    assert price_of("NVIDIA H100", JUNE, [anything, later, model]) == later
    assert price_of("NVIDIA H100", JUNE, [model, own, anything]) == own
    assert price_of("", JUNE, [model]) is None


@pytest.fixture
def scene(db: None) -> Scene:
    """Red works for an hour and blue idles for half of one; the rest is free."""
    scene = Scene()
    for minute in range(0, 60, 2):
        scene.poll(minute, {"gpu-1/a": "busy", "gpu-1/c": "quiet" if minute < 32 else "free"})
    scene.poll(60, {})
    return scene


def summed(scene: Scene, by: Grouping = Grouping.TEAM) -> dict[tuple[str, ...] | None, Any]:
    return {group.name: group for group in usage.sums(scene.cluster, at(0), at(120), by).groups}


def test_sums_of_every_kind_hold_the_same_time(scene: Scene) -> None:
    for by in Grouping:
        assert usage.sums(scene.cluster, at(0), at(120), by).total_ms == 120 * MIN
    assert {name: group.gpu_ms / MIN for name, group in summed(scene).items()} == {
        ("team-red",): 60,
        ("team-blue",): 32,
        None: 28,
    }
    assert summed(scene, Grouping.WORKLOAD)["Job", "team-blue", "blue"].waste_ms == 32 * MIN
    assert summed(scene, Grouping.STATE)["idle_held",].gpu_ms == 32 * MIN


def test_without_a_price_there_is_no_money(scene: Scene) -> None:
    red = summed(scene)["team-red",]
    assert (red.costs, red.unpriced_ms) == ({}, 60 * MIN)


def test_a_corrected_price_moves_the_past(scene: Scene) -> None:
    price = Price.objects.create(pattern="*A100*", per_gpu_hour=Decimal("2.5"))
    assert summed(scene)["team-red",].costs == {"USD": Decimal("2.5")}
    assert summed(scene)["team-red",].wasted == {"USD": 0}
    price.per_gpu_hour, price.currency = Decimal("3"), "EUR"
    price.save()
    blue = summed(scene)["team-blue",]
    assert blue.costs == blue.wasted == {"EUR": Decimal("1.6")}


def test_an_hour_has_the_price_of_its_beginning(scene: Scene) -> None:
    scene.poll(61, {"gpu-1/a": "busy"})
    scene.poll(62, {"gpu-1/a": "busy"})
    scene.poll(63, {})
    Price.objects.create(pattern="*", per_gpu_hour=Decimal(2), valid_to=at(30))
    Price.objects.create(pattern="*", per_gpu_hour=Decimal(60), valid_from=at(30))
    assert summed(scene)["team-red",].costs == {"USD": Decimal(2) + Decimal(2)}


def test_the_price_of_another_cluster_is_not_ours(scene: Scene) -> None:
    Price.objects.create(pattern="*", per_gpu_hour=Decimal(2), cluster=Scene("other").cluster)
    assert summed(scene)["team-red",].costs == {}


def test_a_corrected_mapping_moves_the_past(scene: Scene) -> None:
    Workload.objects.filter(name="red").update(labels={"team": "nlp"})
    rule = TeamRule.objects.create(by=TeamRule.By.LABEL, key="team")
    TeamRule.objects.create(by=TeamRule.By.NAMESPACE, pattern="team-*", team="everybody", priority=200)
    assert summed(scene).keys() == {("nlp",), ("everybody",), None}
    rule.delete()
    assert summed(scene).keys() == {("everybody",), None}

"""Team rules and prices: entered by those who may, refused in words, tried out, and remembered."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from celery import current_app
from django.contrib.auth.models import Permission
from django.test import Client
from kombu.exceptions import OperationalError
from pytest_django import DjangoAssertNumQueries

from diagnostics.models import Cluster, Device, Node, Price, TeamRule, UsageEdit, User, Workload
from diagnostics.usage.teams import By
from tests.builders import NOW
from tests.pages.stored import cluster
from tests.pages.test_findings import flat
from tests.pages.test_hostile_names import HIDDEN, Read, hostile_name

pytestmark = pytest.mark.django_db

URL = "/settings/usage/"
RULE = {"what": "rule", "action": "save", "pk": "", "priority": "10", "by": "label", "key": "team"}
PRICE = {
    "what": "price",
    "action": "save",
    "pk": "",
    "pattern": "*H100*",
    "per_gpu_hour": "2.5",
    "currency": "eur",
}
EVER = {"first_seen": NOW, "last_seen": NOW}


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the tasks that were sent."""
    names: list[str] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, *_, **__: names.append(name))
    return names


@pytest.fixture
def staff(user: User, browser: Client) -> Client:
    user.is_staff = True
    user.save()
    return browser


@pytest.fixture
def lab() -> Cluster:
    """Three workloads of two namespaces; GPUs of two models."""
    lab = cluster()
    for name, namespace, labels in (
        ("a", "research", {"team": "nlp"}),
        ("b", "research", {"team": "vision"}),
        ("c", "serving", {}),
    ):
        Workload.objects.create(
            cluster=lab, kind="Job", namespace=namespace, name=name, labels=labels, **EVER
        )
    Workload.objects.create(cluster=lab, **EVER)
    long_ago = {"first_seen": NOW, "last_seen": NOW - timedelta(days=3)}
    Workload.objects.create(cluster=lab, kind="Job", namespace="old", name="old", **long_ago)
    node = Node.objects.create(cluster=lab, name="gpu-1", **EVER)
    for i, model in enumerate(["NVIDIA H100", "NVIDIA H100", "NVIDIA L4"]):
        Device.objects.create(cluster=lab, node=node, slot=f"gpu-1/{i}", model=model, **EVER)
    return lab


def text(browser: Client, query: str = "") -> str:
    return flat(browser.get(URL + query).content.decode())


def refused(browser: Client, **fields: Any) -> str:
    response = browser.post(URL, fields)
    assert response.status_code == 422
    return flat(response.content.decode())


def saved(browser: Client, **fields: Any) -> str:
    response = browser.post(URL, fields, follow=True)
    assert response.redirect_chain == [(URL, 302)]
    return flat(response.content.decode())


def edits() -> list[tuple[str, ...]]:
    return list(
        UsageEdit.objects.order_by("pk").values_list("actor_name", "about", "action", "before", "after")
    )


def test_a_rule_is_added_changed_and_removed_with_who_did_it(staff: Client, lab: Cluster) -> None:
    assert "Saved: 10: label team like * is team its own value, in every cluster" in saved(staff, **RULE)
    rule = TeamRule.objects.get()
    assert (rule.priority, rule.by, rule.key, rule.cluster) == (10, "label", "team", None)
    saved(staff, **RULE | {"pk": rule.pk, "pattern": "n*", "team": "language", "cluster": lab.pk})
    rule.refresh_from_db()
    assert (rule.pattern, rule.team, rule.cluster) == ("n*", "language", lab)
    assert "Removed: 10: label team like n*" in saved(staff, what="rule", action="remove", pk=rule.pk)
    assert not TeamRule.objects.exists()
    first, second = (
        "10: label team like * is team its own value, in every cluster",
        ("10: label team like n* is team language, in cluster lab"),
    )
    assert edits() == [
        ("sre", "team rule", "added", "", first),
        ("sre", "team rule", "changed", first, second),
        ("sre", "team rule", "removed", second, ""),
    ]


def test_a_price_is_added_changed_and_removed_with_who_did_it(staff: Client, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    saved(staff, **PRICE | {"valid_from": "2026-06-01T00:00"})
    price = Price.objects.get()
    assert (price.per_gpu_hour, price.currency) == (Decimal("2.5"), "EUR")
    assert price.valid_from == datetime(2026, 5, 31, 22, tzinfo=UTC)
    form = staff.get(f"{URL}?price={price.pk}").content.decode()
    assert 'value="2026-06-01T00:00"' in form
    saved(staff, **PRICE | {"pk": price.pk, "per_gpu_hour": "3"})
    saved(staff, what="price", action="remove", pk=price.pk)
    assert [row[2:] for row in edits()] == [
        ("added", "", "2.5 EUR per GPU-hour of *H100*, in every cluster, from 2026-05-31T22:00:00Z"),
        (
            "changed",
            "2.5 EUR per GPU-hour of *H100*, in every cluster, from 2026-05-31T22:00:00Z",
            "3 EUR per GPU-hour of *H100*, in every cluster",
        ),
        ("removed", "3 EUR per GPU-hour of *H100*, in every cluster", ""),
    ]


def test_saving_without_a_change_is_no_change(staff: Client) -> None:
    saved(staff, **RULE)
    saved(staff, **RULE | {"pk": TeamRule.objects.get().pk})
    assert len(edits()) == 1


def test_the_history_outlives_who_made_it(staff: Client, user: User) -> None:
    saved(staff, **RULE)
    other = Client()
    other.force_login(User.objects.create_user("other", password="only for this test"))
    user.delete()
    assert "sre Team rule added" in text(other)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"key": ""}, "That is no name of a label."),
        ({"key": "no label"}, "That is no name of a label."),
        ({"key": "a/b/c", "by": "annotation"}, "That is no name of an annotation."),
        ({"by": "namespace"}, "A namespace has no key: leave it empty."),
        (
            {"by": "namespace", "key": ""},
            "Every namespace being a team of its own is what happens without rules.",
        ),
        ({"by": "sign"}, "sign is not one of the available choices."),
        ({"priority": "-1"}, "greater than or equal to 0"),
        ({"priority": ""}, "This field is required."),
        ({"team": "x\u202ey"}, "It holds characters that cannot be seen."),
        ({"pattern": "x\x00y"}, "Null characters are not allowed."),
        ({"cluster": "77"}, "Select a valid choice."),
    ],
)
def test_a_rule_that_cannot_be_is_refused_in_words(staff: Client, fields: dict[str, str], why: str) -> None:
    assert why in refused(staff, **RULE | fields)
    assert not TeamRule.objects.exists()
    assert not edits()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"pattern": ""}, "This field is required."),
        ({"per_gpu_hour": "-1"}, "A price is not negative."),
        ({"per_gpu_hour": "NaN"}, "Enter a number."),
        ({"per_gpu_hour": "1e30"}, "no more than"),
        ({"per_gpu_hour": "free"}, "Enter a number."),
        ({"currency": "€"}, "A currency has three letters"),
        ({"currency": "1US"}, "A currency has three letters"),
        ({"valid_from": "2026-06-02T00:00", "valid_to": "2026-06-01T00:00"}, "It ends before it begins."),
        ({"valid_from": "0001-01-01T00:00"}, "That is no time for a price."),
        ({"valid_to": "9999-12-31T23:59"}, "That is no time for a price."),
        ({"valid_to": "soon"}, "Enter a valid date/time."),
    ],
)
def test_a_price_that_cannot_be_is_refused_in_words(staff: Client, fields: dict[str, str], why: str) -> None:
    assert why in refused(staff, **PRICE | fields)
    assert not Price.objects.exists()


def test_what_was_refused_stands_in_the_form_again(staff: Client) -> None:
    response = staff.post(URL, RULE | {"key": "a b", "team": "mine"})
    assert re.search(r'name="key"\s+value="a b"', response.content.decode())
    assert re.search(r'name="team"\s+value="mine"', response.content.decode())


def test_others_read_and_may_not_write(browser: Client, lab: Cluster) -> None:
    TeamRule.objects.create(by=By.LABEL, key="team")
    found = browser.get(URL).content.decode()
    assert "Only staff" in found
    assert 'method="post"' not in found.split("<h1>")[1]
    for fields in (RULE, PRICE, {"what": "rule", "action": "remove", "pk": TeamRule.objects.get().pk}):
        assert browser.post(URL, fields).status_code == 403
    assert TeamRule.objects.count() == 1
    assert not edits()


def test_a_right_to_one_is_no_right_to_the_other(browser: Client, user: User) -> None:
    user.user_permissions.add(Permission.objects.get(codename="change_price"))
    assert browser.post(URL, RULE).status_code == 403
    assert browser.post(URL, PRICE).status_code == 302
    found = text(browser)
    assert "Add a price" in found
    assert "Add a rule" not in found


def test_a_stranger_has_to_sign_in() -> None:
    assert Client().get(URL)["Location"].startswith("/login/")
    assert Client().post(URL, RULE)["Location"].startswith("/login/")


def test_a_form_of_another_site_is_refused(user: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    user.is_staff = True
    user.save()
    strict.force_login(user)
    assert strict.post(URL, RULE).status_code == 403
    assert not TeamRule.objects.exists()


def test_what_somebody_else_has_removed_is_said(staff: Client) -> None:
    found = saved(staff, **RULE | {"pk": "77"})
    assert "Somebody else has removed that meanwhile." in found
    assert not TeamRule.objects.exists()


@pytest.mark.parametrize("pk", ["77", "-1", "1e3", "9" * 30, "<b>"])
def test_a_row_that_there_is_not_is_not_changed(staff: Client, pk: str) -> None:
    assert staff.get(URL, {"rule": pk, "price": pk}).status_code == 200
    staff.post(URL, {"what": "price", "action": "remove", "pk": pk})
    assert not edits()


def test_it_says_how_many_workloads_each_team_gets(browser: Client, lab: Cluster) -> None:
    found = text(browser)
    assert "Teams of the 3 workloads seen in the last day" in found
    assert "research 2 serving 1" in found
    assert "3 of them go by their namespace" in found
    TeamRule.objects.create(by=By.LABEL, key="team", priority=1)
    TeamRule.objects.create(by=By.NAMESPACE, pattern="res*", team="everybody", priority=2)
    found = text(browser)
    assert "nlp 1 serving 1 vision 1" in found
    assert "1 Label team * its value every 2" in found
    assert "2 Namespace res* everybody every 0" in found


def test_a_rule_is_tried_out_before_it_is_saved(staff: Client, lab: Cluster) -> None:
    TeamRule.objects.create(by=By.LABEL, key="team", priority=5)
    trial = RULE | {
        "action": "try",
        "by": "namespace",
        "key": "",
        "pattern": "res*",
        "team": "red",
        "priority": "1",
    }
    response = staff.post(URL, trial)
    found = flat(response.content.decode())
    assert response.status_code == 200
    assert "Not saved." in found
    assert "red 0 2" in found
    assert "nlp 1 0" in found
    assert "serving 1 1" in found
    assert re.search(r'name="team"\s+value="red"', response.content.decode())
    assert TeamRule.objects.count() == 1
    assert not edits()


def test_a_rule_of_another_cluster_decides_nothing_here(browser: Client, lab: Cluster) -> None:
    other = cluster("other")
    TeamRule.objects.create(by=By.LABEL, key="team", cluster=other)
    assert "research 2" in text(browser)
    assert "Label team * its value other –" in text(browser)
    assert "No workload was seen within a day." in text(browser, "?cluster=other")


def test_it_says_which_price_wins_and_which_models_have_none(browser: Client, lab: Cluster) -> None:
    Price.objects.create(pattern="*", per_gpu_hour=1, valid_to=NOW - timedelta(days=1))
    Price.objects.create(pattern="*H100*", per_gpu_hour=Decimal("4.5"))
    Price.objects.create(pattern="*h100", per_gpu_hour=9, cluster=cluster("other"))
    found = text(browser)
    assert "NVIDIA H100 2 4.5 USD by *H100*" in found
    assert "NVIDIA L4 1 no price" in found


def test_new_labels_are_looked_up_soon(staff: Client, sent: list[str]) -> None:
    saved(staff, **RULE)
    assert sent == ["diagnostics.tasks.roll_up_usage"]
    saved(staff, **PRICE)
    assert len(sent) == 1


def test_without_a_broker_a_rule_is_saved_all_the_same(
    staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> None:
        raise OperationalError("nobody listens")

    monkeypatch.setattr(current_app, "send_task", lost)
    assert "Saved:" in saved(staff, **RULE)


def test_without_a_cluster_there_is_nothing_to_preview(browser: Client) -> None:
    found = text(browser)
    assert "No cluster is connected yet." in found
    assert "each namespace is a team of its own" in found
    assert "their money is unknown" in found


@pytest.mark.parametrize("number", [1, 40])
def test_it_costs_eleven_queries_however_much_there_is(
    staff: Client, lab: Cluster, number: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for i in range(number):
        TeamRule.objects.create(by=By.LABEL, key=f"k{i}", cluster=lab)
        Price.objects.create(pattern=f"m{i}", per_gpu_hour=1, cluster=lab)
        Workload.objects.create(cluster=lab, kind="Job", namespace=f"n{i}", name="x", **EVER)
    with django_assert_num_queries(11):
        text(staff)


@hostile_name
def test_hostile_names_are_text(staff: Client, lab: Cluster, name: str) -> None:
    name = name.replace("\x00", "")
    Workload.objects.filter(name="a").update(namespace=name[:253])
    Workload.objects.filter(name="b").update(labels={"team": name})
    Device.objects.update(model=name[:120])
    lab.name = name[:200]
    lab.save()
    cluster("other", name=name[:200])
    TeamRule.objects.create(by=By.LABEL, key=name[:253], pattern=name[:253], team=name[:120], cluster=lab)
    TeamRule.objects.create(by=By.LABEL, key="team")
    Price.objects.create(pattern=name[:120], per_gpu_hour=1, cluster=lab)
    UsageEdit.objects.create(actor_name=name[:150], about="price", action="added", before=name, after=name)
    rule = TeamRule.objects.get(key="team")
    for query in ("", f"?rule={rule.pk}"):
        read = Read(staff.get(URL + query).content.decode())
        assert not HIDDEN.search("".join(read.seen))
        for tag, attributes in read.elements:
            assert tag not in {"img", "b", "iframe", "style"}
            assert tag != "script" or attributes["src"].startswith("/static/")
            assert not [attribute for attribute in attributes if attribute.startswith("on")]
            assert attributes.get("href", "/").startswith(("/", "#", "?"))

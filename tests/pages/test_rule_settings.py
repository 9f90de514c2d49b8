"""Exceptions: entered by those who may, refused in words, remembered, and reached from rules and findings."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Subject
from diagnostics.limits import Limits, Override
from diagnostics.models import Cluster, OverrideEdit, RuleOverride, User
from tests.builders import NOW, ago
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, polled
from tests.pages.test_findings import flat
from tests.pages.test_hostile_names import HIDDEN, Read, hostile_name

pytestmark = pytest.mark.django_db

URL = "/settings/rules/"
OFF = {"action": "save", "pk": "", "rule": "idle-gpu", "exempt": "on", "reason": "warm standby"}
LAXER = {
    "action": "save",
    "pk": "",
    "rule": "pending-gpu-pod",
    "values": "pending_after = 1h",
    "reason": "batch",
}


@pytest.fixture
def staff(user: User, browser: Client) -> Client:
    user.is_staff = True
    user.save()
    return browser


@pytest.fixture
def lab() -> Cluster:
    return cluster()


def entered(**fields: Any) -> RuleOverride:
    return RuleOverride.objects.create(**{"rule": "idle-gpu", "exempt": True, "reason": "standby"} | fields)


def text(browser: Client, query: str = "") -> str:
    return flat(browser.get(URL + query).content.decode())


def saved(browser: Client, **fields: Any) -> str:
    response = browser.post(URL, fields, follow=True)
    assert response.redirect_chain == [(URL, 302)]
    return flat(response.content.decode())


def refused(browser: Client, **fields: Any) -> str:
    response = browser.post(URL, fields)
    assert response.status_code == 422
    return flat(response.content.decode())


def test_an_exception_is_added_changed_and_removed_with_who_did_it(staff: Client, lab: Cluster) -> None:
    assert "Saved: idle-gpu in every cluster: off, because: warm standby." in saved(staff, **OFF)
    row = RuleOverride.objects.get()
    saved(
        staff,
        **OFF
        | {
            "pk": row.pk,
            "exempt": "",
            "severity": "info",
            "values": "idle_after=2h\n",
            "namespace": "research",
            "cluster": lab.pk,
            "expires_at": "2026-07-01T00:00",
        },
    )
    row.refresh_from_db()
    assert (row.exempt, row.severity, row.values, row.cluster) == (False, "info", {"idle_after": "2h"}, lab)
    found = text(staff)
    assert "GPU501 idle-gpu namespace research cluster lab severity info idle_after 2 h warm standby" in found
    assert "2026-07-01 00:00" in found
    assert "Removed: idle-gpu in namespace research" in saved(staff, action="remove", pk=row.pk)
    assert [edit.action for edit in OverrideEdit.objects.order_by("pk")] == ["added", "changed", "removed"]
    assert "sre Exception removed idle-gpu in namespace research in cluster lab: severity info" in text(staff)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"exempt": ""}, "It changes nothing"),
        ({"rule": ""}, "That would silence every rule"),
        ({"rule": "no-such-rule"}, "not one of the available choices"),
        ({"rule": "no-gpu-metrics"}, "not one of the available choices"),
        ({"reason": ""}, "This field is required."),
        ({"reason": "a\u202eb"}, "It holds characters that cannot be seen."),
        ({"namespace": "a\u200fb"}, "It holds characters that cannot be seen."),
        ({"severity": "fatal"}, "not one of the available choices"),
        ({"values": "pending_after"}, "is not of the form name = value"),
        ({"values": "no_such = 1"}, "there is no limit"),
        ({"values": "pending_after = 5"}, "not a duration"),
        ({"values": "scatter_min_ratio = 3"}, "is not from 0 to 1"),
        ({"values": "restarts_min = -1"}, "negative"),
        ({"values": "hung_power_max_ratio = 0.4"}, "is set for the whole site"),
        ({"values": "restarts_min = 1\nrestarts_min = 2"}, "restarts_min is given twice."),
        ({"values": "x = 1\n" * 100}, "too many lines"),
        ({"expires_at": "2026-05-01T00:00"}, "That is over"),
        ({"expires_at": "9999-12-31T00:00"}, "no time at which something ends"),
        ({"cluster": "77"}, "Select a valid choice."),
    ],
)
def test_what_cannot_be_is_refused_in_words(staff: Client, fields: dict[str, str], why: str) -> None:
    assert why in refused(staff, **OFF | fields)
    assert not RuleOverride.objects.exists()
    assert not OverrideEdit.objects.exists()


def test_a_second_exception_for_the_same_is_refused(staff: Client, lab: Cluster) -> None:
    saved(staff, **OFF)
    assert "There is an exception for this rule, cluster and namespace already" in refused(staff, **OFF)
    saved(staff, **OFF | {"cluster": lab.pk})
    assert "already" in refused(staff, **OFF | {"cluster": lab.pk})


def test_what_was_refused_stands_in_the_form_again(staff: Client) -> None:
    page = staff.post(URL, LAXER | {"values": "pending_after = <soon>"}).content.decode()
    assert "pending_after = &lt;soon&gt;</textarea>" in page


def test_an_exception_stands_in_the_form_that_changes_it(staff: Client) -> None:
    saved(staff, **LAXER)
    page = staff.get(f"{URL}?override={RuleOverride.objects.get().pk}").content.decode()
    assert "pending_after = 1h</textarea>" in page
    assert '<option value="pending-gpu-pod" selected>' in page


def test_others_read_and_may_not_write(browser: Client) -> None:
    row = entered()
    page = browser.get(URL).content.decode()
    assert "Only staff" in page
    assert 'method="post"' not in page.split("<h1>")[1]
    for fields in (OFF, LAXER, {"action": "remove", "pk": row.pk}):
        assert browser.post(URL, fields).status_code == 403
    assert RuleOverride.objects.count() == 1
    assert not OverrideEdit.objects.exists()


def test_who_was_given_the_right_may_write(browser: Client, user: User) -> None:
    user.user_permissions.add(Permission.objects.get(codename="change_ruleoverride"))
    assert "Saved:" in saved(browser, **OFF)


def test_a_stranger_has_to_sign_in() -> None:
    assert Client().get(URL)["Location"].startswith("/login/")
    assert Client().post(URL, OFF)["Location"].startswith("/login/")


def test_a_form_of_another_site_is_refused(user: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    user.is_staff = True
    user.save()
    strict.force_login(user)
    assert strict.post(URL, OFF).status_code == 403
    assert not RuleOverride.objects.exists()


@pytest.mark.parametrize("pk", ["77", "-1", "1e3", "9" * 30, "<b>"])
def test_an_exception_that_there_is_not_is_not_changed(staff: Client, pk: str) -> None:
    assert staff.get(URL, {"override": pk}).status_code == 200
    assert "Somebody else has removed that meanwhile." in saved(staff, **OFF | {"pk": pk})
    assert not RuleOverride.objects.exists()


def test_one_that_is_over_and_one_for_a_rule_that_is_gone_are_marked(browser: Client) -> None:
    entered(expires_at=ago(minutes=1))
    entered(rule="retired-rule", values={"gone_after": "1h"})
    found = text(browser)
    assert "2026-06-01 11:59 over" in found
    assert "retired-rule no such rule" in found
    assert "gone_after no such limit" in found


def test_what_the_site_declares_is_listed_and_says_where_it_is_replaced(
    browser: Client, settings: Any
) -> None:
    settings.LIMITS = Limits(
        overrides=(
            Override(rule="idle-gpu", exempt=True, reason="declared"),
            Override(
                rule="oom-killed", values={"oom_killed_recent": timedelta(hours=1)}, reason="declared too"
            ),
        )
    )
    row = entered()
    found = text(browser)
    assert "off declared replaced by what is entered" in found
    assert "oom_killed_recent 1 h declared too further notice" in found
    row.expires_at = NOW
    row.save()
    assert "replaced" not in text(browser)


def test_a_rule_leads_to_its_own(browser: Client) -> None:
    entered()
    entered(rule="oom-killed", reason="of another")
    entered(rule="", namespace="research", reason="of every")
    assert f'href="{URL}?rule=idle-gpu"' in browser.get("/rules/GPU501/").content.decode()
    found = text(browser, "?rule=idle-gpu")
    assert "Exceptions of GPU501 idle-gpu" in found
    assert "of every" in found
    assert "of another" not in found
    assert URL not in browser.get("/rules/GPU901/").content.decode().split("<h1>")[1]


def test_the_limits_of_the_rule_stand_beside_the_form(staff: Client, settings: Any) -> None:
    found = text(staff, "?rule=pending-gpu-pod")
    assert "pending_after 5 min A pod may wait this long for GPUs" in found


def test_a_finding_leads_to_a_form_that_is_filled_in(staff: Client) -> None:
    of = finding("GPU501", "idle-gpu", subject=Subject(kind="Job", name="train", namespace="research"))
    lab = polled(of)
    page = staff.get(f"/c/lab/findings/{of.id}/").content.decode()
    address = re.search(r'href="(/settings/rules/[^"#]*)#exception-form"', page)
    assert address
    form = staff.get(address[1].replace("&amp;", "&")).content.decode()
    assert '<option value="idle-gpu" selected>' in form
    assert f'<option value="{lab.pk}" selected>' in form
    assert re.search(r'name="namespace"\s+value="research"', form)


def test_a_finding_says_what_the_site_changed(browser: Client) -> None:
    of = finding(overrides=("pending_after 1 h instead of 5 min: override: batch",))
    polled(of)
    page = flat(browser.get(f"/c/lab/findings/{of.id}/").content.decode())
    assert "This site changed how it is judged: pending_after 1 h instead of 5 min: override: batch" in page


def test_an_open_page_is_told_of_a_change_and_of_none(browser: Client) -> None:
    row = entered()
    whole = browser.get(URL)
    assert "<h1>" in whole.content.decode()
    part = browser.get(URL, headers=HTMX)
    assert "<h1>" not in part.content.decode()
    assert "standby" in part.content.decode()
    assert "HX-Request" in part["Vary"]
    asked = HTMX | {"If-None-Match": part["ETag"]}
    assert browser.get(URL, headers=asked).status_code == 304
    row.reason = "until July"
    row.save()
    again = browser.get(URL, headers=asked)
    assert again.status_code == 200
    assert "until July" in again.content.decode()


def test_history_restore_gets_the_full_page(browser: Client) -> None:
    restore = HTMX | {"HX-History-Restore-Request": "true"}
    assert "<h1>" in browser.get(URL, headers=restore).content.decode()


def test_nothing_entered_is_said(browser: Client) -> None:
    found = text(browser)
    assert "No exception is entered." in found
    assert "Nothing was entered yet." in found


@pytest.mark.parametrize("number", [1, 120])
def test_it_costs_ten_queries_however_much_there_is(
    staff: Client, lab: Cluster, number: int, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for i in range(number):
        entered(namespace=f"n{i}", cluster=lab)
        OverrideEdit.objects.create(actor_name="x", action="added", rule="idle-gpu", after=f"{i}")
    with django_assert_max_num_queries(10):
        page = text(staff, "?rule=idle-gpu&cluster=lab")
    assert page.count("namespace n") == min(number, 100)
    assert ("1 to 100 of 120 exceptions" in page) is (number == 120)


@hostile_name
def test_hostile_names_are_text(staff: Client, lab: Cluster, name: str) -> None:
    name = name.replace("\x00", "")
    lab.name = name[:200]
    lab.save()
    row = entered(namespace=name[:253], reason=name[:300], cluster=lab, values={name: name})
    entered(rule=name[:80], reason=name[:300])
    OverrideEdit.objects.create(actor_name=name[:150], action="added", before=name, after=name)
    for query in ({}, {"override": row.pk}, {"rule": "idle-gpu", "namespace": name, "cluster": name}):
        read = Read(staff.get(URL, query).content.decode())
        assert not HIDDEN.search("".join(read.seen))
        for tag, attributes in read.elements:
            assert tag not in {"img", "b", "iframe", "style"}
            assert tag != "script" or attributes["src"].startswith("/static/")
            assert not [attribute for attribute in attributes if attribute.startswith("on")]
            assert attributes.get("href", "/").startswith(("/", "#", "?"))

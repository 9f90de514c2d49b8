"""The list of findings."""

import re
from typing import Any

import msgspec
import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Finding, Severity, Subject
from diagnostics.models import Incident, User
from diagnostics.views.finding_groups import SYMPTOMS_SHOWN
from tests.builders import ago
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, found, observation, polled

pytestmark = pytest.mark.django_db

LIST = "/c/lab/findings/"
ROOT = finding(
    "GPU101",
    "fatal-xid",
    severity=Severity.WARNING,
    subject=Subject(kind="GPU", name="gpu-5/00000000:12:00.0"),
    title="GPU 2 on gpu-5: Xid 79",
)
SYMPTOM = finding(
    "GPU302",
    "partial-gang",
    severity=Severity.CRITICAL,
    subject=Subject(kind="Job", namespace="research", name="llama"),
    title="Job llama: 7 of 8 workers run",
    caused_by=(ROOT.id,),
)
OTHER = finding(
    "GPU501",
    "idle-gpu",
    severity=Severity.INFO,
    subject=Subject(kind="StatefulSet", namespace="notebooks", name="anna"),
    title="StatefulSet anna holds 1 GPU without using it",
    waste_gpus=None,
)


def titles(browser: Client, query: str = "") -> list[str]:
    text = browser.get(LIST + query).content.decode()
    return re.findall(r'class="row-link"[^>]*>\s*([^<]*?)\s*</a>', text)


def detail(browser: Client, of: Any) -> str:
    return browser.get(f"{LIST}{of.id}/").content.decode()


def flat(text: str) -> str:
    """Words of a page without its markup."""
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def test_a_cause_stands_above_its_symptoms_and_the_worst_group_first(browser: Client) -> None:
    polled(OTHER, ROOT, SYMPTOM, finding(severity=Severity.WARNING))

    assert titles(browser) == [
        "GPU 2 on gpu-5: Xid 79",
        "Job llama: 7 of 8 workers run",
        "Node gpu-1 offers 7 of 8 fitted GPUs",
        "StatefulSet anna holds 1 GPU without using it",
    ]
    assert browser.get(LIST).content.decode().count('<tr class="symptom">') == 1


def test_a_cause_says_how_much_worse_what_it_causes_is(browser: Client) -> None:
    alike = finding("GPU301", "pending-gpu-pod", title="Waits", caused_by=(ROOT.id,))
    polled(OTHER, ROOT, SYMPTOM, alike, finding(severity=Severity.CRITICAL, gpus=0))

    rows = browser.get(LIST).content.decode().split("<tbody>")[1:]

    assert titles(browser)[0] == ROOT.title
    assert flat(rows[0]).startswith(f"warning causes 1 critical {ROOT.title}")
    assert "causes" not in flat("".join(rows[1:]))
    only = browser.get(f"{LIST}?severity=warning").content.decode().split("<tbody>")[1]
    assert "causes" not in flat(only)


def test_symptoms_beyond_those_that_are_shown_count_too(browser: Client) -> None:
    rest = [
        finding(
            "GPU302",
            severity=Severity.CRITICAL,
            subject=Subject(kind="Job", namespace="a", name=f"j{i}"),
            caused_by=(ROOT.id,),
        )
        for i in range(SYMPTOMS_SHOWN + 2)
    ]
    polled(ROOT, *rest)

    assert f"causes {SYMPTOMS_SHOWN + 2} critical" in flat(browser.get(LIST).content.decode())


def test_symptoms_of_symptoms_stand_under_the_first_cause(browser: Client) -> None:
    last = finding("GPU301", "pending-gpu-pod", title="Later", caused_by=(SYMPTOM.id,))
    polled(ROOT, SYMPTOM, last)

    assert browser.get(LIST).content.decode().count("<tbody>") == 1


def test_what_a_cause_brings_about_itself_stands_before_what_follows_from_that(browser: Client) -> None:
    last = finding("GPU301", "pending-gpu-pod", title="Later", gpus=64, caused_by=(SYMPTOM.id,))
    polled(ROOT, SYMPTOM, last)

    assert titles(browser) == [ROOT.title, SYMPTOM.title, "Later"]


def test_causes_that_run_in_a_circle_are_all_shown(browser: Client) -> None:
    one = msgspec.structs.replace(ROOT, caused_by=(SYMPTOM.id,))
    polled(one, SYMPTOM)

    assert len(titles(browser)) == 2


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("?severity=critical", ["Job llama: 7 of 8 workers run"]),
        ("?namespace=notebooks", ["StatefulSet anna holds 1 GPU without using it"]),
        ("?rule=fatal-xid", ["GPU 2 on gpu-5: Xid 79"]),
        ("?q=XID+79", ["GPU 2 on gpu-5: Xid 79"]),
        ("?q=gpu302", ["Job llama: 7 of 8 workers run"]),
        ("?q=100%25", []),
        ("?severity=critical&namespace=notebooks", []),
    ],
)
def test_the_address_filters(browser: Client, query: str, shown: list[str]) -> None:
    polled(ROOT, SYMPTOM, OTHER)

    assert titles(browser, query) == shown


def test_the_address_filters_by_who_looks_after_it(browser: Client, user: User) -> None:
    polled(ROOT, SYMPTOM, OTHER)
    anna = User.objects.create_user("anna")
    Incident.objects.filter(fingerprint=ROOT.id).update(assignee=user)
    Incident.objects.filter(fingerprint=SYMPTOM.id).update(assignee=anna, status="acknowledged")

    assert titles(browser, "?assignee=me") == [ROOT.title]
    assert titles(browser, "?assignee=user:anna") == [SYMPTOM.title]
    assert titles(browser, "?assignee=nobody") == [OTHER.title]
    assert titles(browser, "?acknowledged=yes") == [SYMPTOM.title]
    assert titles(browser, "?acknowledged=no") == [ROOT.title, OTHER.title]
    text = browser.get(LIST).content.decode()
    assert '<option value="user:anna"' in text
    assert "acknowledged assigned to anna" in flat(text)


@pytest.mark.parametrize(
    ("sort", "first"),
    [("severity", "worst"), ("gpus", "large"), ("waste", "wasteful"), ("age", "old"), ("odd", "worst")],
)
def test_the_address_sorts(browser: Client, sort: str, first: str) -> None:
    def one(name: str, **fields: Any) -> Finding:
        defaults: dict[str, Any] = {"severity": Severity.INFO, "gpus": 1, "waste_gpus": None}
        return finding(title=name, subject=Subject(kind="Node", name=name), **(defaults | fields))

    old = one("old")
    of = polled(old, at=ago(hours=3))
    now = (old, one("worst", severity=Severity.CRITICAL), one("large", gpus=8), one("wasteful", waste_gpus=2))
    found(of, now, ago(minutes=1))

    assert titles(browser, f"?sort={sort}")[0] == first
    assert set(titles(browser, f"?sort={sort}")) == {"old", "worst", "large", "wasteful"}


def test_a_group_stands_where_its_worst_member_would(browser: Client) -> None:
    root = msgspec.structs.replace(ROOT, gpus=1)
    wide = msgspec.structs.replace(SYMPTOM, gpus=64)
    polled(root, wide, finding(gpus=8))

    assert titles(browser, "?sort=gpus")[:2] == [ROOT.title, SYMPTOM.title]


def test_of_many_symptoms_the_worst_are_shown(browser: Client) -> None:
    polled(
        ROOT,
        *(
            finding(
                "GPU302",
                subject=Subject(kind="Job", name=f"j{i}"),
                title=f"j{i}",
                caused_by=(ROOT.id,),
                gpus=i,
            )
            for i in range(13)
        ),
    )

    assert titles(browser) == [ROOT.title, *(f"j{i}" for i in range(12, 2, -1))]
    assert "and 3 more symptoms of this cause" in flat(browser.get(LIST).content.decode())


def test_the_link_to_a_view_holds_all_of_it(browser: Client) -> None:
    polled(ROOT)

    text = browser.get(f"{LIST}?severity=warning&sort=age").content.decode()

    assert f'<code id="view-link">http://testserver{LIST}?severity=warning&amp;sort=age</code>' in text
    assert 'data-copy="view-link"' in text


def test_what_is_resolved_explains_nothing_any_more(browser: Client) -> None:
    of = polled(ROOT, SYMPTOM, at=ago(minutes=5))
    for minutes in (3, 2):
        found(of, [msgspec.structs.replace(SYMPTOM, caused_by=())], ago(minutes=minutes))

    assert titles(browser) == [SYMPTOM.title]


def test_an_unknown_severity_filters_nothing(browser: Client) -> None:
    polled(ROOT, SYMPTOM, OTHER)

    assert len(titles(browser, "?severity=terrible")) == 3


def test_a_filter_that_leaves_nothing_says_how_many_there_are(browser: Client) -> None:
    polled(ROOT, OTHER)

    text = flat(browser.get(f"{LIST}?q=nothing").content.decode())

    assert "None of the 2 open findings is left by the filter." in text
    assert "none of 2 open findings" in text


def test_the_live_part_asks_again_with_the_same_filters(browser: Client) -> None:
    polled(ROOT)

    text = browser.get(f"{LIST}?severity=warning&q=a+b", headers=HTMX).content.decode()

    assert 'hx-get="/c/lab/findings/?severity=warning&amp;q=a+b"' in text


def test_the_live_part_announces_the_count(browser: Client) -> None:
    polled(ROOT, SYMPTOM)

    text = browser.get(LIST, headers=HTMX).content.decode()

    status = re.search(r'<p id="status-line" hx-swap-oob="innerHTML">(.*?)</p>', text, re.DOTALL)
    assert status
    assert flat(status[1]) == "2 open findings: 1 critical, 1 warning"


def test_no_findings_is_good_news_only_when_everything_was_looked_at(browser: Client) -> None:
    polled()

    text = browser.get(LIST).content.decode()

    assert "All rules looked, and none has anything to report." in text
    assert "banner-good" in text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rules_skipped": [{"code": "GPU501", "reason": "no window"}]}, "1 rule could not look"),
        ({"rules_failed": [{"code": "GPU501", "error": "KeyError"}]}, "1 failed"),
        ({"rules_partial": [{"code": "GPU501", "reason": "some"}] * 2}, "2 looked at part of the data"),
        ({"coverage": [{"code": "GPU901", "what": "metrics", "cure": "kubectl"}]}, "1 blind spot:"),
    ],
)
def test_no_findings_says_what_was_not_evaluated(browser: Client, fields: dict[str, Any], words: str) -> None:
    polled(**fields)

    text = browser.get(LIST).content.decode()

    assert "No open findings, but not everything was looked at." in text
    assert words in flat(text)
    assert "banner-good" not in text


def test_no_findings_in_stale_data_is_no_good_news(browser: Client) -> None:
    polled(at=ago(minutes=20))

    text = browser.get(LIST).content.decode()

    assert "Not evaluated since" in text
    assert "banner-good" not in text


def test_staleness_goes_by_our_clock_and_not_by_the_clusters(browser: Client) -> None:
    """The server's clock may be an hour behind or ahead; what counts is when it was read."""
    of = polled(at=ago(hours=1))
    observation(of, ago(minutes=1))
    assert "Not evaluated since" not in browser.get(LIST).content.decode()


def test_unknown_waste_is_not_zero(browser: Client) -> None:
    polled(OTHER)

    text = browser.get(LIST).content.decode()

    assert 'title="Its rule does not say how many GPUs it wastes at any moment;' in text


def test_findings_that_have_not_lasted_long_enough_are_not_shown(browser: Client) -> None:
    of = polled(ROOT)
    Incident.objects.update(status=Incident.Status.PENDING)

    assert titles(browser) == []
    assert browser.get(f"{LIST}{ROOT.id}/").status_code == 404
    assert of.incidents.count() == 1


def test_a_finding_of_another_cluster_is_not_shown(browser: Client) -> None:
    polled(ROOT)
    cluster("prod")

    assert browser.get(f"/c/prod/findings/{ROOT.id}/").status_code == 404
    assert "Xid 79" not in browser.get("/c/prod/findings/").content.decode()


def many(number: int) -> list[Any]:
    """Causes with a symptom each."""
    causes = [finding("GPU101", subject=Subject(kind="Node", name=f"n{i}")) for i in range(number)]
    return causes + [
        finding("GPU302", subject=Subject(kind="Job", name=f"j{i}"), caused_by=(cause.id,))
        for i, cause in enumerate(causes)
    ]


@pytest.mark.parametrize("number", [1, 30])
def test_the_list_costs_eight_queries_however_long_it_is(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    polled(*many(number))

    with django_assert_num_queries(8):
        browser.get(LIST)


def test_a_long_list_is_cut_into_pages(browser: Client) -> None:
    polled(*(finding(subject=Subject(kind="Node", name=f"n{i:03}")) for i in range(101)))

    assert len(titles(browser)) == 100
    assert len(titles(browser, "?page=2")) == 1
    assert "101 to 101 of 101 causes" in flat(browser.get(f"{LIST}?page=2").content.decode())

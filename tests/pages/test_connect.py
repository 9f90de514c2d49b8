"""Connecting a cluster: the steps, what each source of the declared ones answers, and asking for a test."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
import yaml
from celery import current_app
from django.conf import settings as django_settings
from django.test import Client
from django.utils.html import escape
from pytest_django import DjangoAssertNumQueries

from diagnostics.clusters import declaration
from diagnostics.models import User
from diagnostics.snapshot import Source, SourceState
from diagnostics.views import source_cures
from diagnostics.views.connect import KUBECONFIG
from diagnostics.views.source_cures import cures, rules_of
from tests.builders import NOW
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, observation, polled
from tests.pages.test_findings import flat
from tests.servers import free_port

pytestmark = pytest.mark.django_db

PAGE = "/connect/"
ALL_WELL = [
    {"name": source.value, "status": "ok", "detail": "", "items": 1, "seconds": 0.1} for source in Source
]


@pytest.fixture(autouse=True)
def lab(settings: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": "Lab", "kubeconfig": "/etc/my lab.kubeconfig", "context": "lab"}
    settings.CLUSTERS = declaration({"clusters": {"lab": fields}}, "a test").clusters
    return fields


@pytest.fixture
def staff(user: User, browser: Client) -> Client:
    User.objects.filter(pk=user.pk).update(is_staff=True)
    return browser


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...]]]:
    asked: list[tuple[str, tuple[str, ...]]] = []

    def note(name: str, args: tuple[str, ...], **_: Any) -> None:
        asked.append((name, args))

    monkeypatch.setattr(current_app, "send_task", note)
    return asked


def text(browser: Client) -> str:
    return browser.get(PAGE).content.decode()


def answered(**states: tuple[str, str]) -> list[dict[str, Any]]:
    """All sources are well but these, which have a state and a detail."""
    return [
        one | dict(zip(("status", "detail"), states.get(str(one["name"]), ("ok", "")), strict=True))
        for one in ALL_WELL
    ]


def test_shows_the_manifest_as_it_is(browser: Client) -> None:
    manifest = (Path(django_settings.BASE_DIR) / "deploy" / "rbac.yaml").read_text()

    page = text(browser)

    assert escape(manifest) in page
    assert 'data-copy="manifest"' in page
    assert "kubectl apply -f deploy/rbac.yaml" in page


def test_says_so_where_the_manifest_is_missing(
    browser: Client, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_cures, "settings", type("Elsewhere", (), {"BASE_DIR": tmp_path}))

    assert "The manifest is not part of this installation." in flat(text(browser))


def test_the_commands_stand_in_order(browser: Client) -> None:
    page = flat(text(browser))

    steps = [
        "auth can-i",
        "create token gpuhealth",
        "count(DCGM_FI_DEV_FB_USED)",
        "gpuhealth up",
        "GPUHEALTH_CLUSTERS",
    ]
    places = [page.index(words) for words in steps]
    assert places == sorted(places)


def test_the_declarations_that_it_shows_are_valid(browser: Client) -> None:
    import tomllib

    from diagnostics.views.connect import DECLARATION, INLINE

    shown = declaration(tomllib.loads(DECLARATION), "the page").clusters
    inline = declaration({"clusters": yaml.safe_load(INLINE)}, "the page").clusters
    assert shown == inline


def test_the_kubeconfig_commands_are_shell(tmp_path: Path) -> None:
    import subprocess

    assert subprocess.run(["sh", "-n"], input=KUBECONFIG.encode(), check=False).returncode == 0


def test_a_declared_cluster_that_was_never_polled_is_not_tested(browser: Client) -> None:
    words = flat(text(browser))

    assert "Lab not tested yet The first poll comes within a minute" in words


def test_none_declared_says_what_is_shown_instead(browser: Client, settings: Any) -> None:
    settings.CLUSTERS = {}

    assert "None is declared yet." in flat(text(browser))


def test_a_whole_answer_needs_no_cure(browser: Client) -> None:
    polled(sources=ALL_WELL)

    words = flat(text(browser))

    assert "All sources answer in full." in words
    assert "apiGroups" not in words.rpartition("What the declared clusters answer")[2]


def test_a_forbidden_source_names_the_rules_that_it_lacks(browser: Client) -> None:
    forbidden = 'pods is forbidden: User "x" cannot list resource "pods" in API group "" at the cluster scope'
    polled(sources=answered(pods=("forbidden", forbidden)))

    words = flat(text(browser))

    assert f"1 of {len(ALL_WELL)} sources do not answer in full." in words
    assert "- apiGroups: [&#x27;&#x27;] resources: [pods] verbs: [get, list]" in words
    assert (
        "kubectl auth can-i list pods --all-namespaces --as=system:serviceaccount:gpuhealth:gpuhealth"
        in words
    )


@pytest.mark.parametrize(
    "source", [s for s in Source if s not in {Source.METRICS, Source.WINDOW, Source.USAGE}]
)
def test_the_rules_of_each_source_are_those_of_the_manifest(source: Source) -> None:
    role = next(d for d in yaml.safe_load_all(source_cures.manifest()) if d["kind"] == "ClusterRole")
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    found = yaml.safe_load(rules_of(source))
    assert found
    for rule in found:
        for resource in rule["resources"]:
            assert {(rule["apiGroups"][0], resource, verb) for verb in rule["verbs"]} <= granted


def test_every_rule_of_the_manifest_belongs_to_a_source() -> None:
    role = next(d for d in yaml.safe_load_all(source_cures.manifest()) if d["kind"] == "ClusterRole")
    granted = {(r["apiGroups"][0], name) for r in role["rules"] for name in r["resources"]}
    found = {
        (rule["apiGroups"][0], name)
        for source in Source
        for rule in yaml.safe_load(rules_of(source)) or ()
        for name in rule["resources"]
    }
    assert found == granted


@pytest.mark.parametrize(
    ("source", "state", "detail", "fields", "words"),
    [
        ("metrics", "absent", "", {}, "url ="),
        ("metrics", "absent", "holds no series", {"prometheus": {"url": "http://p"}}, "scrape_configs"),
        ("metrics", "failed", "timed out", {"prometheus": {"url": "http://p"}}, "/-/ready"),
        ("metrics", "forbidden", "401", {"prometheus": {"url": "http://p"}}, "bearer_token_file"),
        ("metrics", "stale", "old", {"prometheus": {"url": "http://p"}}, "up{job=~"),
        ("metrics", "failed", "refused", {"exporters": ["http://e"]}, "-l app=nvidia-dcgm-exporter"),
        ("window", "absent", "", {"exporters": ["http://e"]}, ""),
        (
            "nodes",
            "failed",
            "timed out",
            {},
            "kubectl '--kubeconfig=/etc/my lab.kubeconfig' --context=lab get --raw /readyz",
        ),
        ("nodes", "forbidden", "the API server does not accept these credentials (x)", {}, "create token"),
        ("workloads", "partial", "without jobs: jobs.batch is forbidden", {}, "cronjobs, jobs"),
        ("services", "absent", "", {}, ""),
    ],
)
def test_each_way_of_failing_has_its_line(
    lab: dict[str, Any], source: str, state: str, detail: str, fields: dict[str, Any], words: str
) -> None:
    declared = declaration({"clusters": {"lab": lab | fields}}, "a test").clusters["lab"]
    found = cures(Source(source), SourceState(state), detail, "lab", declared)
    assert found
    assert words in "\n".join(cure.text for cure in found)


def test_no_address_that_may_hold_a_password_is_shown(
    browser: Client, settings: Any, lab: dict[str, Any]
) -> None:
    fields = lab | {"prometheus": {"url": "http://reader:s3cret@p:9090"}}
    settings.CLUSTERS = declaration({"clusters": {"lab": fields}}, "a test").clusters
    polled(
        sources=answered(metrics=("failed", "Prometheus at http://p:9090 timed out"), window=("failed", ""))
    )

    assert "s3cret" not in text(browser)


def test_a_poll_that_came_to_nothing_says_why(browser: Client) -> None:
    of = cluster()
    observation(of, status="failed", error="no kubeconfig", sources=[])

    words = flat(text(browser))

    assert "Nothing could be read: no kubeconfig" in words
    assert words.count("not asked") == len(Source)


def test_one_that_is_declared_no_more_is_said_to_be(staff: Client, settings: Any) -> None:
    polled(sources=answered(pods=("forbidden", "")))
    settings.CLUSTERS = {}

    page = text(staff)

    assert "Declared no more." in flat(page)
    assert "Test again" not in page


def test_a_test_sends_the_ordinary_poll(staff: Client, sent: list[Any]) -> None:
    response = staff.post(PAGE, {"slug": "lab"}, follow=True)

    assert sent == [("diagnostics.tasks.observe", ("lab",))]
    assert "A test of lab has been asked for." in flat(response.content.decode())


def test_tests_are_not_asked_for_all_the_time(staff: Client, sent: list[Any]) -> None:
    staff.post(PAGE, {"slug": "lab"})
    again = flat(staff.post(PAGE, {"slug": "lab"}, follow=True).content.decode())
    assert "asked for just now" in again
    assert len(sent) == 1

    with time_machine.travel(NOW + timedelta(seconds=16), tick=False):
        staff.post(PAGE, {"slug": "lab"})
    assert len(sent) == 2


def test_only_declared_clusters_are_tested(staff: Client, sent: list[Any]) -> None:
    response = staff.post(PAGE, {"slug": "other\x00"}, follow=True)

    assert "There is no declared cluster of that name." in flat(response.content.decode())
    assert sent == []


def test_only_staff_may_test(browser: Client, sent: list[Any]) -> None:
    assert "Test again" not in text(browser)
    assert browser.post(PAGE, {"slug": "lab"}).status_code == 403
    assert sent == []


def test_a_broker_that_does_not_answer_is_said(staff: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_app.conf, "broker_url", f"redis://127.0.0.1:{free_port()}/0")
    monkeypatch.setattr(current_app.conf, "broker_write_url", f"redis://127.0.0.1:{free_port()}/0")

    response = staff.post(PAGE, {"slug": "lab"}, follow=True)

    assert "the broker does not answer" in flat(response.content.decode())


def test_full_partial_and_restored(browser: Client) -> None:
    polled(sources=ALL_WELL)

    assert browser.get(PAGE).content.lstrip().startswith(b"<!DOCTYPE html>")
    part = browser.get(PAGE, headers=HTMX)
    assert part.content.lstrip().startswith(b"<section")
    assert browser.get(PAGE, headers=HTMX | {"If-None-Match": part["ETag"]}).status_code == 304
    restored = browser.get(PAGE, headers=HTMX | {"HX-History-Restore-Request": "true"})
    assert restored.content.lstrip().startswith(b"<!DOCTYPE html>")


def test_wants_a_signed_in_user(client: Client) -> None:
    assert client.get(PAGE)["Location"].startswith("/login/")
    assert client.post(PAGE, {"slug": "lab"})["Location"].startswith("/login/")


@pytest.mark.parametrize("number", [1, 12])
def test_costs_five_queries_however_many_clusters(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    for which in range(number):
        polled(of=cluster(f"c{which}"), sources=ALL_WELL)

    with django_assert_num_queries(5):
        text(browser)


def test_hostile_words_are_text(browser: Client) -> None:
    hostile = "<script>alert(1)</script>\x1b[31m\u202eevil {{ 7*7 }} %s" + "x" * 300
    of = cluster(name=hostile[:200])
    polled(of=of, sources=answered(pods=("failed", hostile)), error=hostile)

    page = text(browser)

    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "{{ 7*7 }}" in page

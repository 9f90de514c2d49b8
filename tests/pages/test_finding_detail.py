"""The page of one finding."""

import re
from datetime import timedelta

import msgspec
import pytest
from django.test import Client

from diagnostics.findings import Evidence
from diagnostics.fixes import Fix, Risk, StepKind
from diagnostics.models import Incident, IncidentEvent, User
from tests.builders import NOW, ago
from tests.pages.conftest import HTMX
from tests.pages.stored import finding, found, polled, step
from tests.pages.test_findings import LIST, ROOT, SYMPTOM, detail, flat, titles

pytestmark = pytest.mark.django_db


def test_a_finding_shows_evidence_with_unit_and_source(browser: Client) -> None:
    of = finding(evidence=(Evidence("Temperature", "91", "°C", "DCGM_FI_DEV_GPU_TEMP"),))
    polled(of)

    assert "Temperature 91 °C DCGM_FI_DEV_GPU_TEMP" in flat(detail(browser, of))


def test_steps_stand_in_order_with_risk_and_what_to_expect(browser: Client) -> None:
    steps = (
        step(title="Look", command="kubectl get nodes"),
        step(
            kind=StepKind.FIX,
            title="Drain",
            why="Loses emptyDir data.",
            risk=Risk.DESTRUCTIVE,
            command="kubectl drain gpu-1",
            expect="Only DaemonSet pods are left.",
        ),
    )
    of = finding(fix=Fix("Reset it", steps))
    polled(of)

    text = detail(browser, of)

    assert text.index("kubectl get nodes") < text.index("kubectl drain gpu-1")
    assert "Drain fix destructive Loses emptyDir data. kubectl drain gpu-1" in flat(text)
    assert "Only DaemonSet pods are left." in text
    assert 'data-copy="command-2"' in text


def test_a_command_is_shown_exactly_as_it_is_to_be_run(browser: Client) -> None:
    command = "kubectl get pods -l 'a in (b, c)'  --field-selector=spec.nodeName=gpu-1"
    of = finding(fix=Fix("Look", (step(command=command),)))
    polled(of)

    shown = re.search(r'<code id="command-1">(.*?)</code>', detail(browser, of), re.DOTALL)

    assert shown
    assert shown[1] == command.replace("'", "&#x27;")


def test_a_manifest_keeps_its_lines(browser: Client) -> None:
    of = finding(fix=Fix("Move", (step(command="", manifest="spec:\n  replicas: 2\n"),)))
    polled(of)

    assert '<code id="manifest-1">spec:\n  replicas: 2\n</code>' in detail(browser, of)


@pytest.mark.parametrize(
    "hidden", ["\u202e", "\x1b[31m", "\u2066", "\x00", "\u200b", "\u00a0", "\u2028", "\r"]
)
def test_a_command_with_characters_that_cannot_be_seen_has_no_copy_button(
    browser: Client, hidden: str
) -> None:
    of = finding(fix=Fix("Look", (step(command=f"kubectl get pod 'a{hidden}b'"),)))
    polled(of)

    text = detail(browser, of)

    assert "data-copy=" not in text
    assert "Do not paste this." in text
    assert hidden not in text


def test_a_symptom_points_to_its_cause_and_the_cause_to_it(browser: Client) -> None:
    polled(ROOT, SYMPTOM)

    symptom, cause = detail(browser, SYMPTOM), detail(browser, ROOT)

    assert "This is a symptom. Look at its cause first:" in symptom
    assert f'href="{LIST}{ROOT.id}/"' in symptom
    assert f'href="{LIST}{SYMPTOM.id}/"' in cause
    assert "This is a symptom" not in cause


def test_a_resolved_finding_says_when_and_why(browser: Client) -> None:
    of = polled(ROOT, at=ago(minutes=3))
    found(of, [], ago(minutes=2))
    found(of, [], ago(minutes=1))

    text = flat(detail(browser, ROOT))

    assert "Resolved 2026-06-01 11:59:00 UTC : not found by 2 polls in a row." in text
    assert "how it looked last, at 2026-06-01 11:57:00 UTC" in text
    assert titles(browser) == []


def test_a_reopened_finding_counts_from_when_it_came_back(browser: Client) -> None:
    of = polled(ROOT, at=ago(minutes=30))
    for minutes, findings in ((29, []), (28, []), (7, [ROOT])):
        found(of, findings, ago(minutes=minutes))

    text = flat(detail(browser, ROOT))

    assert "Open for 7 min" in text
    assert "Reopened" in text


def test_the_timeline_names_who_and_what(browser: Client, user: User) -> None:
    polled(ROOT, at=ago(minutes=3))
    incident = Incident.objects.get()
    IncidentEvent.objects.create(
        incident=incident, at=ago(minutes=1), kind="commented", actor=user, data={"text": "<b>on it</b>"}
    )

    text = detail(browser, ROOT)

    assert "&lt;b&gt;on it&lt;/b&gt;" in text
    assert "Commented <b>on it</b> by sre" in flat(text).replace("&lt;", "<").replace("&gt;", ">")
    assert flat(text).index("Commented") < flat(text).index("Opened")


def test_overrides_that_touched_a_finding_are_named(browser: Client) -> None:
    of = finding(overrides=("annotation gpuhealth.io/idle-after: 2h",))
    polled(of)

    assert "annotation gpuhealth.io/idle-after: 2h" in detail(browser, of)


def test_a_finding_has_no_success_rate_yet(browser: Client) -> None:
    polled(ROOT)

    assert "No history yet" in detail(browser, ROOT)


def test_a_changed_fix_is_told_to_whoever_reads_the_old_one(browser: Client) -> None:
    of = polled(ROOT, at=ago(minutes=2))
    live = re.search(r'hx-get="([^"]*\?fix=\w+)"', detail(browser, ROOT))
    assert live
    unchanged = browser.get(live[1], headers=HTMX).content.decode()
    found(
        of,
        [msgspec.structs.replace(ROOT, fix=Fix("Another", (step(command="kubectl cordon gpu-5"),)))],
        ago(minutes=1),
    )

    changed = browser.get(live[1], headers=HTMX).content.decode()

    assert "The guided fix has changed" not in unchanged
    assert "The guided fix has changed" in changed
    assert live[1] in changed


def test_ages_count_from_when_the_finding_opened(browser: Client) -> None:
    polled(ROOT, at=NOW - timedelta(hours=9, minutes=12))

    assert 'data-age="33120"' in browser.get(LIST).content.decode()


def test_the_subject_leads_to_its_node(browser: Client) -> None:
    polled(ROOT)

    assert 'href="/c/lab/nodes/gpu-5/"' in detail(browser, ROOT)

"""The page of one finding."""

import re
from datetime import timedelta

import msgspec
import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Finding, Subject
from diagnostics.fixes import Fix, Risk, StepKind
from diagnostics.models import (
    Backfill,
    Cluster,
    GpuModel,
    Incident,
    IncidentEvent,
    LedgerState,
    Price,
    UsageHour,
    User,
    Workload,
)
from diagnostics.usage.weights import HOUR_MS
from tests.builders import NOW, ago
from tests.pages.conftest import HTMX
from tests.pages.history import hold, node_row, workload_row
from tests.pages.stored import finding, found, polled, step
from tests.pages.test_findings import LIST, OTHER, ROOT, SYMPTOM, detail, flat

pytestmark = pytest.mark.django_db


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


def test_a_diff_stands_below_its_manifest_and_can_be_copied_on_its_own(browser: Client) -> None:
    changes = step(command="", manifest="spec:\n  replicas: 2\n", diff="-  replicas: 1\n+  replicas: 2")
    polled(of := finding(fix=Fix("Scale", (changes,))))

    page = detail(browser, of)

    assert '<code id="diff-1">-  replicas: 1\n+  replicas: 2</code>' in page
    assert 'data-copy="diff-1"' in page
    assert page.index("manifest-1") < page.index("diff-1")


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


def test_pods_of_a_workload_lead_to_it(browser: Client) -> None:
    polled(msgspec.structs.replace(SYMPTOM, pods=("research/llama-0",)))

    link = '<a href="/c/lab/workloads/Job/research/llama/"><bdi>research/llama-0</bdi></a>'
    assert link in detail(browser, SYMPTOM)


def held(number: int = 1) -> tuple[Finding, str]:
    """A GPU's finding that names so many pods, and its page's address."""
    pods = tuple(f"research/train-{i}" for i in range(number))
    of = msgspec.structs.replace(ROOT, nodes=("gpu-5",), pods=pods, waste_gpus=None)
    symptom = msgspec.structs.replace(SYMPTOM, caused_by=(of.id,))
    lab = polled(of, symptom, at=ago(hours=2))
    node, other = node_row(lab, "gpu-5"), node_row(lab, "gpu-6")
    for i in range(number):
        hold(node, workload_row(lab, f"old-{i}"), f"train-{i}", ["0"], ago(hours=9), ended_at=ago(hours=8))
        hold(node, workload_row(lab, f"job-{i}"), f"train-{i}", ["0"], ago(hours=3))
        hold(other, workload_row(lab, f"far-{i}"), f"train-{i}", ["0"], ago(hours=1))
        hold(node, workload_row(lab, f"job-{i}", "else"), f"train-{i}", ["0"], ago(hours=1))
    return of, f"{LIST}{of.id}/"


def test_pods_on_a_device_lead_to_the_workload_that_held_it_last(browser: Client) -> None:
    _, address = held()

    page = browser.get(address).content.decode()

    assert '<a href="/c/lab/workloads/Job/research/job-0/"><bdi>research/train-0</bdi></a>' in page
    assert "of Job job-0" in flat(page)


def test_pods_of_nobody_known_are_text(browser: Client) -> None:
    of = msgspec.structs.replace(ROOT, nodes=("gpu-5",), pods=("research/a<b>",))
    polled(of)

    page = detail(browser, of)

    assert "<bdi>research/a&lt;b&gt;</bdi>" in page
    assert "<bdi>research/a&lt;b&gt;</bdi></a>" not in page


@pytest.mark.parametrize("number", [1, 12])
def test_whose_pods_they_are_costs_one_query(
    browser: Client, django_assert_max_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    _, address = held(number)
    Price.objects.create(pattern="*", per_gpu_hour=3)

    with django_assert_max_num_queries(11):
        assert f"research/train-{number - 1}" in browser.get(address).content.decode()


def test_a_reopened_finding_counts_from_when_it_came_back(browser: Client) -> None:
    of = polled(ROOT, at=ago(minutes=30))
    for minutes, findings in ((29, []), (28, []), (7, [ROOT])):
        found(of, findings, ago(minutes=minutes))

    text = flat(detail(browser, ROOT))

    assert "Open for 7 min" in text
    assert "Reopened" in text
    assert "open for 7 min" in flat(browser.get("/c/lab/").content.decode())
    assert "7 min GPU101" in flat(browser.get("/c/lab/findings/").content.decode())


def test_the_timeline_names_who_and_what(browser: Client, user: User) -> None:
    polled(ROOT, at=ago(minutes=3))
    incident = Incident.objects.get()
    IncidentEvent.objects.create(
        incident=incident, at=ago(minutes=1), kind="commented", actor=user, data={"text": "<b>on it</b>"}
    )

    text = detail(browser, ROOT)

    assert "&lt;b&gt;on it&lt;/b&gt;" in text
    assert "Commented by sre <b>on it</b>" in flat(text).replace("&lt;", "<").replace("&gt;", ">")
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


def test_the_tree_leads_from_the_root_cause_over_this_finding_to_its_symptoms(browser: Client) -> None:
    last = finding(
        "GPU301",
        "pending-gpu-pod",
        subject=Subject(kind="Job", namespace="research", name="next"),
        title="Job next waits",
        caused_by=(SYMPTOM.id,),
    )
    polled(ROOT, SYMPTOM, last, finding())

    text = flat(detail(browser, SYMPTOM))
    tree = text[text.index("Cause and symptoms") : text.index("Guided fix")]

    assert re.findall(
        r"GPU 2 on gpu-5: Xid 79|Job llama[^:]*: 7 of 8 workers run this finding|Job next waits", tree
    ) == [
        ROOT.title,
        f"{SYMPTOM.title} this finding",
        last.title,
    ]
    assert "offers 7 of 8" not in tree
    assert "Workloads Job research/llama Job research/next" in text


def test_the_root_of_several_causes_is_what_a_symptom_points_to(browser: Client) -> None:
    last = finding("GPU301", "pending-gpu-pod", title="Later", caused_by=(SYMPTOM.id,))
    polled(ROOT, SYMPTOM, last)

    text = detail(browser, last)
    banner = text[text.index("This is a symptom") : text.index('class="prose"')]

    assert ROOT.title in banner
    assert SYMPTOM.title not in banner


def test_causes_that_run_in_a_circle_make_a_tree_all_the_same(browser: Client) -> None:
    polled(msgspec.structs.replace(ROOT, caused_by=(SYMPTOM.id,)), SYMPTOM)

    assert "Cause and symptoms" in detail(browser, SYMPTOM)


def test_an_estimated_cost_says_that_it_is_one(browser: Client) -> None:
    of = polled(ROOT, at=ago(minutes=90))
    found(of, [ROOT], NOW)

    text = flat(detail(browser, ROOT))

    assert "Wasted so far about 1.5 GPU-hours An estimate: what it wastes now" in text
    assert "No price is known." in text


def test_a_cost_that_is_not_known_is_not_zero(browser: Client) -> None:
    polled(OTHER)

    text = flat(detail(browser, OTHER))

    assert "Wasted so far not known" in text
    assert "0 GPU-hours" not in text


def test_the_cost_of_a_workload_is_the_ledgers(browser: Client) -> None:
    of = polled(SYMPTOM, at=ago(hours=2))
    ledger(of, 2.5)

    text = flat(detail(browser, SYMPTOM))

    assert "Wasted so far 2.5 GPU-hours 7.50 EUR All that this workload wasted since" in text
    assert "by the ledger, complete through 2026-06-01 11:30:00 UTC" in text


def test_a_success_rate_is_shown_once_there_are_five_outcomes(browser: Client) -> None:
    polled(ROOT)
    incident = Incident.objects.get()
    kinds = ["fix verified"] * 4 + ["fix failed"]
    for kind in kinds[:4]:
        IncidentEvent.objects.create(incident=incident, at=NOW, kind=kind, data={"cause": ROOT.cause})
    assert "No history yet" in detail(browser, ROOT)

    IncidentEvent.objects.create(
        incident=incident, at=NOW, kind="fix failed", data={"cause": ROOT.cause, "was_verified": False}
    )
    assert "80 % The checked-off fix held 4 of 5 times here" in flat(detail(browser, ROOT))


def ledger(of: Cluster, waste_gpu_hours: float) -> None:
    """What the ledger would say of the Job `research/llama`, at 3 EUR an hour."""
    times = {"first_seen": NOW, "last_seen": NOW}
    workload = Workload.objects.create(cluster=of, kind="Job", namespace="research", name="llama", **times)
    Price.objects.create(pattern="*", per_gpu_hour=3, currency="EUR")
    UsageHour.objects.create(
        cluster=of,
        hour=ago(hours=1),
        workload=workload,
        model=GpuModel.objects.create(name="H100"),
        state=0,
        gpu_ms=8 * HOUR_MS,
        waste_ms=round(waste_gpu_hours * HOUR_MS),
    )
    LedgerState.objects.create(cluster=of, complete_through=ago(minutes=30))


@pytest.mark.parametrize("number", [1, 30])
@pytest.mark.parametrize("is_known", [True, False], ids=["ledger", "estimate"])
def test_a_finding_costs_twelve_queries_whatever_hangs_on_it(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int, is_known: bool
) -> None:
    of = polled(
        SYMPTOM,
        *(
            finding("GPU301", subject=Subject(kind="Job", name=f"j{i}"), caused_by=(SYMPTOM.id,))
            for i in range(number)
        ),
        at=ago(hours=2),
    )
    if is_known:
        ledger(of, 1.0)
    else:
        Price.objects.create(pattern="*", per_gpu_hour=3)
    incident = Incident.objects.get(fingerprint=SYMPTOM.id)
    for i in range(number):
        IncidentEvent.objects.create(incident=incident, at=NOW, kind="commented", data={"text": f"{i}"})
        User.objects.create_user(f"user-{i}")

    with django_assert_num_queries(12):
        browser.get(f"{LIST}{SYMPTOM.id}/")


def test_without_a_rate_the_sum_stands_alone(browser: Client) -> None:
    subject = Subject(kind="Job", namespace="research", name="llama")
    of = finding("GPU303", "pending", subject=subject, waste_gpus=None)
    ledger(polled(of, at=ago(hours=1)), 5.0)

    text = flat(detail(browser, of))

    assert "none, or not known" not in text
    assert "5 GPU-hours" in text
    assert "How many of its GPUs are wasted because of this finding alone, is not counted." in text


@pytest.mark.parametrize(
    ("hours", "done", "status", "is_said"),
    [(9, 1, "running", True), (9, 1, "done", False), (9, 9, "waiting", False), (9, 3, "running", False)],
)
def test_a_cost_that_grows_by_back_filling_says_so(
    browser: Client, hours: int, done: int, status: str, is_said: bool
) -> None:
    of = polled(SYMPTOM, at=ago(hours=2))
    ledger(of, 2.5)
    span = {"start": ago(hours=hours), "done_from": ago(hours=done), "end": NOW}
    Backfill.objects.create(cluster=of, status=status, **span)
    Incident.objects.update(last_seen=NOW)

    text = flat(detail(browser, SYMPTOM))

    assert ("Some of that time is not in it yet, and the figure grows by it" in text) == is_said
    assert ("at least 2.5 GPU-hours so far; still being back-filled at least 7.50 EUR" in text) == is_said
    assert ("complete through 2026" in text) == (not is_said)
    figures = browser.get(f"{LIST}{SYMPTOM.id}/").content.decode()
    assert ('<strong class="figure">2.5</strong>' in figures) == (not is_said)
    assert ("<strong>7.50 EUR</strong>" in figures) == (not is_said)

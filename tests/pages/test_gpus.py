"""The page of one GPU, MIG instance or unnamed place."""

import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Severity, Subject
from diagnostics.models import Cluster, Device, LedgerState, StoredSnapshot
from diagnostics.snapshot import Gpu, Metrics, Origin, State, XidSeen
from diagnostics.stretches import Mark, begun
from diagnostics.usage import ledger as ledgers
from diagnostics.usage.books import Books, Entry
from diagnostics.usage.intervals import Interval
from diagnostics.usage.moments import to_ms
from diagnostics.usage.weights import Shape
from tests.builders import GIB, NOW, ago, gpu, node, snapshot, window
from tests.pages.conftest import HTMX
from tests.pages.history import DAY, change, device_row, hold, hours, node_row, stay, workload_row
from tests.pages.stored import cluster, finding, polled
from tests.pages.test_findings import flat

pytestmark = pytest.mark.django_db

SLOT = gpu().slot
PLACE = SLOT.partition("/")[2]
PAGE = f"/c/lab/gpus/{SLOT}/"


def page(browser: Client, address: str = PAGE) -> str:
    response = browser.get(address)
    assert response.status_code == 200
    return response.content.decode()


def recorded(*gpus: Gpu, **fields: Any) -> tuple[Cluster, Device]:
    """A cluster whose latest poll saw these GPUs of gpu-1, and the records of its first place."""
    of = polled(seen=snapshot(node(), *gpus, **fields))
    return of, device_row(node_row(of), PLACE)


def still(device: Device, state: State, since: timedelta, through: timedelta = timedelta(minutes=30)) -> None:
    """The ledger's books: the device is in a stay that began `since` ago, and final up to `through` ago."""
    row = LedgerState.objects.create(cluster=device.cluster, complete_through=NOW - through)
    books = Books(through=to_ms(NOW - through))
    shape = Shape(*([1] * len(Shape.__struct_fields__)))
    interval = Interval(to_ms(NOW - since), to_ms(NOW - through), state, (), is_gap=False)
    books.entries[device.pk] = Entry(begun(to_ms(NOW - through), Mark(state)), shape, interval)
    ledgers.close(row, books)


def test_state_holder_and_sample_stand_with_their_units(browser: Client) -> None:
    sample = Metrics(
        sampled_at=ago(seconds=20),
        utilization_ratio=0.87,
        sm_active_ratio=0.004,
        memory_used_bytes=60.0 * GIB,
        memory_free_bytes=20.0 * GIB,
        power_w=311.4,
        temperature_c=0.0,
    )
    polled(
        seen=snapshot(node(), gpu(0, state=State.IDLE_HELD, holders=("research/train-0",), metrics=sample))
    )

    text = flat(page(browser))

    assert "State M idle, memory held" in text
    assert "research/train-0 known from metric label" in text
    assert "Taken 20 s ago" in text
    for words in ("87 %", "0.4 %", "60 GiB of 80 GiB", "311.4 W", "0 °C"):
        assert words in text


def test_a_holder_leads_to_its_workload(browser: Client) -> None:
    of, device = recorded(gpu(0, holders=("research/train-0",)))
    hold(device.node, workload_row(of), "train-0", [PLACE], NOW - DAY)

    text = page(browser)

    assert f'href="{reverse("workload_detail", args=["lab", "Job", "research", "train"])}"' in text
    assert "of Job train" in flat(text)


def test_a_gpu_without_metrics_shows_no_zero(browser: Client) -> None:
    polled(seen=snapshot(node(), gpu(0, metrics=None)))

    text = flat(page(browser))

    assert "No metrics of this GPU came with the latest poll." in text
    assert "0 W" not in text


def test_the_state_is_told_since_when_the_ledger_saw_it(browser: Client) -> None:
    _, device = recorded(gpu(0, state=State.HUNG))
    still(device, State.HUNG, timedelta(hours=3))

    assert "hung for 3 h" in flat(page(browser))


def test_low_activity_and_work_are_one_stay(browser: Client) -> None:
    _, device = recorded(gpu(0, state=State.INEFFECTIVE))
    still(device, State.EFFECTIVE, timedelta(hours=2))

    assert "low activity for 2 h" in flat(page(browser))


def test_a_state_that_is_newer_than_the_ledger_is_not_dated_by_it(browser: Client) -> None:
    _, device = recorded(gpu(0, state=State.FREE))
    still(device, State.HUNG, timedelta(hours=3))

    assert "since when is not settled yet: states are final up to 2026-06-01 11:30" in flat(page(browser))


def test_states_of_seven_days_are_a_bar_with_letters_and_sums(browser: Client) -> None:
    of, device = recorded(gpu(0, state=State.FREE))
    train = workload_row(of)
    stay(device, State.EFFECTIVE, NOW - 3 * DAY, NOW - 2 * DAY, holders=[train.pk])
    stay(device, State.FREE, NOW - 2 * DAY, NOW - DAY)
    stay(device, State.NO_DATA, NOW - DAY, NOW - DAY / 2, is_gap=True)
    hold(device.node, train, "train-0", [PLACE], NOW - 3 * DAY, ended_at=NOW - 2 * DAY)
    LedgerState.objects.create(cluster=of, complete_through=NOW - DAY / 2)

    text = page(browser)

    assert re.search(r'class="fill-effective"[^>]*width="14\.286%".*?<text[^>]*>E</text>', text)
    assert re.search(r'class="fill-no_data" fill="url\(#course-hatch\)"', text)
    assert "effective, Fri 12:00 to Sat 12:00, 1 d, Job research/train" in text
    assert "1 d effective" in flat(text)
    assert "12 h not observed" in flat(text)
    assert "complete through 2026-06-01 00:00:00 UTC" in flat(text)


def test_time_before_the_bar_is_cut_off(browser: Client) -> None:
    _, device = recorded(gpu(0))
    stay(device, State.HUNG, NOW - 30 * DAY, NOW - 6 * DAY)

    text = page(browser)

    assert re.search(r'class="fill-hung"[^>]*x="0\.000%"', text)
    assert "23 h hung" in flat(text)  # the bar ends with the hour that runs


def test_without_a_ledger_nothing_is_drawn(browser: Client) -> None:
    polled(seen=snapshot(node(), gpu(0)))

    text = page(browser)

    assert "nothing is final yet" in text
    assert 'class="course"' not in text


def test_xids_that_were_seen_are_told_with_meaning_and_age(browser: Client) -> None:
    seen = (XidSeen(code=79, last_at=ago(minutes=5), count=2), XidSeen(code=9999, last_at=ago(hours=1)))
    polled(seen=snapshot(node(), gpu(0, window=window(xids=seen))))

    text = flat(page(browser))

    assert re.search(r"critical Xid 79 GPU has fallen off the bus ?, seen 5 min ago \(2 times\)", text)
    assert "Xid 9999 not in NVIDIA's catalogue" in text.replace("&#x27;", "'")


def test_a_gauge_that_only_stands_is_not_dated(browser: Client) -> None:
    polled(seen=snapshot(node(), gpu(0, metrics=Metrics(sampled_at=NOW, xid=31), window=window())))

    text = flat(page(browser))

    assert re.search(r"Xid 31 .*The last one since DCGM started; nothing says when", text)


@pytest.mark.parametrize(("xid", "words"), [(0, "None since DCGM started."), (None, "not collected")])
def test_no_xid_and_an_unknown_one_are_told_apart(browser: Client, xid: int | None, words: str) -> None:
    polled(seen=snapshot(node(), gpu(0, metrics=Metrics(sampled_at=NOW, xid=xid))))

    section = re.search(r'aria-labelledby="xids".*?</section>', page(browser), re.DOTALL)
    assert section
    assert words in section[0]


def test_findings_of_the_gpu_stand_apart_from_those_of_its_node(browser: Client) -> None:
    own = finding(
        "GPU101", severity=Severity.CRITICAL, subject=Subject(kind="GPU", name=SLOT), title="Xid 79", nodes=()
    )
    polled(own, finding(title="Node offers 7"), seen=snapshot(node(), gpu(0)))

    text = flat(page(browser))

    assert re.search(r"Findings critical Xid 79 Others that touch its node warning Node offers 7", text)


def test_earlier_holders_of_this_gpu_alone_are_listed_newest_first(browser: Client) -> None:
    of, device = recorded(gpu(0))
    train = workload_row(of)
    hold(device.node, train, "first", [PLACE], NOW - 3 * DAY, ended_at=NOW - 2 * DAY)
    hold(device.node, train, "other", ["00000000:11:00.0"], NOW - 2 * DAY)
    hold(device.node, train, "second", ["x", PLACE], NOW - DAY, ended_at=NOW - DAY / 2, is_backfilled=True)

    text = page(browser)

    assert re.findall(r"<bdi>(first|other|second)</bdi>", text) == ["second", "first"]
    assert "filled in" in text


def test_a_hold_that_lasts_is_listed_however_many_came_since(browser: Client) -> None:
    of, device = recorded(gpu(0, holders=("research/notebook",)))
    row = workload_row(of, "notebook", kind="StatefulSet")
    hold(device.node, row, "notebook", [PLACE], NOW - 30 * DAY)
    for number in range(210):
        hold(device.node, row, f"p{number}", ["x"], NOW - timedelta(hours=number), ended_at=NOW)

    text = page(browser)

    assert "of StatefulSet notebook" in flat(text)


def test_changes_of_this_place_and_of_its_node_are_told(browser: Client) -> None:
    _, device = recorded(gpu(0))
    change(device.node, "GPU replaced", NOW - DAY, SLOT, before="GPU-old", after="GPU-new")
    change(device.node, "driver changed", NOW - 2 * DAY, before="535", after="550")
    change(device.node, "GPU lost", NOW - 3 * DAY, "gpu-1/00000000:11:00.0")

    text = flat(page(browser))

    assert re.search(r"GPU replaced .* GPU-old → GPU-new seen 1 d ago", text)
    assert "535 → 550" in text
    assert "GPU withdrawn" not in text


def test_a_gpu_that_is_gone_keeps_its_page_and_history(browser: Client) -> None:
    of = polled(seen=snapshot(node(), gpu(1)))
    device = device_row(node_row(of), PLACE, last_seen=NOW - 2 * DAY, removed_at=NOW - 2 * DAY)
    hours(device.node, [SLOT], NOW.date() - 3 * DAY)
    stay(device, State.EFFECTIVE, NOW - 4 * DAY, NOW - 2 * DAY)

    text = page(browser, f"{PAGE}?period=7d")

    assert "it was last seen at 2026-05-30 12:00:00 UTC" in flat(text)
    assert "data-figure" in text
    assert 'class="fill-effective"' in text
    assert 'id="now"' not in text


def test_a_gpu_that_nobody_ever_saw_has_no_page(browser: Client) -> None:
    polled(seen=snapshot(node(), gpu(0)))

    assert browser.get("/c/lab/gpus/gpu-1/00000000:99:00.0/").status_code == 404
    assert browser.get("/c/lab/gpus/nonsense/").status_code == 404


def test_a_gpu_of_a_node_that_is_gone_is_gone(browser: Client) -> None:
    of = polled(seen=snapshot(node("gpu-2")))
    device_row(node_row(of), PLACE)

    text = page(browser)

    assert "Gone." in text
    assert "No poll of this cluster" not in text


def test_an_unnamed_place_has_a_page(browser: Client) -> None:
    slot = "gpu-1/nvidia.com/gpu#3"
    polled(seen=snapshot(node(), Gpu(slot=slot, node="gpu-1", state=State.FREE)))

    text = page(browser, reverse("gpu_detail", args=["lab", slot]))

    assert "nvidia.com/gpu#3 on gpu-1" in flat(text)
    assert "UUID unknown" in flat(text)


def test_a_mig_instance_has_a_page_that_says_its_share(browser: Client) -> None:
    slot = f"{SLOT}/mig-7"
    instance = gpu(0, slot=slot, mig_profile="1g.10gb", mig_instance="7", origin=Origin.MIG)
    of = polled(seen=snapshot(node(), instance))
    device_row(node_row(of), f"{PLACE}/mig-7", mig_profile="1g.10gb", parts=1, whole=7)

    text = flat(page(browser, reverse("gpu_detail", args=["lab", slot])))

    assert "GPU 0 1g.10gb on gpu-1" in text
    assert "1g.10gb, 1 of 7 compute slices" in text


def test_sharing_is_told(browser: Client) -> None:
    polled(seen=snapshot(node(), gpu(0, replicas=4)))

    assert "handed out in 4 shares" in flat(page(browser))


def test_a_lost_gpu_says_since_when(browser: Client) -> None:
    of = polled(seen=snapshot(node(), gpu(0, state=State.UNAVAILABLE)))
    device_row(node_row(of), PLACE, lost_at=NOW - timedelta(hours=5))

    assert "not to be given to pods for 5 h" in flat(page(browser))


def test_without_a_poll_it_is_not_called_gone(browser: Client) -> None:
    device_row(node_row(cluster()), PLACE)

    text = page(browser)

    assert "No poll of this cluster has brought anything yet." in text
    assert "Gone." not in text


def test_a_damaged_snapshot_is_named(browser: Client) -> None:
    polled(seen=snapshot(node(), gpu(0)))
    StoredSnapshot.objects.update(data=b"nonsense")

    assert "What the last poll stored cannot be read" in flat(page(browser))


def test_a_damaged_ledger_costs_the_date_alone(browser: Client) -> None:
    of, _ = recorded(gpu(0, state=State.FREE))
    LedgerState.objects.create(cluster=of, complete_through=NOW, data=b"nonsense")

    assert "F free" in flat(page(browser))


def test_time_alone_is_no_change_of_the_live_part(browser: Client) -> None:
    _, device = recorded(gpu(0, state=State.HUNG))
    still(device, State.HUNG, timedelta(hours=3))
    first = browser.get(PAGE, headers=HTMX)

    with time_machine.travel(NOW + timedelta(seconds=90), tick=False):
        again = browser.get(PAGE, headers=HTMX | {"If-None-Match": first["ETag"]})

    assert "data-figure" not in first.content.decode()
    assert again.status_code == 304


@pytest.mark.parametrize("number", [1, 40])
def test_a_gpu_costs_twelve_queries_at_most_however_much_happened(
    browser: Client, number: int, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    of, device = recorded(*(gpu(i, holders=(f"research/p{i}",)) for i in range(8)))
    train = workload_row(of)
    for place in range(number):
        hold(device.node, train, f"p{place}", [PLACE], NOW - place * DAY)
        stay(device, State.FREE, NOW - (place + 1) * timedelta(hours=1), NOW - place * timedelta(hours=1))
        change(device.node, "GPU lost", NOW - place * DAY, SLOT)
    still(device, State.FREE, timedelta(hours=1))

    with django_assert_max_num_queries(12):
        page(browser)

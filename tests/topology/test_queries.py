"""The number of queries depends on what happened, never on the size of the cluster."""

from datetime import timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from diagnostics.models import Allocation, Device, TopologyChange
from tests.builders import container, gpu, node, owner, pod
from tests.topology.timeline import Polls

pytestmark = pytest.mark.django_db

SIZES = [1, 12, 60]
OWN = 2
"""The timeline loads and saves the cluster."""


def fleet(size: int, first: int = 0, **fields: Any) -> list[Any]:
    """`size` nodes with two GPUs each, the first of them held by a Job of its own, and a device plugin."""
    parts: list[Any] = []
    for number in range(first, first + size):
        name = f"gpu-{number}"
        job = pod(f"train-{number}", node=name, root=owner(name=f"train-{number}"))
        plugin = pod(
            f"plugin-{number}",
            gpus=0,
            node=name,
            labels={"app": "nvidia-device-plugin-daemonset"},
            owners=(owner("DaemonSet", "plugin"),),
            containers=(container(gpus=0, restarts=fields.get("restarts", 0)),),
        )
        parts += [
            node(name, gpus=2, boot_id=fields.get("boot_id", "a")),
            job,
            plugin,
            gpu(0, name, holders=(job.key,), uuid=f"{fields.get('uuid', 'GPU')}-{number}"),
            gpu(1, name, is_healthy=fields.get("is_healthy", True)),
        ]
    return parts


@pytest.mark.parametrize("size", SIZES)
def test_a_steady_poll_takes_four_queries(
    size: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    polls = Polls()
    polls.poll(*fleet(size))
    with django_assert_num_queries(OWN + 4):
        polls.poll(*fleet(size))

    assert not TopologyChange.objects.filter(cluster=polls.cluster).exists()


@pytest.mark.parametrize("size", SIZES)
def test_a_poll_that_touches_everything_takes_three_more(
    size: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    polls = Polls()
    polls.poll(*fleet(size))
    with django_assert_num_queries(OWN + 7):
        polls.poll(*fleet(size), after=timedelta(minutes=11))


@pytest.mark.parametrize("size", SIZES)
def test_a_first_poll_inserts_all_at_once(
    size: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    polls = Polls()
    with django_assert_num_queries(OWN + 10):
        polls.poll(*fleet(size))

    assert Device.objects.count() == 2 * size


@pytest.mark.parametrize("size", SIZES)
def test_a_poll_in_which_everything_happens_is_no_longer(
    size: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """Half of the nodes go, as many come; the others reboot, swap a board, lose a GPU, restart a pod."""
    polls = Polls()
    polls.poll(*fleet(2 * size))
    with django_assert_num_queries(OWN + 15):
        polls.poll(
            *fleet(size, boot_id="b", uuid="NEW", is_healthy=False, restarts=1),
            *fleet(size, first=5 * size),
        )

    assert TopologyChange.objects.filter(cluster=polls.cluster).count() == 5 * size
    assert Allocation.objects.filter(ended_at=polls.at).count() == size

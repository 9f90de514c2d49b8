"""One poll per cluster at a time."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from diagnostics.leases import Lease, LeaseLost, confirm, forget
from diagnostics.models import Cluster
from tests.processes import python

pytestmark = pytest.mark.django_db

LONGEST = timedelta(minutes=2)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="prod", identity="uid-prod")


def test_only_one_has_it(cluster: Cluster) -> None:
    with Lease("prod", LONGEST) as first, Lease("prod", LONGEST) as second:
        assert first is not None
        assert second is None


def test_every_cluster_has_its_own(cluster: Cluster) -> None:
    Cluster.objects.create(slug="staging", identity="uid-staging")

    with Lease("prod", LONGEST) as first, Lease("staging", LONGEST) as second:
        assert first
        assert second
        assert first != second


def test_it_is_given_back(cluster: Cluster) -> None:
    with Lease("prod", LONGEST):
        pass
    with Lease("prod", LONGEST) as again:
        assert again is not None


def test_it_is_given_back_after_an_error(cluster: Cluster) -> None:
    with pytest.raises(ZeroDivisionError), Lease("prod", LONGEST):
        raise ZeroDivisionError
    with Lease("prod", LONGEST) as again:
        assert again is not None


def test_who_did_not_get_it_does_not_give_it_back(cluster: Cluster) -> None:
    with Lease("prod", LONGEST) as first:
        with Lease("prod", LONGEST):
            pass
        assert confirm(first or "") == cluster


def test_one_that_expired_is_taken_and_its_old_holder_may_not_write(cluster: Cluster) -> None:
    with Lease("prod", LONGEST) as slow:
        Cluster.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
        with Lease("prod", LONGEST) as quick:
            assert quick is not None
            assert confirm(quick) == cluster
            with pytest.raises(LeaseLost):
                confirm(slow or "")


def test_one_that_expired_and_nobody_took_still_counts(cluster: Cluster) -> None:
    with Lease("prod", LONGEST) as token:
        Cluster.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
        assert confirm(token or "") == cluster


def test_losing_it_ends_the_block_quietly(cluster: Cluster) -> None:
    reached = False
    with Lease("prod", LONGEST):
        confirm("another")
        reached = True

    assert not reached


@pytest.mark.parametrize("token", ["", "f" * 32])
def test_no_other_token_confirms_anything(cluster: Cluster, token: str) -> None:
    with pytest.raises(LeaseLost), transaction.atomic():
        confirm(token)


@pytest.mark.django_db(transaction=True)
def test_of_many_processes_at_once_one_gets_it(cluster: Cluster) -> None:
    code = (
        "import sys\n"
        "from datetime import timedelta\n"
        "from diagnostics.leases import Lease\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "lease = Lease('prod', timedelta(minutes=2))\n"
        "print('yes' if lease.__enter__() else 'no')\n"
    )
    contenders = [python(code) for _ in range(3)]
    for contender in contenders:
        assert contender.stdout is not None
        assert contender.stdout.readline() == "ready\n"
    for contender in contenders:
        assert contender.stdin is not None
        contender.stdin.write("\n")
        contender.stdin.flush()

    answers = [contender.communicate(timeout=30)[0] for contender in contenders]
    assert sorted(answers) == ["no\n", "no\n", "yes\n"]


def test_that_of_a_dead_holder_can_be_taken_away(cluster: Cluster) -> None:
    with Lease("prod", LONGEST) as dead:
        forget("prod")
        with Lease("prod", LONGEST) as next_one:
            assert next_one
        with pytest.raises(LeaseLost):
            confirm(dead or "")

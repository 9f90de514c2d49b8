"""Boards that are cut into instances: what each weighs, and what a new layout changes."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.collect.devices import joined
from diagnostics.models import Device
from diagnostics.snapshot import Node as NodeObject
from diagnostics.snapshot import Past
from diagnostics.topology.slices import alone, compute_slices, side_by_side
from tests.builders import gpu, node
from tests.topology.timeline import Polls, counted, mig_gpus

BOARD = gpu(0).slot
SEVEN = ["1g.10gb"] * 7


def mig_node(**resources: float) -> NodeObject:
    """A node with one board, cut with the strategy `mixed`."""
    amounts = {f"nvidia.com/mig-{profile.replace('_', '.')}": count for profile, count in resources.items()}
    labels = {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": "0"}
    whole = {"nvidia.com/gpu": 0.0}
    return node(gpus=1, labels=labels, capacity=whole | amounts, allocatable=whole | amounts)


def weights(polls: Polls) -> dict[str, tuple[int, int, int]]:
    """Slot without the board -> offset, parts, whole."""
    return {
        slot.removeprefix(BOARD): (row.offset, row.parts, row.whole) for slot, row in polls.live().items()
    }


@pytest.mark.parametrize(
    ("profile", "slices"),
    [("1g.10gb", 1), ("3g.40gb", 3), ("7g.80gb", 7), ("1g.10gb+me", 1), ("1c.3g.40gb", 1), ("?", 1), ("", 1)],
)
def test_a_profile_says_its_compute_slices(profile: str, slices: int) -> None:
    assert compute_slices(profile) == slices


@pytest.mark.parametrize(
    ("model", "whole"),
    [
        ("NVIDIA A30", 4),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 4),
        ("NVIDIA-RTX-PRO-6000-Blackwell", 4),
        ("NVIDIA A100-SXM4-80GB", 7),
        ("NVIDIA H100 80GB HBM3", 7),
        ("", 7),
    ],
)
def test_a_board_has_seven_slices_and_a_small_one_four(model: str, whole: int) -> None:
    assert alone("1g.6gb", model) == (0, 1, whole)


@given(
    st.lists(st.sampled_from(["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb", "x"]), min_size=1),
    st.sampled_from(["NVIDIA A30", "NVIDIA A100-SXM4-40GB"]),
)
def test_instances_and_their_rest_are_the_whole_board(profiles: list[str], model: str) -> None:
    instances, rest = side_by_side(profiles, model)
    all_of_it = [*instances, *([rest] if rest else [])]

    assert sum(Fraction(w.parts, w.whole) for w in all_of_it) == 1
    assert [w.offset for w in all_of_it] == [
        sum(w.parts for w in all_of_it[:i]) for i in range(len(all_of_it))
    ]


@pytest.mark.django_db
class TestLayouts:
    def test_what_no_instance_uses_is_a_device_of_its_own(self) -> None:
        polls = Polls()
        known = polls.poll(mig_node(**{"3g_40gb": 2}), *mig_gpus(0, "3g.40gb", "3g.40gb"))

        assert weights(polls) == {"/mig-1": (0, 3, 7), "/mig-2": (3, 3, 7), "/mig-rest": (6, 1, 7)}
        rest = known.devices[f"{BOARD}/mig-rest"]
        assert (rest.model, rest.uuid) == ("NVIDIA A100-SXM4-80GB", "")
        assert (polls.node().gpus, polls.node().mig_layout) == (1, "2x3g.40gb")

    def test_a_full_board_has_no_rest(self) -> None:
        polls = Polls()
        polls.poll(mig_node(**{"1g_10gb": 7}), *mig_gpus(0, *SEVEN))

        assert weights(polls) == {f"/mig-{i + 1}": (i, 1, 7) for i in range(7)}

    def test_another_layout_is_one_change_and_no_gpu_is_lost(self) -> None:
        polls = Polls()
        polls.poll(node(gpus=1), gpu(0))
        polls.poll(mig_node(**{"1g_10gb": 7}), *mig_gpus(0, *SEVEN))
        polls.poll(mig_node(**{"3g_40gb": 2}), *mig_gpus(0, "3g.40gb", "3g.40gb", first=11))
        polls.poll(node(gpus=1), gpu(0))

        assert polls.changes() == [
            ("MIG layout changed", "gpu-1", "no MIG", "7x1g.10gb"),
            ("MIG layout changed", "gpu-1", "7x1g.10gb", "2x3g.40gb"),
            ("MIG layout changed", "gpu-1", "2x3g.40gb", "no MIG"),
        ]
        assert list(polls.live()) == [BOARD]
        assert Device.objects.filter(removed_at=None, lost_at=None).count() == 1

    def test_a_moment_without_any_device_is_part_of_the_same_change(self) -> None:
        polls = Polls()
        polls.poll(mig_node(**{"1g_10gb": 7}), *mig_gpus(0, *SEVEN))
        polls.poll(mig_node())
        assert polls.live() == {}
        polls.poll(mig_node(**{"3g_40gb": 2}), *mig_gpus(0, "3g.40gb", "3g.40gb", first=11))

        assert polls.changes() == [("MIG layout changed", "gpu-1", "7x1g.10gb", "2x3g.40gb")]

    def test_gpus_that_the_mig_manager_takes_away_are_not_lost(self) -> None:
        polls = Polls()
        pending = node(
            gpus=1, allocatable={"nvidia.com/gpu": 0.0}, labels={"nvidia.com/mig.config.state": "pending"}
        )
        polls.poll(node(gpus=1), gpu(0))
        polls.poll(pending, *joined((pending,), (), [], Past()))
        polls.poll(mig_node(**{"1g_10gb": 7}), *mig_gpus(0, *SEVEN))

        assert polls.kinds() == ["MIG layout changed"]

    def test_instances_that_stay_keep_their_slices(self) -> None:
        polls = Polls()
        two, three = mig_gpus(0, "2g.20gb", "3g.40gb")
        polls.poll(mig_node(**{"2g_20gb": 1, "3g_40gb": 1}), two, three)
        polls.poll(mig_node(**{"2g_20gb": 1}), two)
        polls.poll(mig_node(**{"2g_20gb": 1, "1g_10gb": 1}), *mig_gpus(0, "1g.10gb", first=0), two)

        assert weights(polls) == {"/mig-1": (0, 2, 7), "/mig-0": (2, 1, 7), "/mig-rest": (3, 4, 7)}
        rest = Device.objects.filter(slot=f"{BOARD}/mig-rest")
        assert rest.count() == 1

    def test_a_rest_comes_back_as_the_same_row(self) -> None:
        polls = Polls()
        slot = f"{BOARD}/mig-rest"
        first = polls.poll(mig_node(**{"3g_40gb": 1}), *mig_gpus(0, "3g.40gb")).devices[slot]
        full = polls.poll(mig_node(**{"7g_80gb": 1}), *mig_gpus(0, "7g.80gb"))
        assert slot not in full.devices
        again = polls.poll(mig_node(**{"3g_40gb": 1}), *mig_gpus(0, "3g.40gb")).devices[slot]

        assert again.pk == first.pk

    def test_silent_instances_keep_their_names_and_weights(self) -> None:
        polls = Polls()
        cut = mig_node(**{"3g_40gb": 2})
        before = polls.poll(cut, *mig_gpus(0, "3g.40gb", "3g.40gb"))
        silent = polls.poll(cut, *counted(cut))
        polls.poll(cut, *mig_gpus(0, "3g.40gb", "3g.40gb"))

        assert polls.changes() == []
        assert {row.pk for row in silent.devices.values()} == {row.pk for row in before.devices.values()}
        assert weights(polls) == {"/mig-1": (0, 3, 7), "/mig-2": (3, 3, 7), "/mig-rest": (6, 1, 7)}

    def test_unnamed_instances_weigh_their_slices_of_an_unknown_board(self) -> None:
        polls = Polls()
        cut = mig_node(**{"3g_40gb": 2, "1g_10gb": 1})
        known = polls.poll(cut, *counted(cut))

        assert {
            slot.rpartition("/")[2]: (d.offset, d.parts, d.whole) for slot, d in known.devices.items()
        } == {
            "mig-3g.40gb#0": (0, 3, 7),
            "mig-3g.40gb#1": (0, 3, 7),
            "mig-1g.10gb#0": (0, 1, 7),
        }
        assert polls.node().gpus == 1

    def test_the_single_strategy_cuts_under_the_plain_resource(self) -> None:
        labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "nvidia.com/gpu.count": "7"}
        cut = node(gpus=7, labels=labels)
        polls = Polls()
        plain = node(gpus=1)
        polls.poll(plain, *counted(plain))
        unnamed = polls.poll(cut, *counted(cut))
        polls.poll(cut, *mig_gpus(0, *SEVEN, resource="nvidia.com/gpu"))

        assert polls.changes() == [("MIG layout changed", "gpu-1", "no MIG", "7x1g.10gb")]
        assert {(d.parts, d.whole) for d in unnamed.devices.values()} == {(1, 7)}
        assert weights(polls) == {f"/mig-{i + 1}": (i, 1, 7) for i in range(7)}

    def test_a_lost_board_is_one_loss_whatever_it_was_cut_into(self) -> None:
        polls = Polls()
        cut = mig_node(**{"1g_10gb": 14})
        boards = (*mig_gpus(0, *SEVEN), *mig_gpus(1, *SEVEN))
        sick = (*mig_gpus(0, *SEVEN), *mig_gpus(1, *SEVEN, is_healthy=False))
        polls.poll(cut, *boards)
        polls.poll(cut, *sick)
        polls.poll(cut, *boards)
        polls.poll(cut, *mig_gpus(0, *SEVEN))

        other = gpu(1).slot
        assert polls.changes() == [
            ("GPU lost", other, "GPU-gpu-1-1", ""),
            ("GPU found", other, "", "GPU-gpu-1-1"),
            ("GPU count changed", "gpu-1", "2", "1"),
            ("GPU lost", other, "GPU-gpu-1-1", ""),
        ]

    def test_a_swapped_board_is_one_replacement_whatever_it_was_cut_into(self) -> None:
        polls = Polls()
        cut = mig_node(**{"1g_10gb": 7})
        polls.poll(cut, *mig_gpus(0, *SEVEN))
        polls.poll(cut, *mig_gpus(0, *SEVEN, uuid="GPU-new"))

        assert polls.changes() == [("GPU replaced", BOARD, "GPU-gpu-1-0", "GPU-new")]

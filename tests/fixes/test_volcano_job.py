"""Steps that change a Volcano Job: its tasks have no map key, so that no patch of one leaves the others alone."""

import pytest

from diagnostics.fixes import Step
from diagnostics.rules.scheduling.board import Reading
from diagnostics.rules.scheduling.owner_patch import change, in_words, patch_of_owner
from diagnostics.rules.scheduling.reach_steps import taint
from diagnostics.rules.scheduling.shortage_steps import larger
from diagnostics.snapshot import OwnerKey, Taint
from tests.builders import pod

VOLCANO = OwnerKey("Job", "ml", "train", "batch.volcano.sh/v1alpha1")
TASK = {"volcano.sh/task-spec": "worker"}
READING = Reading("taint", "", taints=(Taint("pool", "ml", "NoSchedule"),))


def steps_with_lines(root: OwnerKey) -> list[Step]:
    one = pod("train-worker-0", "ml", gpus=4, root=root, labels=TASK)
    return [
        change(one, "Loosen it", "Why.", {"nodeSelector": {"pool": None}}, "Room."),
        taint(one, READING)[-1],
        larger(one, READING)[-1],
    ]


def test_says_in_words_which_task_gets_which_lines_and_gives_nothing_to_apply() -> None:
    for step in steps_with_lines(VOLCANO):
        assert step.manifest == ""
        assert 'in spec.tasks, template.spec of task "worker"' in step.why
        assert "lines below" not in step.why
    assert '(null: remove the field): {"nodeSelector":{"pool":null}}.' in steps_with_lines(VOLCANO)[0].why


@pytest.mark.parametrize("api_version", ["", "batch/v1"])
def test_any_other_job_keeps_its_manifest(api_version: str) -> None:
    for step in steps_with_lines(OwnerKey("Job", "ml", "train", api_version)):
        assert "template:" in step.manifest
        assert "spec.tasks" not in step.why


def test_a_pod_that_does_not_say_its_task_has_it_named_by_nobody() -> None:
    one = pod("train-worker-0", "ml", root=VOLCANO)
    assert patch_of_owner(one, {"nodeSelector": None}) == ""
    assert "of the task that makes this pod" in in_words(one, {"nodeSelector": None})

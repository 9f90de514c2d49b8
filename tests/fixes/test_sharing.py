"""MIG, MPS and time-slicing: each set up on one node, with what it isolates, in names that the node really has."""

import json
import shlex
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.fixes import Risk, Step, StepKind
from diagnostics.fixes.sharing import cut, divided, larger_slice, mps, offering, time_slicing
from diagnostics.mig_profiles import smallest_for, supported
from diagnostics.snapshot import Node, OperatorResource, Pod, Snapshot
from tests.builders import node, pod, snapshot

MANAGER = pod("nvidia-mig-manager-x", "gpu-operator", 0, labels={"app": "nvidia-mig-manager"})
PLUGIN = pod("nvidia-device-plugin-x", "operators", 0, labels={"app": "nvidia-device-plugin-daemonset"})
names = st.text(min_size=1, max_size=60).filter(lambda s: "\x00" not in s)


def policy(**settings: str) -> OperatorResource:
    dotted = {key.replace("__", "."): value for key, value in settings.items()}
    return OperatorResource(kind="ClusterPolicy", name="cluster-policy", settings=dotted)


def cluster(*parts: Any, **settings: str) -> Snapshot:
    return snapshot(*parts, operator_resources=(policy(**settings),))


def shared_node(shares: int, product: str = "NVIDIA-L40S", **labels: str) -> Node:
    own = {"nvidia.com/gpu.product": f"{product}-SHARED", "nvidia.com/gpu.replicas": str(shares)}
    return node(labels=own | {k.replace("__", "."): v for k, v in labels.items()})


def labelled(steps: tuple[Step, ...]) -> list[str]:
    """What node labels are set to."""
    words = [shlex.split(step.command) for step in steps if step.command]
    return [word for line in words if line[1:3] == ["label", "node"] for word in line if "=" in word]


def config_of(steps: tuple[Step, ...]) -> tuple[str, Any]:
    """The entry that is written, parsed, with its key, from a ConfigMap or from a patch of one."""
    for step in steps:
        words = shlex.split(step.command)
        if step.manifest:
            data = yaml.safe_load(step.manifest)["data"]
        elif words[1:3] == ["patch", "configmap"]:
            data = json.loads(words[words.index("-p") + 1])["data"]
        else:
            continue
        (key,) = set(data) - {"default"}
        return key, yaml.safe_load(data[key])
    raise AssertionError("no configuration is written")


def test_time_slicing_is_a_configuration_of_the_plugin_that_the_nodes_label_selects() -> None:
    steps = time_slicing(node(), "nvidia.com/gpu", 4, cluster())
    key, config = config_of(steps)
    assert config == {
        "version": "v1",
        "sharing": {
            "timeSlicing": {
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
            }
        },
    }
    assert labelled(steps) == [f"nvidia.com/device-plugin.config={key}"]


def test_mps_has_no_setting_that_it_does_not_know_and_is_for_whole_gpus() -> None:
    _, config = config_of(mps(node(), 4, cluster()))
    assert config["sharing"] == {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}


def test_a_slice_can_be_time_sliced_and_nothing_unknown_can() -> None:
    _, config = config_of(time_slicing(node(), "nvidia.com/mig-1g.10gb", 2, cluster()))
    assert config["sharing"]["timeSlicing"]["resources"] == [
        {"name": "nvidia.com/mig-1g.10gb", "replicas": 2}
    ]
    for name in ("amd.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb.me", "x"):
        assert time_slicing(node(), name, 2, cluster()) == ()


def test_a_configmap_that_the_plugin_has_is_added_to_and_not_replaced() -> None:
    steps = time_slicing(
        node(), "nvidia.com/gpu", 2, cluster(PLUGIN, devicePlugin__config__name="plugin-conf")
    )
    words = next(w for s in steps if (w := shlex.split(s.command))[1] == "patch")
    assert words[:6] == ["kubectl", "patch", "configmap", "-n", "operators", "--type=merge"]
    assert words[-1] == "plugin-conf"
    assert "clusterpolicies" not in str(steps)


def test_a_new_configmap_leaves_the_nodes_without_the_label_as_they_are() -> None:
    steps = time_slicing(node(), "nvidia.com/gpu", 2, cluster(PLUGIN))
    document = next(yaml.safe_load(s.manifest) for s in steps if s.manifest)
    assert document["metadata"]["namespace"] == "operators"
    assert yaml.safe_load(document["data"]["default"]) == {"version": "v1"}
    naming = next(s for s in steps if "clusterpolicies" in s.command)
    named = shlex.split(naming.command)
    body = json.loads(named[named.index("-p") + 1])
    assert body == {
        "spec": {"devicePlugin": {"config": {"name": document["metadata"]["name"], "default": ""}}}
    }
    assert naming.risk is Risk.DISRUPTIVE


def test_without_the_operator_the_plugins_own_chart_is_named() -> None:
    steps = time_slicing(node(), "nvidia.com/gpu", 2, snapshot(PLUGIN))
    (naming,) = (s for s in steps if "config.name" in s.why)
    assert naming.command == ""


def test_a_plugin_that_a_cloud_runs_is_told_by_the_node_pool() -> None:
    gke = node(labels={"cloud.google.com/gke-accelerator": "nvidia-l4"})
    (step,) = time_slicing(gke, "nvidia.com/gpu", 4, snapshot(gke))
    assert step.kind is StepKind.ESCALATE
    assert "gpu-sharing-strategy=time-sharing, max-shared-clients-per-gpu=4" in step.why


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (time_slicing(node(), "nvidia.com/gpu", 2, cluster()), ("isolates nothing", "no more compute")),
        (mps(node(), 2, cluster()), ("equal part", "but not its faults")),
        (cut(node(), "1g.10gb", snapshot(MANAGER)), ("keeps faults apart", "nothing uses")),
    ],
)
def test_each_says_what_it_isolates_and_what_not(steps: tuple[Step, ...], words: tuple[str, ...]) -> None:
    assert all(word in " ".join(step.why for step in steps) for word in words)


def test_a_layout_is_one_that_the_model_has_and_the_table_is_shown() -> None:
    steps = cut(node(), "3g.40gb", snapshot(MANAGER))
    assert labelled(steps) == ["nvidia.com/mig.config=all-3g.40gb"]
    assert "1g.10gb (7 per GPU)" in str(steps)
    assert cut(node(), "1g.5gb", snapshot(MANAGER)) == ()


def test_a_change_waits_until_nothing_holds_a_gpu_and_deletes_nothing_for_it() -> None:
    holder = pod("train-0")
    steps = cut(node(), "1g.10gb", snapshot(MANAGER, holder))
    assert [shlex.split(s.command)[1] for s in steps] == ["get", "cordon", "label", "uncordon"]
    assert "research/train-0" in steps[0].why
    assert steps[-1].kind is StepKind.RESTORE


def test_a_node_that_was_cordoned_stays_so() -> None:
    steps = cut(node(unschedulable=True), "1g.10gb", snapshot(MANAGER))
    assert [shlex.split(s.command)[1] for s in steps] == ["get", "label"]


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        ("mixed", "7 instances per GPU as nvidia.com/mig-1g.10gb."),
        ("single", "nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"),
        ("", "Under none it offers none"),
    ],
)
def test_the_name_of_what_is_offered_follows_the_strategy(strategy: str, told: str) -> None:
    one = node(labels={"nvidia.com/mig.strategy": strategy} if strategy else {})
    assert told in next(s for s in cut(one, "1g.10gb", snapshot(MANAGER)) if "MIG" in s.why).expect


def test_without_a_mig_manager_no_label_is_promised_to_help() -> None:
    (step,) = cut(node(), "1g.10gb", snapshot())
    assert (step.kind, step.command) == (StepKind.ESCALATE, "")
    assert labelled(cut(node(), "1g.10gb", cluster(migManager__enabled="true")))


def test_a_slice_that_no_node_offers_is_cut_on_the_emptiest_node_whose_model_has_it() -> None:
    old = node("a-t4", labels={"nvidia.com/gpu.product": "Tesla-T4"})
    busy, idle = node("b-busy"), node("c-idle")
    steps = offering("nvidia.com/mig-1g.10gb", snapshot(old, busy, idle, MANAGER, pod(node="b-busy")))
    assert "kubectl label node --overwrite c-idle nvidia.com/mig.config=all-1g.10gb" in [
        s.command for s in steps
    ]


def test_a_slice_that_no_model_here_has_is_said_to_be_so() -> None:
    (step,) = offering("nvidia.com/mig-1g.5gb", snapshot(node(), MANAGER))
    assert step.kind is StepKind.ESCALATE
    assert "NVIDIA-A100-SXM4-80GB has 1g.10gb" in step.why


def test_a_shared_name_that_no_node_offers_is_made_by_renaming() -> None:
    steps = offering("nvidia.com/gpu.shared", cluster(node()))
    key, config = config_of(steps)
    assert config["sharing"]["timeSlicing"]["renameByDefault"] is True
    assert labelled(steps) == [f"nvidia.com/device-plugin.config={key}"]


@pytest.mark.parametrize("name", ["amd.com/gpu", "nvidia.com/gpu", "nvidia.com/a100", "nvidia.com/mig-x"])
def test_any_other_resource_has_no_such_way(name: str) -> None:
    assert offering(name, cluster(node(), MANAGER)) == ()


def test_memory_that_time_slicing_does_not_divide_is_divided_by_mig_where_the_model_has_it() -> None:
    one = shared_node(4, "NVIDIA-A100-SXM4-80GB", **{"nvidia.com/device-plugin.config": "four"})
    steps = divided(one, snapshot(one, MANAGER))
    assert labelled(steps) == ["nvidia.com/mig.config=all-1g.20gb"]
    assert "kubectl label node gpu-1 nvidia.com/device-plugin.config-" in [s.command for s in steps]


def test_it_is_divided_by_mps_on_a_model_without_mig() -> None:
    one = shared_node(4)
    key, config = config_of(divided(one, cluster(one)))
    assert (key, config["sharing"]["mps"]["resources"][0]["replicas"]) == ("mps-4", 4)


@pytest.mark.parametrize(
    "one",
    [
        node(),
        shared_node(4, **{"nvidia.com/gpu.sharing-strategy": "mps"}),
        shared_node(2, "Tesla-P40", **{"nvidia.com/gpu.compute.major": "6"}),
        shared_node(2, "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"),
        shared_node(9, "NVIDIA-L40S", **{"nvidia.com/gpu.sharing-strategy": "mps"}),
    ],
    ids=["unshared", "mps already", "before Volta", "cut already", "many"],
)
def test_what_is_divided_or_cannot_be_is_left_alone(one: Node) -> None:
    assert divided(one, cluster(one)) == ()


def test_a_slice_that_is_too_small_has_a_larger_layout_unless_one_is_offered() -> None:
    one = node()
    assert labelled(larger_slice(one, "1g.10gb", snapshot(one, MANAGER))) == [
        "nvidia.com/mig.config=all-1g.20gb"
    ]
    other = node("gpu-2", allocatable={"nvidia.com/mig-3g.40gb": 2.0})
    assert larger_slice(one, "1g.10gb", snapshot(one, other, MANAGER)) == ()
    assert larger_slice(one, "7g.80gb", snapshot(one, MANAGER)) == ()


def test_the_smallest_profile_that_is_enough_is_found() -> None:
    assert smallest_for("NVIDIA-A100-SXM4-80GB", 8) == "1g.10gb"
    assert smallest_for("NVIDIA-A100-SXM4-80GB", 15) == "1g.20gb"
    assert smallest_for("NVIDIA-A100-SXM4-80GB", 90) is None
    assert smallest_for("Tesla-T4", 1) is None


@pytest.mark.parametrize(
    ("product", "profile", "most"),
    [
        ("NVIDIA-A30", "1g.6gb", 4),
        ("NVIDIA-A100-SXM4-40GB", "1g.5gb", 7),
        ("NVIDIA-H100-80GB-HBM3", "1g.20gb", 4),
        ("NVIDIA-H100-NVL", "3g.47gb", 2),
        ("NVIDIA-H200", "1g.18gb", 7),
        ("NVIDIA-GH200-144G-HBM3e", "1g.36gb", 4),
        ("NVIDIA-B200", "2g.45gb", 3),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "2g.48gb", 2),
    ],
)
def test_the_table_has_the_profiles_of_each_model(product: str, profile: str, most: int) -> None:
    assert (supported(product) or {})[profile] == most


def test_repairs_come_by_what_they_risk() -> None:
    one = shared_node(4, "NVIDIA-A100-SXM4-80GB", **{"nvidia.com/device-plugin.config": "four"})
    for steps in (
        divided(one, snapshot(one, MANAGER)),
        mps(node(), 2, cluster()),
        mps(node(), 2, snapshot()),
    ):
        ranks = [s.risk.rank for s in steps if s.kind is StepKind.FIX]
        assert ranks == sorted(ranks)


@given(names, names)
def test_names_come_back_whole_from_every_command_and_manifest(name: str, other: str) -> None:
    one = node(name)
    held: Pod = pod(other, other, node=name)
    plugin = pod("plugin", other, 0, labels={"app": "nvidia-device-plugin-daemonset"})
    whole = cluster(one, held, plugin, MANAGER)
    steps = [*cut(one, "1g.10gb", whole), *time_slicing(one, "nvidia.com/gpu", 2, whole), *mps(one, 2, whole)]
    for step in steps:
        words = shlex.split(step.command)
        if words[1:3] == ["label", "node"] or words[1:2] in (["cordon"], ["uncordon"]):
            assert name in words
        if words[1:2] == ["get"]:
            assert any(word.startswith(f"spec.nodeName={name},") for word in words)
        if step.manifest:
            assert yaml.safe_load(step.manifest)["metadata"]["namespace"] == other

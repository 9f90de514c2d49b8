"""ClusterPolicy and NVIDIADriver: read where they are served, their state and a few settings; absent is no lack."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from diagnostics.collect.kube_api import read_cluster
from diagnostics.collect.kube_client import connect
from diagnostics.collect.readings import ClusterObjects
from diagnostics.collect.target import Target
from diagnostics.collect.wire.gpu_operator import OperatorResourceConverter, OperatorResourceWire
from diagnostics.snapshot import OperatorResource, Source, SourceState
from tests.fakes.replay import Replay
from tests.fakes.web import Reply

Serve = Callable[[str], Replay]
MakeTarget = Callable[..., Target]
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"


def read(target: Target) -> ClusterObjects:
    with connect(target) as connection:
        return read_cluster(connection, target)


def converted(**fields: Any) -> OperatorResource:
    body = msgspec.json.encode({"metadata": {"name": "cluster-policy"}} | fields)
    wire = msgspec.json.decode(body, type=OperatorResourceWire)
    return OperatorResourceConverter("ClusterPolicy", "nvidia.com/v1")(wire)


def test_reads_a_recorded_policy_that_is_not_ready(replay: Serve, target: MakeTarget) -> None:
    (policy,) = read(target(replay("gpu-operator"))).operator_resources
    assert (policy.kind, policy.name, policy.state) == ("ClusterPolicy", "cluster-policy", "notReady")
    ready = policy.condition("Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "OperandNotReady")
    assert policy.settings["driver.version"] == "550.90.07"
    assert policy.settings["driver.usePrecompiled"] == "false"


def test_a_cluster_without_the_operator_lacks_nothing(replay: Serve, target: MakeTarget) -> None:
    objects = read(target(replay("healthy")))
    assert objects.operator_resources == ()
    (custom,) = [status for status in objects.statuses if status.name is Source.CUSTOM]
    assert custom.state is SourceState.ABSENT
    assert "GPU Operator" in custom.detail


def test_a_policy_that_may_not_be_read_is_told(replay: Serve, target: MakeTarget) -> None:
    served = replay("gpu-operator")
    served.fault(POLICIES, Reply(b'{"message":"no policies for you"}', 403))
    objects = read(target(served))
    (custom,) = [status for status in objects.statuses if status.name is Source.CUSTOM]
    assert custom.state in {SourceState.FORBIDDEN, SourceState.PARTIAL}
    assert "no policies for you" in custom.detail


def test_keeps_no_more_of_the_specification_than_a_few_settings() -> None:
    driver = {
        "version": "580.95.05",
        "env": [{"name": "TOKEN", "value": "s3cret"}],
        "imagePullSecrets": ["x"],
    }
    policy = converted(spec={"driver": driver, "toolkit": {"enabled": True}})
    assert policy.settings == {"driver.version": "580.95.05", "toolkit.enabled": "true"}


@pytest.mark.parametrize(
    "spec", [None, {}, {"driver": None}, {"driver": "odd"}, {"driver": {"version": ["x"]}}]
)
def test_survives_a_specification_of_another_shape(spec: Any) -> None:
    assert converted(spec=spec).settings == {}


def test_one_that_the_operator_has_not_seen_has_no_state() -> None:
    assert converted().state == ""

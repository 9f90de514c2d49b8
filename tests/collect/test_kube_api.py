"""Whole passes over recorded clusters: what is read, what is refused, and that nothing but GET is asked."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from diagnostics.collect.kube_api import KUBERNETES_SOURCES, read_cluster, unread_cluster
from diagnostics.collect.kube_client import connect
from diagnostics.collect.readings import ClusterObjects
from diagnostics.collect.refusal import failed
from diagnostics.collect.target import Target
from diagnostics.snapshot import Source, SourceState, SourceStatus
from tests.fakes.replay import NOT_FOUND, Replay, recorded_error
from tests.fakes.web import Asked, Reply

PODS = "/api/v1/pods"
Serve = Callable[[str], Replay]
MakeTarget = Callable[..., Target]


def read(target: Target) -> ClusterObjects:
    with connect(target) as connection:
        return read_cluster(connection, target)


def status(objects: ClusterObjects, source: Source) -> SourceStatus:
    return next(one for one in objects.statuses if one.name is source)


@pytest.mark.parametrize(
    ("scenario", "nodes", "pods", "events", "workloads"),
    [
        ("scattered", 8, 26, 129, 3),
        ("partial-gang", 4, 9, 46, 3),
        ("zombies", 4, 14, 78, 4),
        ("gpu-operator", 11, 78, 374, 10),
        ("oom-inference", 3, 4, 35, 6),
        ("pending", 8, 28, 100, 3),
        ("healthy", 8, 14, 80, 5),
    ],
)
def test_reads_every_object_of_a_recorded_cluster(
    scenario: str, nodes: int, pods: int, events: int, workloads: int, replay: Serve, target: MakeTarget
) -> None:
    served = replay(scenario)
    objects = read(target(served, page_size=7))
    states = {one.name: one.state for one in objects.statuses}
    # The others serve none of the custom kinds.
    custom = SourceState.OK if scenario == "gpu-operator" else SourceState.ABSENT
    assert states.pop(Source.CUSTOM) is custom
    assert states == dict.fromkeys(
        [source for source in KUBERNETES_SOURCES if source is not Source.CUSTOM],
        SourceState.OK,
    )
    assert (len(objects.nodes), len(objects.pods)) == (nodes, pods)
    assert (len(objects.events), len(objects.workloads)) == (events, workloads)
    assert len({pod.key for pod in objects.pods}) == pods, "no page is read twice"
    assert objects.server_version == "v1.36.2"
    assert len(objects.cluster_id) == 36
    assert {asked.method for asked in served.asked} == {"GET"}


def test_notes_items_time_and_duration_of_a_source(replay: Serve, target: MakeTarget) -> None:
    pods = status(read(target(replay("healthy"))), Source.PODS)
    assert pods.items == 14
    assert pods.seconds is not None
    assert pods.read_at is not None
    assert pods.detail == ""


def test_a_viewer_sees_all_but_nodes(replay: Serve, target: MakeTarget) -> None:
    objects = read(target(replay("healthy/as-viewer")))
    nodes = status(objects, Source.NODES)
    assert nodes.state is SourceState.FORBIDDEN
    assert 'User "lab-viewer" cannot list resource "nodes"' in nodes.detail
    assert nodes.items is None
    whole = {one.name for one in objects.statuses if one.state is SourceState.OK}
    in_part = {Source.STORAGE, Source.POLICY, Source.CUSTOM, Source.CLAIMS}
    assert whole == {*KUBERNETES_SOURCES} - {Source.NODES} - in_part
    assert "without resourceslices and deviceclasses" in status(objects, Source.CLAIMS).detail
    assert len(objects.pods) == 14


@pytest.mark.parametrize(
    ("user", "words"), [("as-tenant", "is forbidden"), ("as-badtoken", "does not accept these credentials")]
)
def test_a_user_without_rights_is_told_so_for_each_source(
    user: str, words: str, replay: Serve, target: MakeTarget
) -> None:
    objects = read(target(replay(f"healthy/{user}")))
    # Kinds that the cluster does not serve are no matter of rights.
    told = [one for one in objects.statuses if one.state is not SourceState.ABSENT]
    assert len(told) >= 6
    assert {one.state for one in told} == {SourceState.FORBIDDEN}
    assert all(words in one.detail for one in told)
    assert objects.cluster_id == ""
    assert not objects.pods
    assert not objects.nodes


def test_a_cluster_that_cannot_be_connected_to_has_a_status_for_each_source() -> None:
    objects = unread_cluster(failed("there is no kubeconfig at /x"))
    assert tuple(one.name for one in objects.statuses) == KUBERNETES_SOURCES
    assert {one.detail for one in objects.statuses} == {"there is no kubeconfig at /x"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>sign in</html>", "not valid JSON"),
        (b'{"kind":"PodList","items":[{"metadata":', "not valid JSON"),
        (b"", "not valid JSON"),
        (b'{"kind":"Status","status":"Success"}', "not a list"),
        (b'{"items": {"a": 1}}', "not a list"),
        (b'{"items": 5}', "not a list"),
        (b"[]", "not a list"),
        (b"\xff\xfe\x00", "not valid JSON"),
    ],
)
def test_a_garbage_answer_fails_its_source_only(
    body: bytes, words: str, replay: Serve, target: MakeTarget
) -> None:
    served = replay("healthy")
    served.fault(PODS, Reply(body))
    objects = read(target(served))
    pods = status(objects, Source.PODS)
    assert pods.state is SourceState.FAILED
    assert words in pods.detail
    assert len(objects.nodes) == 8
    others = {one.state for one in objects.statuses if one.name not in {Source.PODS, Source.CUSTOM}}
    assert others == {SourceState.OK}


def test_an_empty_list_may_be_null(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(PODS, Reply(b'{"kind":"PodList","metadata":{},"items":null}'))
    pods = status(read(target(served)), Source.PODS)
    assert (pods.state, pods.items) == (SourceState.OK, 0)


def test_skips_a_malformed_item_and_counts_it_by_reason(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")

    def spoil(pods: Any) -> None:
        del pods["items"][0]["spec"]
        pods["items"][1]["status"]["containerStatuses"] = "none"
        pods["items"][2]["metadata"]["name"] = 5
        del pods["items"][3]["spec"]
        pods["items"][4]["status"] = None

    served.edits[PODS] = spoil
    objects = read(target(served))
    pods = status(objects, Source.PODS)
    assert pods.state is SourceState.PARTIAL
    assert pods.items == len(objects.pods) == 9
    assert sum(skip.count for skip in pods.skipped) == 5
    most = pods.skipped[0]
    assert (most.count, most.example) == (2, "batch/big-etl")
    assert "spec" in most.reason
    assert "5 objects could not be read" in pods.detail


def test_fails_a_source_of_which_no_item_can_be_read(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.edits["/api/v1/nodes"] = lambda nodes: nodes.update(items=[1, None, "x", {}, {"metadata": {}}])
    nodes = status(read(target(served)), Source.NODES)
    assert nodes.state is SourceState.FAILED
    assert "none of 5 objects could be read" in nodes.detail


def test_a_time_without_a_zone_is_not_guessed(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")

    def spoil(pods: Any) -> None:
        pods["items"][0]["metadata"]["creationTimestamp"] = "2026-11-30T09:10:48"

    served.edits[PODS] = spoil
    assert status(read(target(served)), Source.PODS).skipped[0].count == 1


def test_a_hostile_name_is_read_and_stays_unprinted(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    hostile = "<script>\x1b[2J'; rm -rf /\n"

    def rename(pods: Any) -> None:
        pods["items"][0]["metadata"]["name"] = hostile
        pods["items"][1]["metadata"]["name"] = hostile
        pods["items"][1]["spec"] = 5

    served.edits[PODS] = rename
    objects = read(target(served))
    assert objects.pods[0].name == hostile
    example = status(objects, Source.PODS).skipped[0].example
    assert "\x1b" not in example
    assert "\n" not in example


def test_an_expired_continue_token_starts_the_list_again(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    gone = Reply(recorded_error("410_continue_too_old.json"), 410)
    served.fault(PODS, gone, times=1, when=lambda asked: "continue" in asked.query)
    objects = read(target(served, page_size=4))
    assert status(objects, Source.PODS).state is SourceState.OK
    assert len({pod.key for pod in objects.pods}) == len(objects.pods) == 14


def test_a_list_that_never_ends_in_time_is_given_up(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    gone = Reply(recorded_error("410_continue_too_old.json"), 410)
    served.fault(PODS, gone, when=lambda asked: "continue" in asked.query)
    objects = read(target(served, page_size=4))
    pods = status(objects, Source.PODS)
    assert pods.state is SourceState.FAILED
    assert "broke off after 4 objects" in pods.detail
    assert not objects.pods, "half of the pods would make the other half look lost"
    assert sum(asked.path == PODS for asked in served.asked) == 6


def test_keeps_the_events_of_a_list_that_broke_off(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(
        "/apis/events.k8s.io/v1/events", Reply(b"", 500), when=lambda asked: "continue" in asked.query
    )
    objects = read(target(served, page_size=10))
    assert status(objects, Source.EVENTS).state is SourceState.PARTIAL
    assert len(objects.events) == 10


def test_a_list_in_circles_is_given_up(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(PODS, Reply(b'{"metadata":{"continue":"again"},"items":[]}'))
    assert "in circles" in status(read(target(served)), Source.PODS).detail


def test_waits_out_a_429_within_a_list(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    busy = Reply(b"", 429, headers={"Retry-After": "0"})
    served.fault(PODS, busy, times=2, when=lambda asked: "continue" in asked.query)
    objects = read(target(served, page_size=5))
    assert len(objects.pods) == 14


@pytest.mark.parametrize("code", [403, 404, 500])
def test_missing_controllers_make_workloads_partial(code: int, replay: Serve, target: MakeTarget) -> None:
    served = replay("gpu-operator")
    served.fault("/apis/apps/v1/daemonsets", Reply(b'{"message":"no daemonsets for you"}', code))
    objects = read(target(served))
    workloads = status(objects, Source.WORKLOADS)
    assert workloads.state is SourceState.PARTIAL
    assert workloads.detail.startswith("without daemonsets: ")
    assert "no daemonsets for you" in workloads.detail
    assert {one.kind for one in objects.workloads} == {"Deployment", "ReplicaSet"}


class TestDiscovery:
    def asked(self, served: Replay) -> set[str]:
        return {asked.path for asked in served.asked}

    def test_reads_each_list_in_the_version_that_is_served(self, replay: Serve, target: MakeTarget) -> None:
        served = replay("healthy")
        objects = read(target(served))
        assert {(api.kind, api.api_version) for api in objects.apis} >= {
            ("Event", "events.k8s.io/v1"),
            ("CronJob", "batch/v1"),
            ("Pod", "v1"),
        }
        assert "/api/v1/events" not in self.asked(served)

    def test_reads_the_events_of_an_old_cluster(self, replay: Serve, target: MakeTarget) -> None:
        served = replay("healthy")

        def drop(groups: Any) -> None:
            groups["groups"] = [one for one in groups["groups"] if one["name"] != "events.k8s.io"]

        served.edits["/apis"] = drop
        objects = read(target(served))
        assert "/apis/events.k8s.io/v1/events" not in self.asked(served)
        assert ("Event", "v1") in {(api.kind, api.api_version) for api in objects.apis}
        assert len(objects.events) == 80

    def test_takes_the_other_events_where_one_is_forbidden(self, replay: Serve, target: MakeTarget) -> None:
        served = replay("healthy")
        served.fault("/apis/events.k8s.io/v1/events", Reply(recorded_error("403_no_token.json"), 403))
        objects = read(target(served))
        assert status(objects, Source.EVENTS).state is SourceState.OK
        assert len(objects.events) == 80

    def test_both_event_apis_give_the_same_events(self, replay: Serve, target: MakeTarget) -> None:
        new, old = replay("pending"), replay("pending")
        old.fault("/apis/events.k8s.io/v1/events", Reply(recorded_error("403_no_token.json"), 403))
        key: Callable[[Any], str] = repr
        assert sorted(read(target(new)).events, key=key) == sorted(read(target(old)).events, key=key)

    def test_reads_cron_jobs_in_the_old_version(self, replay: Serve, target: MakeTarget) -> None:
        served = replay("healthy")

        def only_beta(groups: Any) -> None:
            batch = next(one for one in groups["groups"] if one["name"] == "batch")
            batch["versions"].append({"groupVersion": "batch/v1beta1", "version": "v1beta1"})

        def without_cron_jobs(listed: Any) -> None:
            listed["resources"] = [one for one in listed["resources"] if one["name"] == "jobs"]

        served.edits["/apis"] = only_beta
        served.edits["/apis/batch/v1"] = without_cron_jobs
        beta = json.dumps({"resources": [{"name": "cronjobs", "verbs": ["list"]}]}).encode()
        served.fault("/apis/batch/v1beta1", Reply(beta))
        served.fault("/apis/batch/v1beta1/cronjobs", Reply(b'{"items": []}'))
        objects = read(target(served))
        assert ("CronJob", "batch/v1beta1") in {(api.kind, api.api_version) for api in objects.apis}
        assert status(objects, Source.WORKLOADS).state is SourceState.OK

    def test_a_resource_that_is_not_served_is_absent(self, replay: Serve, target: MakeTarget) -> None:
        served = replay("healthy")
        served.edits["/api/v1"] = lambda listed: listed.update(
            resources=[one for one in listed["resources"] if one["name"] != "services"]
        )
        objects = read(target(served))
        assert status(objects, Source.SERVICES).state is SourceState.ABSENT
        assert "serves no services" in status(objects, Source.SERVICES).detail

    @pytest.mark.parametrize("reply", [Reply(b'{"message": "no discovery"}', 403), Reply(b"<html>")])
    def test_falls_back_to_the_usual_versions_and_says_so(
        self, reply: Reply, replay: Serve, target: MakeTarget
    ) -> None:
        served = replay("healthy")
        for path in (
            "/apis",
            "/api/v1",
            "/apis/apps/v1",
            "/apis/batch/v1",
            "/apis/events.k8s.io/v1",
            "/apis/resource.k8s.io/v1",
        ):
            served.fault(path, reply)
        objects = read(target(served))
        assert status(objects, Source.CUSTOM).state is not SourceState.OK
        others = {one.state for one in objects.statuses if one.name is not Source.CUSTOM}
        assert others == {SourceState.OK}
        assert all("list of APIs could not be read" in one.detail for one in objects.statuses)
        assert len(objects.pods) == 14

    def test_a_hostile_version_is_not_taken_over(self, replay: Serve, target: MakeTarget) -> None:
        served = replay("healthy")
        served.fault("/version", Reply(b'{"gitVersion": "<b>1</b>"}'))
        assert read(target(served)).server_version == ""


def test_identifies_the_cluster_by_its_system_namespace(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy/as-tenant")
    served.fault("/api/v1/namespaces/kube-system", Reply(b'{"metadata": {"uid": "one-and-only"}}'))
    assert read(target(served)).cluster_id == "one-and-only"


def test_a_slow_cluster_leaves_the_rest_unread_and_says_so(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault("/apis/events.k8s.io/v1/events", Reply(NOT_FOUND, 404, wait_s=4.0))
    objects = read(target(served, poll_timeout_s=3.0))
    assert status(objects, Source.EVENTS).state is SourceState.FAILED
    assert "whole pass took longer" in status(objects, Source.WORKLOADS).detail
    assert status(objects, Source.PODS).state is SourceState.OK, "they are read beside the events"


def test_slow_pods_cost_only_themselves(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.fault(PODS, Reply(NOT_FOUND, 404, wait_s=4.0))
    objects = read(target(served, poll_timeout_s=3.0))
    assert status(objects, Source.PODS).state is SourceState.FAILED
    assert status(objects, Source.WORKLOADS).state is SourceState.OK


def test_asks_an_unreachable_server_once(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    aim = target(served)
    assert aim.kubeconfig is not None
    aim.kubeconfig.write_text(aim.kubeconfig.read_text().replace(served.url, "http://127.0.0.1:1"))
    objects = read(aim)
    assert {one.state for one in objects.statuses} == {SourceState.FAILED}
    assert all("refused the connection" in one.detail for one in objects.statuses)


def test_asks_for_pages_of_the_size_that_is_set(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    read(target(served, page_size=6))
    pages: list[Asked] = [asked for asked in served.asked if asked.path == PODS]
    assert [asked.query.get("limit") for asked in pages] == ["6", "6", "6"]

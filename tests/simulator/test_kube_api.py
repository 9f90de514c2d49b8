"""The Kubernetes API behaves like one: pages, tokens, errors, compression, logs."""

import gzip
import json
from datetime import datetime, timedelta
from http.client import IncompleteRead

import pytest

from diagnostics.simulator.config import DEMO, WorldConfig
from diagnostics.simulator.discovery import RESOURCES
from diagnostics.simulator.server import SimulatedCluster
from tests.simulator.simulated import NOW, ask, ask_json

LISTS = (
    ("/api/v1/nodes", "NodeList"),
    ("/api/v1/pods", "PodList"),
    ("/api/v1/events", "EventList"),
    ("/api/v1/namespaces", "NamespaceList"),
    ("/api/v1/services", "ServiceList"),
    ("/apis/apps/v1/deployments", "DeploymentList"),
    ("/apis/apps/v1/replicasets", "ReplicaSetList"),
    ("/apis/apps/v1/statefulsets", "StatefulSetList"),
    ("/apis/apps/v1/daemonsets", "DaemonSetList"),
    ("/apis/batch/v1/jobs", "JobList"),
    ("/apis/batch/v1/cronjobs", "CronJobList"),
    ("/apis/events.k8s.io/v1/events", "EventList"),
)


@pytest.mark.parametrize(("path", "kind"), LISTS)
def test_lists_every_resource_with_items_as_the_server_has_them(
    demo: SimulatedCluster, path: str, kind: str
) -> None:
    answer = ask_json(demo.url + path)
    assert answer["kind"] == kind
    assert answer["items"]
    for item in answer["items"]:
        assert "kind" not in item
        assert "apiVersion" not in item
        assert item["metadata"]["managedFields"]
    keys = [i["metadata"].get("namespace", "") + "/" + i["metadata"]["name"] for i in answer["items"]]
    assert keys == sorted(keys)


def test_discovery_names_what_is_served(cluster: SimulatedCluster) -> None:
    groups = {g["name"] for g in ask_json(cluster.url + "/apis")["groups"]}
    assert groups == {resource.group for resource in RESOURCES if resource.group}
    names = {r["name"] for r in ask_json(cluster.url + "/api/v1")["resources"]}
    assert names == {"pods/log", *(resource.name for resource in RESOURCES if not resource.group)}
    assert ask_json(cluster.url + "/version")["gitVersion"].startswith("v1.36")


def test_pages_put_together_are_the_whole_list(demo: SimulatedCluster) -> None:
    whole = ask_json(demo.url + "/api/v1/pods")["items"]
    got, token, left = [], "", len(whole)
    while left:
        answer = ask_json(f"{demo.url}/api/v1/pods?limit=17&continue={token}")
        got += answer["items"]
        token = answer["metadata"].get("continue", "")
        left = answer["metadata"].get("remainingItemCount", 0)
        assert left == len(whole) - len(got)
    assert got == whole


def test_the_pages_of_one_list_come_from_one_moment() -> None:
    now = [NOW]
    with SimulatedCluster(WorldConfig(faults=("young-server",), epoch=NOW), lambda: now[0]) as cluster:
        first = ask_json(cluster.url + "/api/v1/pods?limit=30")
        before = [p["metadata"]["name"] for p in ask_json(cluster.url + "/api/v1/pods")["items"]]
        now[0] = NOW + timedelta(minutes=16) - timedelta(minutes=12)
        rest = ask_json(f"{cluster.url}/api/v1/pods?continue={first['metadata']['continue']}")
        assert [p["metadata"]["name"] for p in first["items"] + rest["items"]] == before


def test_an_old_token_is_gone_and_comes_with_a_new_one() -> None:
    now = [NOW]
    with SimulatedCluster(DEMO, lambda: now[0]) as cluster:
        first = ask_json(cluster.url + "/api/v1/pods?limit=30")
        now[0] = NOW + timedelta(minutes=6)
        status, _, body = ask(f"{cluster.url}/api/v1/pods?continue={first['metadata']['continue']}")
        error = json.loads(body)
        assert (status, error["code"], error["reason"]) == (410, 410, "Expired")
        rest = ask_json(f"{cluster.url}/api/v1/pods?continue={error['metadata']['continue']}")
        assert rest["items"]


def test_resource_version_0_ignores_the_limit(cluster: SimulatedCluster) -> None:
    answer = ask_json(cluster.url + "/api/v1/pods?resourceVersion=0&limit=5")
    assert len(answer["items"]) > 100
    assert "continue" not in answer["metadata"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("continue=nonsense", "continue key is not valid"),
        ("limit=many", "invalid syntax"),
        ("fieldSelector=status.qosClass%3DBurstable", "field label not supported: status.qosClass"),
        ("labelSelector=a%20b", "unable to parse requirement"),
    ],
)
def test_a_bad_query_is_a_bad_request(cluster: SimulatedCluster, query: str, message: str) -> None:
    status, _, body = ask(f"{cluster.url}/api/v1/pods?{query}")
    assert status == 400
    assert message in json.loads(body)["message"]


def test_gzip_is_sent_to_those_who_take_it(cluster: SimulatedCluster) -> None:
    _, headers, plain = ask(cluster.url + "/api/v1/pods")
    assert "Content-Encoding" not in headers
    for _ in range(2):
        _, headers, packed = ask(cluster.url + "/api/v1/pods", Accept_Encoding="gzip")
        assert headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed) == plain
        assert len(packed) * 4 < len(plain)
    _, headers, _ = ask(cluster.url + "/api/v1/namespaces", Accept_Encoding="gzip")
    assert "Content-Encoding" not in headers


def test_gzip_follows_what_changes() -> None:
    now = [NOW]
    with SimulatedCluster(DEMO, lambda: now[0]) as cluster:
        for minutes in (0, 1, 2, 30):
            now[0] = NOW + timedelta(minutes=minutes)
            _, _, packed = ask(cluster.url + "/api/v1/pods?limit=140", Accept_Encoding="gzip")
            assert gzip.decompress(packed) == ask(cluster.url + "/api/v1/pods?limit=140")[2]


def test_lists_of_one_namespace_and_single_objects(cluster: SimulatedCluster) -> None:
    pods = ask_json(cluster.url + "/api/v1/namespaces/serving/pods")["items"]
    assert {p["metadata"]["namespace"] for p in pods} == {"serving"}
    one = ask_json(f"{cluster.url}/api/v1/namespaces/serving/pods/{pods[0]['metadata']['name']}")
    assert one == {"kind": "Pod", "apiVersion": "v1"} | pods[0]
    assert ask_json(cluster.url + "/api/v1/namespaces/kube-system")["metadata"]["uid"]


def test_selectors_choose(cluster: SimulatedCluster) -> None:
    on_one = ask_json(cluster.url + "/api/v1/pods?fieldSelector=spec.nodeName%3Dgpu-05")["items"]
    assert {p["spec"]["nodeName"] for p in on_one} == {"gpu-05"}
    plugins = ask_json(cluster.url + "/api/v1/pods?labelSelector=app%3Dnvidia-device-plugin-daemonset")[
        "items"
    ]
    assert len(plugins) == 12


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/namespaces/serving/pods/nope", 404),
        ("/apis/apps/v1/nonsense", 404),
        ("/apis/metrics.k8s.io/v1beta1/nodes", 404),
        ("/", 404),
    ],
)
def test_what_is_not_there_is_not_found(cluster: SimulatedCluster, path: str, code: int) -> None:
    assert ask(cluster.url + path)[0] == code


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD"])
def test_anything_but_get_is_refused_and_kept_in_the_request_log(
    cluster: SimulatedCluster, method: str
) -> None:
    path = "/api/v1/namespaces/serving/pods/x"
    assert ask(cluster.url + path, method)[0] == 405
    assert cluster.requests == [(method, path)]


def test_a_wrong_token_is_401_and_none_is_403() -> None:
    with SimulatedCluster(WorldConfig(), lambda: NOW, token="right") as cluster:
        assert ask(cluster.url + "/api/v1/pods", Authorization="Bearer wrong")[0] == 401
        assert ask(cluster.url + "/api/v1/pods")[0] == 403
        assert ask(cluster.url + "/api/v1/pods", Authorization="Bearer right")[0] == 200


def test_the_date_is_the_clusters(cluster: SimulatedCluster) -> None:
    assert ask(cluster.url + "/version")[1]["Date"] == "Mon, 30 Nov 2026 10:00:00 GMT"


def test_scheduler_events_carry_event_time_and_series(demo: SimulatedCluster) -> None:
    events = ask_json(demo.url + "/apis/events.k8s.io/v1/events")["items"]
    refusals = [e for e in events if e["reason"] == "FailedScheduling" and "series" in e]
    assert refusals
    for event in refusals:
        assert event["reportingController"] == "default-scheduler"
        assert event["deprecatedFirstTimestamp"] is None
        assert event["series"]["count"] == 9
    old = [e for e in ask_json(demo.url + "/api/v1/events")["items"] if e["reason"] == "BackOff"]
    assert all(
        e["eventTime"] is None and e["count"] > 1 and e["source"]["component"] == "kubelet" for e in old
    )
    oldest = NOW - timedelta(hours=1)
    assert all(datetime.fromisoformat(e["lastTimestamp"]) >= oldest for e in old)


def test_a_bad_answer_can_be_injected_and_taken_back(cluster: SimulatedCluster) -> None:
    url = cluster.url + "/api/v1/pods"
    cluster.inject("/api/v1/pods", status=429, retry_after=1, times=1)
    status, headers, body = ask(url)
    assert (status, headers["Retry-After"], json.loads(body)["code"]) == (429, "1", 429)
    assert ask(url)[0] == 200
    cluster.inject("/api/v1/pods", body="<html>no</html>")
    assert ask(url)[2] == b"<html>no</html>"
    cluster.heal()
    assert ask(url)[0] == 200


def test_a_truncated_answer_is_too_short(cluster: SimulatedCluster) -> None:
    cluster.inject("/api/v1/nodes", truncated=True)
    with pytest.raises(IncompleteRead):
        ask(cluster.url + "/api/v1/nodes")

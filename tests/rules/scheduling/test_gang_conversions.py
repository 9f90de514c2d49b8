"""What a job that is to start as a whole is made into: under its new names, as alternatives, from a suspended job."""

import json
from typing import Any

import yaml

from diagnostics.findings import Hit
from diagnostics.fixes import Risk, Step
from diagnostics.rules.scheduling.gang_names import Hosts, moved
from diagnostics.snapshot import Queue, ServedApi
from tests.rules.scheduling.test_no_gang_scheduling import (
    JOBSET,
    KUEUE,
    NATIVE,
    VOLCANO,
    documents,
    job,
    partial,
)

VOLCANO_HOSTS = Hosts("train", "train-worker", "VC_TASK_INDEX")
SET_HOSTS = Hosts("train", "train-workers-0")
BOX: dict[str, Any] = {
    "name": "main",
    "command": ["torchrun", "--node-rank=$(JOB_COMPLETION_INDEX)", "--master-addr=train-0.train", "train.py"],
    "args": ["--rdzv-endpoint", "train-0.train:29500"],
    "env": [{"name": "MASTER_ADDR", "value": "train-0.train"}, {"name": "X", "value": "strain-0.train"}],
}


def template(**changes: Any) -> dict[str, Any]:
    return {"spec": {"subdomain": "train", "restartPolicy": "Never", "containers": [BOX | changes]}}


def served(*apis: ServedApi, **fields: Any) -> Hit:
    return partial(apis=apis, workload=job(parallelism=4, template=template()), **fields)


def step(found: Hit, word: str) -> Step:
    (one,) = [s for s in found.fix.steps if s.manifest and s.title.endswith(f"with {word}")]
    return one


def test_a_job_set_calls_its_own_first_pod() -> None:
    (document,) = documents(served(KUEUE, JOBSET), "JobSet and Kueue")
    spec = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    (box,) = spec["containers"]

    assert "subdomain" not in spec
    assert box["command"][1:3] == [
        "--node-rank=$(JOB_COMPLETION_INDEX)",
        "--master-addr=train-workers-0-0.train",
    ]
    assert box["args"][1] == "train-workers-0-0.train:29500"
    assert [variable["value"] for variable in box["env"]] == ["train-workers-0-0.train", "strain-0.train"]


def test_a_volcano_job_has_its_own_address_and_index() -> None:
    (document,) = documents(served(VOLCANO), "Volcano")
    (task,) = document["spec"]["tasks"]

    assert "--master-addr=train-worker-0.train" in json.dumps(task)
    assert "--node-rank=$(VC_TASK_INDEX)" in json.dumps(task)
    assert "JOB_COMPLETION_INDEX" not in json.dumps(task)


def test_a_volcano_job_leaves_the_scheduler_of_its_pods_to_itself() -> None:
    own = template()
    own["spec"]["schedulerName"] = "default-scheduler"
    (document,) = documents(partial(apis=(VOLCANO,), workload=job(parallelism=4, template=own)), "Volcano")

    assert document["spec"]["schedulerName"] == "volcano"
    assert "schedulerName" not in document["spec"]["tasks"][0]["template"]["spec"]


def test_the_template_that_was_read_is_left_alone() -> None:
    own = template()
    moved(own, "train", SET_HOSTS)
    assert own == template()


def test_an_address_that_cannot_be_changed_safely_is_named_with_its_line() -> None:
    other = template(
        command=["torchrun", "--master-addr=head.elsewhere"],
        args=[],
        env=[{"name": "MASTER_ADDR", "value": "10.0.0.1"}],
    )
    words = moved(other, "train", SET_HOSTS).words

    assert "Change by hand" in words
    assert "--master-addr=head.elsewhere (container main)" in words
    assert "MASTER_ADDR=10.0.0.1 (container main)" in words
    assert "Change by hand" not in moved(template(), "train", SET_HOSTS).words


def test_an_index_from_an_annotation_of_a_job_is_named_for_volcano_alone() -> None:
    path = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    ranked = template(env=[{"name": "RANK", "valueFrom": path}])

    assert "RANK from the annotation" in moved(ranked, "train", VOLCANO_HOSTS).words
    assert "RANK" not in moved(ranked, "train", SET_HOSTS).words


def test_a_service_and_selectors_of_the_old_pods_are_pointed_out() -> None:
    own = template()
    own["spec"]["affinity"] = {
        "podAntiAffinity": {"x": {"matchLabels": {"batch.kubernetes.io/job-name": "train"}}}
    }
    words = moved(own, "train", VOLCANO_HOSTS).words

    assert "headless Service train" in words
    assert "label job-name match none of the new pods" in words


def test_a_malformed_template_is_moved_as_far_as_it_goes() -> None:
    for box in (
        {"env": "x"},
        {"command": "torchrun"},
        {"env": [1, {"name": "A", "value": 3}]},
        {"args": None},
    ):
        moved(template(**box), "train", VOLCANO_HOSTS)
    assert moved({"spec": {"containers": 3}}, "train", VOLCANO_HOSTS).template == {"spec": {"containers": 3}}


def test_several_ways_are_called_alternatives_and_one_is_not() -> None:
    several = served(KUEUE, JOBSET, VOLCANO)
    made = [s for s in several.fix.steps if s.manifest]
    assert all(s.title.startswith(f"One of these {len(made)}: ") for s in made)
    assert all("take one of them" in s.why for s in made)
    assert "alternatives" not in step(served(KUEUE), "Kueue").why


def test_the_job_is_suspended_before_anything_is_changed_and_resumed_after() -> None:
    steps = served(KUEUE, VOLCANO).fix.steps
    words = [s.command for s in steps]
    (suspend,) = [i for i, command in enumerate(words) if '"suspend":true' in command]
    (resume,) = [i for i, command in enumerate(words) if '"suspend":false' in command]
    changes = [i for i, s in enumerate(steps) if s.manifest]

    assert suspend < min(changes) < max(changes) < resume
    assert all(steps[i].risk is Risk.DISRUPTIVE for i in changes)
    assert "Not for a job that Kueue manages" in steps[resume].why


def test_kueue_takes_its_label_of_a_job_that_does_not_run() -> None:
    why = step(served(KUEUE), "Kueue").why
    assert "refuses it on one that runs: suspend it first" in why
    assert "stays as it is" not in why


def queue(kind: str, name: str, namespace: str = "") -> Queue:
    return Queue(
        system="kueue", kind=kind, name=name, namespace=namespace, api_version="kueue.x-k8s.io/v1beta2"
    )


def test_a_local_queue_is_made_where_one_cluster_queue_is_served() -> None:
    found = served(KUEUE, queues=(queue("ClusterQueue", "gpus"), queue("LocalQueue", "other", "elsewhere")))
    made, labelled = documents(found, "Kueue")

    assert (made["apiVersion"], made["kind"]) == ("kueue.x-k8s.io/v1beta2", "LocalQueue")
    assert made["metadata"] == {"name": "gpus", "namespace": "research"}
    assert made["spec"] == {"clusterQueue": "gpus"}
    assert labelled["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "gpus"}
    assert "has no LocalQueue" in step(found, "Kueue").why


def test_nobody_guesses_which_of_several_cluster_queues() -> None:
    found = served(KUEUE, queues=(queue("ClusterQueue", "a"), queue("ClusterQueue", "b")))
    (labelled,) = yaml.safe_load_all(step(found, "Kueue").manifest)

    assert labelled["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "<local queue>"}
    assert "a and b, and put its name in" in step(found, "Kueue").why


def test_an_alpha_api_is_called_alpha_with_its_gates() -> None:
    why = step(served(NATIVE), "a PodGroup of Kubernetes itself").why
    assert "scheduling.k8s.io/v1alpha2" in why
    assert "alpha API" in why
    assert "GenericWorkload" in why
    assert "alpha" not in step(served(KUEUE), "Kueue").why


def test_the_evidence_names_the_job_set_that_a_step_offers() -> None:
    facts = {f.label: f.value for f in served(KUEUE, JOBSET).evidence}
    assert facts["could start it as a whole here"] == "Kueue (also as a JobSet)"

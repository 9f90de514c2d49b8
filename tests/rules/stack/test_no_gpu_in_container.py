"""GPU206: why a container that looks for a GPU has none, and programs that may do without."""

import json
import shlex
from typing import Any

import pytest
import yaml

from diagnostics.findings import Confidence
from diagnostics.limits import Limits
from diagnostics.rules import catalogue, engine
from diagnostics.snapshot import Pod, Source, Workload
from diagnostics.snapshot.policy import Policy, RuntimeClass
from tests.builders import ago, container, event, gpu, owner, pod
from tests.rules.stack.failing_cuda import RULES, causes, ended, failing, found, looping, picture, refused

SLUG, GENERIC = "no-gpu-in-container", "no-gpu-in-container"
NO_DEVICE = "RuntimeError: CUDA error: no CUDA-capable device is detected"
NO_DRIVER = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"
TENSORFLOW = (
    "E tensorflow/stream_executor/cuda/cuda_driver.cc:314] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no "
    "CUDA-capable device is detected\nI tensorflow/stream_executor/cuda/cuda_diagnostics.cc:156] kernel driver does "
    "not appear to be running on this host (app-0): /proc/driver/nvidia/version does not exist"
)
NGC = "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available."


@pytest.mark.parametrize(
    "text",
    [
        NO_DEVICE, NO_DRIVER, TENSORFLOW, NGC,
        "RuntimeError: No CUDA GPUs are available",
        "[[ No CUDA-capable device is detected (error 100) ]]",
        "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display "
        "Driver is properly installed",
        "ERROR: Failed to detect NVIDIA driver version.",
        "cuInit: CUDA_ERROR_NO_DEVICE",
        "cuda runtime error (100) : no CUDA-capable device is detected at /pytorch/aten/src/THC/THCGeneral.cpp:50",
        "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
        "Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open shared object file",
        "pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found",
        "RuntimeError: Failed to infer device type",
        "CUDA driver version is insufficient for CUDA runtime version",
        "bash: nvidia-smi: command not found",
    ],
)  # fmt: skip
def test_nobody_asked_for_a_gpu(text: str) -> None:
    box = looping(text, gpus=0, image="tensorflow/tensorflow:2.4.0-gpu")
    assert causes(SLUG, failing(box)) == [GENERIC]
    silent = looping(gpus=0, image="pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime")
    assert causes(SLUG, failing(silent), log=text, previous=True) == [GENERIC]


def test_a_program_that_cannot_be_started_for_want_of_nvidia_smi() -> None:
    text = (
        'failed to create containerd task: OCI runtime create failed: exec: "nvidia-smi": executable '
        "file not found in $PATH: unknown"
    )
    ended_so = looping(last_terminated=ended(text, 128, reason="StartError"), gpus=0)
    assert causes(SLUG, failing(ended_so)) == [GENERIC]


def test_another_container_of_the_pod_asks() -> None:
    box = looping(NO_DEVICE, "trainer", gpus=0)
    (finding,) = found(SLUG, failing(box, container("sidecar"), root=owner("Deployment", "api")))
    assert (finding.cause, finding.confidence) == ("wrong-container-requests-gpu", Confidence.HIGH)
    patch = next(s.command for s in finding.fix.steps if s.command.startswith("kubectl patch"))
    body = json.loads(shlex.split(patch)[-2])
    (changed,) = body["spec"]["template"]["spec"]["containers"]
    assert changed == {"name": "trainer", "resources": {"limits": {"nvidia.com/gpu": "1"}}}


@pytest.mark.parametrize(
    "env",
    [{"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "-1"}, {"NVIDIA_VISIBLE_DEVICES": "void"},
     {"NVIDIA_VISIBLE_DEVICES": "none"}],
)  # fmt: skip
def test_a_variable_hides_the_gpu(env: dict[str, str]) -> None:
    assert causes(SLUG, failing(looping(NO_DEVICE, env=env))) == ["visible-devices-hide-gpu"]


def test_the_framework_is_built_for_cpus() -> None:
    text = "AssertionError: Torch not compiled with CUDA enabled"
    assert causes(SLUG, failing(looping(text))) == ["framework-without-cuda"]
    assert causes(SLUG, failing(looping(text, gpus=0))) == []


class TestRuntime:
    def test_neighbours_name_a_runtime_class_and_this_pod_none(self) -> None:
        neighbour = pod("train-1", runtime_class="nvidia")
        (finding,) = found(SLUG, failing(looping(NO_DRIVER)), neighbour)
        assert (finding.cause, finding.confidence) == ("nvidia-runtime-not-used", Confidence.HIGH)

    def test_the_cluster_has_a_class_that_the_pod_does_not_name(self) -> None:
        policy = Policy(runtime_classes=(RuntimeClass(name="nvidia", handler="nvidia"),))
        (finding,) = found(SLUG, failing(looping(NO_DRIVER)), policy=policy)
        assert (finding.cause, finding.confidence) == ("nvidia-runtime-not-used", Confidence.MEDIUM)

    def test_a_gpu_that_was_asked_for_and_is_not_seen_stays_general(self) -> None:
        assert causes(SLUG, failing(looping(NO_DEVICE))) == [GENERIC]
        assert causes(SLUG, failing(looping(NO_DRIVER))) == [GENERIC]
        assert causes(SLUG, failing(looping(NO_DRIVER, gpus=0), resource_claims=("gpu",))) == [GENERIC]

    @pytest.mark.parametrize(
        "text",
        [
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime "
            'for "nvidia" is configured',
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to find runtime handler nvidia "
            "from runtime list map[runc:0xc0001]",
            "Error response from daemon: Unknown runtime specified nvidia",
        ],
    )
    def test_the_node_does_not_know_the_handler(self, text: str) -> None:
        waiting = failing(refused("", "ContainerCreating"), runtime_class="nvidia", phase="Pending")
        (finding,) = found(SLUG, waiting, event("FailedCreatePodSandBox", text), gpu())
        assert (finding.cause, finding.subject.kind) == ("no-nvidia-runtime-configured", "Node")
        assert finding.gpus == 1

    def test_a_node_that_is_being_set_up_is_left_alone(self) -> None:
        text = 'failed to get sandbox runtime: no runtime for "nvidia" is configured'
        young = failing(
            refused("", "ContainerCreating"), created_at=ago(minutes=4), started_at=ago(minutes=4)
        )
        assert causes(SLUG, young, event("FailedCreatePodSandBox", text)) == []

    @pytest.mark.parametrize("kind", ["ReplicaSet", "Job", "StatefulSet"])
    def test_pods_that_are_never_made_are_the_pending_rules_alone(self, kind: str) -> None:
        text = 'Error creating: pods "infer-0" is forbidden: pod rejected: RuntimeClass "nvidia" not found'
        told = event("FailedCreate", text, "infer-7f9c", kind=kind)
        work = (Workload(kind=kind, namespace="research", name="infer-7f9c", replicas=1),)
        seen = picture(pod(), told, workloads=work)
        outcome = engine.run(catalogue(), seen, Limits())
        of_it = [f for f in outcome.findings if f.subject.name == "infer-7f9c"]
        assert [(f.slug, f.cause) for f in of_it] == [("pending-gpu-pod", "runtime-class-missing")]


class TestClassOfABoundPod:
    CLASSES = Policy(runtime_classes=(RuntimeClass(name="runc"),))

    def bound(self, **fields: Any) -> Pod:
        boxes = (refused("", "ContainerCreating"),)
        return pod(**({"containers": boxes, "phase": "Pending", "runtime_class": "nvidia"} | fields))

    def test_a_class_that_is_not_in_the_list(self) -> None:
        (finding,) = found(SLUG, self.bound(), policy=self.CLASSES)
        assert (finding.cause, finding.gpus, finding.nodes) == ("runtime-class-missing", 1, ("gpu-1",))
        assert "runc" in str(finding.evidence)
        assert [step.kind for step in finding.fix.steps][:2] == ["diagnose", "diagnose"]

    def test_pods_of_one_owner_are_one_finding(self) -> None:
        root = owner("StatefulSet", "train")
        pods = [self.bound(name=f"train-{i}", root=root) for i in range(3)]
        (finding,) = found(SLUG, *pods, policy=self.CLASSES)
        assert (finding.subject.name, len(finding.pods)) == ("train", 3)

    @pytest.mark.parametrize(
        "text",
        [
            'Failed to create pod sandbox: runtimeclass.node.k8s.io "nvidia" not found',
            'Failed to create pod sandbox: RuntimeClass.node.k8s.io "nvidia" not found',
        ],
    )
    def test_the_kubelet_says_so_where_the_classes_could_not_be_read(self, text: str) -> None:
        (finding,) = found(SLUG, self.bound(), event("FailedCreatePodSandBox", text))
        assert finding.cause == "runtime-class-missing"
        assert text in [fact.value for fact in finding.evidence]

    def test_is_not_made_up_where_the_classes_could_not_be_read_and_nobody_says_so(self) -> None:
        assert causes(SLUG, self.bound()) == []
        busy = event("FailedCreatePodSandBox", "failed to lookup RuntimeClass nvidia: the server is busy")
        assert causes(SLUG, self.bound(), busy) == []

    @pytest.mark.parametrize(
        "fields",
        [
            {"phase": "Running"},
            {"runtime_class": "runc"},
            {"runtime_class": ""},
            {"node": None},
            {"deletion_at": ago(minutes=1)},
            {"created_at": ago(minutes=1), "started_at": None},
            {"labels": {"app": "nvidia-operator-validator"}},
            {"runtime_class": "gvisor", "containers": (refused("", "ContainerCreating", gpus=0),)},
        ],
        ids=["runs", "exists", "names none", "has no node", "ends", "starts", "operator", "means no GPU"],
    )
    def test_ignores_a_pod_that(self, fields: dict[str, Any]) -> None:
        assert causes(SLUG, self.bound(**fields), policy=self.CLASSES) == []

    def test_a_hostile_name_stays_a_word(self) -> None:
        name = "x\x1b[31m'; rm -rf /\n<b>"
        (finding,) = found(SLUG, self.bound(runtime_class=name), policy=self.CLASSES)
        assert "\x1b" not in finding.title + finding.summary + "".join(f.value for f in finding.evidence)
        (manifest,) = [step.manifest for step in finding.fix.steps if step.manifest]
        assert yaml.safe_load(manifest)["metadata"]["name"] == name


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("failed to generate spec: failed to apply OCI options: CDI device injection failed: unresolvable CDI devices "
         "nvidia.com/gpu=GPU-0", "cdi-spec-missing-or-stale"),
        ("error creating container: failed to inject CDI devices: unresolvable CDI devices "
         "k8s.device-plugin.nvidia.com/gpu=GPU-0", "cdi-spec-missing-or-stale"),
        ('could not select device driver "nvidia" with capabilities: [[gpu]]', "cdi-spec-missing-or-stale"),
        ("nvidia-container-cli: device error: GPU-5d0: unknown device: unknown", "gpu-id-stale"),
        ("nvidia-container-cli: device error: MIG-5d0: unknown device", "gpu-id-stale"),
    ],
)  # fmt: skip
def test_a_device_that_cannot_be_handed_over(text: str, cause: str) -> None:
    assert causes(SLUG, failing(refused(text))) == [cause]
    assert causes(SLUG, failing(refused("", "CreateContainerError")), event("Failed", f"Error: {text}")) == [
        cause
    ]


class TestSilent:
    def test_about_a_program_that_runs_on_the_cpu(self) -> None:
        box = container(gpus=0, image="nvcr.io/nvidia/pytorch:24.10-py3")
        assert causes(SLUG, failing(box), log=TENSORFLOW) == []

    def test_about_a_note_beside_the_real_reason(self) -> None:
        box = looping(gpus=0, image="nvcr.io/nvidia/pytorch:24.10-py3")
        log = f"{NGC}\nFailed to initialize NVML: Insufficient Permissions"
        assert causes(SLUG, failing(box), log=log) == []

    def test_where_the_gpu_works(self) -> None:
        busy = failing(container())
        assert causes(SLUG, busy, gpu(holders=(busy.key,)), log=NO_DEVICE) == []

    def test_about_the_operators_own_pods(self) -> None:
        box = looping(
            "could not load NVML library: libnvidia-ml.so.1: cannot open shared object file", gpus=0
        )
        assert causes(SLUG, failing(box, labels={"app": "nvidia-device-plugin-daemonset"})) == []

    @pytest.mark.parametrize(
        "text", ["no device found for usb", "runtime error: index out of range", "libcudart.so.12"]
    )
    def test_about_other_words(self, text: str) -> None:
        assert causes(SLUG, failing(looping(text))) == []


def test_a_note_without_any_sign_of_a_gpu_is_a_guess() -> None:
    (finding,) = found(SLUG, failing(looping(TENSORFLOW, gpus=0)))
    assert finding.confidence is Confidence.LOW
    (surer,) = found(
        SLUG, failing(looping(TENSORFLOW, gpus=0), node_selector={"nvidia.com/gpu.present": "true"})
    )
    assert surer.confidence is Confidence.HIGH


def test_without_pods_it_is_not_judged() -> None:
    outcome: Any = engine.run(RULES, picture(failing(), without=[Source.PODS]), Limits())
    assert "GPU206" in {s.code for s in outcome.skipped}

"""Pod templates of the usual kinds of GPU work."""

from typing import Any

from diagnostics.simulator.workloads import TOLERATES_GPU, Json, PodTemplate, container

PYTORCH = "nvcr.io/nvidia/pytorch:24.10-py3"
TRITON = "nvcr.io/nvidia/tritonserver:24.10-py3"
VLLM = "docker.io/vllm/vllm-openai:v0.8.5"
NOTEBOOK = "docker.io/kubeflownotebookswg/jupyter-pytorch-cuda-full:v1.9.2"
CPU_IMAGE = "docker.io/library/python:3.12-slim"

SHM = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}
SHM_MOUNT = {"name": "shm", "mountPath": "/dev/shm"}
POOL = "example.com/pool"


def torchrun(
    name: str, nodes: int, gpus: int, *, pool: str = "", kind: str = "Job", **more: Any
) -> PodTemplate:
    """A rank of a training gang: its pods talk to each other all the time."""
    rank = ["--node-rank=$(JOB_COMPLETION_INDEX)"] if kind == "Job" else []
    return PodTemplate(
        containers=[
            container(
                "torch",
                PYTORCH,
                gpus=gpus,
                cpu=str(8 * gpus),
                memory=f"{64 * gpus}Gi",
                command=[
                    "torchrun",
                    f"--nnodes={nodes}",
                    f"--nproc-per-node={gpus}",
                    *rank,
                    f"--master-addr={name}-0.{name}",
                    "--master-port=29500",
                    "train.py",
                ],
                ports=[{"name": "rdzv", "containerPort": 29500, "protocol": "TCP"}],
                env=[
                    {"name": "NCCL_DEBUG", "value": "WARN"},
                    {"name": "MASTER_ADDR", "value": f"{name}-0.{name}"},
                    {"name": "MASTER_PORT", "value": "29500"},
                ],
                volumeMounts=[SHM_MOUNT],
            )
        ],
        volumes=[SHM],
        node_selector={POOL: pool} if pool else {},
        tolerations=[TOLERATES_GPU],
        restart_policy="Never" if kind == "Job" else "Always",
        more={"subdomain": name},
        **more,
    )


def single(
    name: str,
    gpus: int,
    *,
    image: str = PYTORCH,
    memory: str = "",
    cpu: str = "",
    restart_policy: str = "Never",
    **more: Any,
) -> PodTemplate:
    """A script that needs nobody else."""
    return PodTemplate(
        containers=[
            container(
                name,
                image,
                gpus=gpus,
                cpu=cpu or str(8 * gpus),
                memory=memory or f"{64 * gpus}Gi",
                command=["python", f"{name}.py"],
            )
        ],
        tolerations=[TOLERATES_GPU],
        restart_policy=restart_policy,
        **more,
    )


def server(
    model: str, gpus: int, *, memory: str = "", cpu: str = "", pool: str = "serve", **more: Any
) -> PodTemplate:
    """An LLM server."""
    return PodTemplate(
        containers=[
            container(
                "vllm",
                VLLM,
                gpus=gpus,
                cpu=cpu or str(8 * gpus),
                memory=memory or f"{96 * gpus}Gi",
                args=[
                    "--model",
                    model,
                    "--tensor-parallel-size",
                    str(gpus),
                    "--gpu-memory-utilization",
                    "0.9",
                ],
                ports=[{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
                env=[{"name": "HF_HOME", "value": "/models"}],
                livenessProbe=_probe("/health", 120),
                readinessProbe=_probe("/health", 60),
            )
        ],
        node_selector={POOL: pool} if pool else {},
        tolerations=[TOLERATES_GPU],
        **more,
    )


def triton(gpus: int = 1, *, memory: str = "32Gi", pool: str = "serve", **more: Any) -> PodTemplate:
    """A model server of small models."""
    return PodTemplate(
        containers=[
            container(
                "triton",
                TRITON,
                gpus=gpus,
                cpu="6",
                memory=memory,
                args=["tritonserver", "--model-repository=/models"],
                ports=[{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
                readinessProbe=_probe("/v2/health/ready", 30),
            )
        ],
        node_selector={POOL: pool} if pool else {},
        tolerations=[TOLERATES_GPU],
        **more,
    )


def notebook(gpus: int = 1, *, pool: str = "dev", **more: Any) -> PodTemplate:
    return PodTemplate(
        containers=[
            container(
                "notebook",
                NOTEBOOK,
                gpus=gpus,
                cpu="8",
                memory="64Gi",
                ports=[{"name": "notebook-port", "containerPort": 8888, "protocol": "TCP"}],
                env=[{"name": "NB_PREFIX", "value": "/notebook"}],
            )
        ],
        node_selector={POOL: pool} if pool else {},
        tolerations=[TOLERATES_GPU],
        **more,
    )


def cpu_only(name: str, *, memory: str = "2Gi", cpu: str = "500m", image: str = CPU_IMAGE) -> PodTemplate:
    return PodTemplate(
        containers=[container(name, image, cpu=cpu, memory=memory, command=["python", f"{name}.py"])]
    )


def _probe(path: str, delay_s: int) -> Json:
    return {
        "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "initialDelaySeconds": delay_s,
        "timeoutSeconds": 5,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 6,
    }

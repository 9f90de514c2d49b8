"""Host memory that a program was told to take, from its command line and environment: plain arithmetic."""

import re
from collections.abc import Iterator

import msgspec

from diagnostics.snapshot import Container, Pod

_GIB = 2.0**30
_PER_GPU = {
    "--cpu-offload-gb": "weights kept in host memory, per GPU (vLLM, SGLang)",
    "--swap-space": "KV cache swapped to host memory, per GPU (vLLM)",
    "--hicache-size": "KV cache in host memory, per GPU (SGLang)",
}
_ALTOGETHER = {
    "--kv-offloading-size": "KV cache in host memory (vLLM)",
    "--kv_offloading_size": "KV cache in host memory",
}
_ENV_PER_GPU = {"LMCACHE_MAX_LOCAL_CPU_SIZE": "KV cache in host memory, per GPU (LMCache)"}
_PICKLED = re.compile(r"--load-format[= ](?:pt|npcache)\b")
_MODEL = re.compile(r"(?:--model(?:-path|-id)?[= ]|serve )(\S{1,200})")
_PARAMETERS = re.compile(r"(?<![\dx.])(\d{1,4}(?:\.\d{1,2})?)[bB](?![a-zA-Z0-9])")
_BYTES = (
    (re.compile(r"awq|gptq|int4|4bit|w4a16|nf4|bnb", re.IGNORECASE), 0.55),
    (re.compile(r"fp8|int8|8bit|w8a8", re.IGNORECASE), 1.0),
)


class Planned(msgspec.Struct, frozen=True):
    """One amount that will be taken from host memory."""

    what: str
    total_bytes: float
    told_by: str


def planned(pod: Pod, container: Container) -> tuple[Planned, ...]:
    """What the container's command line and environment name; empty where they name nothing."""
    words = " ".join((*container.command, *container.args))[:8000]
    gpus = max(1, int(sum(container.gpus.values())))
    return tuple(_named(words, container, gpus))


def _named(words: str, container: Container, gpus: int) -> Iterator[Planned]:
    for flag, what in (*_PER_GPU.items(), *_ALTOGETHER.items()):
        found = re.search(rf"(?:^|\s){flag}[= ](\d{{1,5}}(?:\.\d{{1,3}})?)(?:\s|$)", words)
        if found and float(found[1]) > 0:
            ranks = gpus if flag in _PER_GPU else 1
            yield Planned(what, float(found[1]) * _GIB * ranks, f"{flag} {found[1]}")
    for name, what in _ENV_PER_GPU.items():
        text = container.env.get(name, "")
        if re.fullmatch(r"\d{1,5}(?:\.\d{1,3})?", text) and float(text) > 0:
            yield Planned(what, float(text) * _GIB * gpus, f"{name}={text}")
    if _PICKLED.search(words) and (size := weights_bytes(words)) is not None:
        yield Planned("weights unpickled in host memory, by each rank", size * gpus, "--load-format pt")


def weights_bytes(words: str) -> float | None:
    """Size of the weights by the model's name (`-70B`) and precision; None for mixtures and names without a size."""
    model = _MODEL.search(words)
    if model is None:
        return None
    sizes = _PARAMETERS.findall(model[1].rpartition("/")[2])
    if len(sizes) != 1:
        return None
    per_value = next((size for pattern, size in _BYTES if pattern.search(words)), 2.0)
    return float(sizes[0]) * 1e9 * per_value

"""Which framework a container runs and what it was told about memory, from its image, command, environment and log."""

import re
from collections.abc import Iterable

import msgspec

from diagnostics.snapshot import Container, LogSignal

_WORDS: tuple[tuple[str, str], ...] = (
    ("vLLM", r"\bvllm\b"),
    ("SGLang", r"\bsglang\b|\bsgl-"),
    ("TensorRT-LLM", r"tensorrt[-_]?llm|trtllm"),
    ("TGI", r"text-generation-(?:inference|launcher|server)|\btgi\b"),
    ("LMDeploy", r"\blmdeploy\b|\bxinference\b"),
    ("TensorFlow", r"tensorflow|\btf[-_]serving\b|\btfs\b|tf_cnn|\bkeras\b"),
    ("JAX", r"\bjax\b|\bjaxlib\b|maxtext|\bt5x\b|\bflax\b"),
    ("NIM", r"nvcr\.io/nim/"),
    ("Triton", r"tritonserver"),
    ("llama.cpp", r"llama[.-]?cpp|llama-server|ollama"),
    ("PyTorch", r"pytorch|\btorch(?:run|serve)?\b|deepspeed|accelerate|lightning|transformers"),
)
"""The first that fits: servers before the frameworks that they are built on."""
_FRAMEWORKS = tuple((name, re.compile(words, re.IGNORECASE)) for name, words in _WORDS)

PREALLOCATING = frozenset({"vLLM", "SGLang", "TensorRT-LLM", "TGI", "LMDeploy", "NIM", "TensorFlow", "JAX"})
"""They reserve GPU memory at start, whatever the model needs (reference: their documentation of memory settings)."""

_GROWS = {"TF_FORCE_GPU_ALLOW_GROWTH": ("true", "1"), "XLA_PYTHON_CLIENT_PREALLOCATE": ("false", "0")}
"""Settings with which TensorFlow and JAX take memory only as they need it."""
_FLOAT32 = re.compile(r"--dtype[= ](?:torch\.)?(?:float32|fp32|float)(?:\s|$)|torch_dtype[= ]\S{0,6}float32")
_IMAGE_TAG = re.compile(r"@sha256:.*")


class Software(msgspec.Struct, frozen=True):
    """What is known of a container's program."""

    framework: str = ""
    """A name of `_WORDS`; empty when nothing says."""
    grows: bool = False
    """Told to take GPU memory as it needs it, where it would reserve it otherwise."""
    is_float32: bool = False
    """Told to keep weights in 32 bits, or its log says that it does."""
    because: str = ""
    """The words or log line that say float32."""

    @property
    def preallocates(self) -> bool:
        return self.framework in PREALLOCATING and not self.grows


NOTHING_KNOWN = Software()


def software_of(container: Container, signals: Iterable[LogSignal] = ()) -> Software:
    """From image, command, arguments and environment of the container; signals of its log for the precision."""
    words = " ".join((*container.command, *container.args))[:8000]
    told = f"{_IMAGE_TAG.sub('', container.image)} {words} {' '.join(container.env)}"
    framework = next((name for name, pattern in _FRAMEWORKS if pattern.search(told)), "")
    grows = any(container.env.get(name, "").lower() in values for name, values in _GROWS.items())
    flag = _FLOAT32.search(words)
    line = next((s.line for s in signals if s.signal == "weights-float32"), "")
    return Software(framework, grows, bool(flag or line), flag[0].strip() if flag else line)

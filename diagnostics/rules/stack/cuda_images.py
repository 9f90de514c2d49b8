"""What an image's reference says of the CUDA toolkit and the GPU architectures inside. Pure.

Sources: tag schemes of the images' own repositories; NVIDIA Deep Learning Frameworks support matrix and the Triton
compatibility page for the monthly releases; the release notes of vLLM and the tested builds of TensorFlow, by version;
architectures of PyTorch's wheels from pytorch/pytorch .ci/manywheel/build_cuda.sh. No match is unknown: nothing is
guessed from `latest`, and nothing at all for ROCm images.
"""

import re

from diagnostics.rules.stack.cuda_compat import Version, toolkit, version

Toolkit = tuple[int, int]

_NGC_MONTHS: tuple[tuple[int, Toolkit], ...] = (
    (2301, (12, 0)),
    (2303, (12, 1)),
    (2308, (12, 2)),
    (2311, (12, 3)),
    (2403, (12, 4)),
    (2406, (12, 5)),
    (2408, (12, 6)),
    (2501, (12, 8)),
    (2504, (12, 9)),
    (2508, (13, 0)),
    (2512, (13, 1)),
    (2603, (13, 2)),
    (2606, (13, 3)),
)
"""First release (YYMM) with a toolkit; the table ends with `_NGC_KNOWN_TO`."""
_NGC_KNOWN_TO = 2607
_NGC = re.compile(
    r"(?:^|/)nvidia/(?:pytorch|tensorflow|jax|nemo|cuda-dl-base|tritonserver|tensorrt|pyg|dgl|modulus|rapidsai)$"
)
_LAGGING = re.compile(r"trtllm|vllm|nemo")
"""Variants whose toolkit lags behind the month's."""
_VLLM: tuple[tuple[Version, Toolkit], ...] = (
    ((0, 2), (12, 1)),
    ((0, 5, 1), (12, 4)),
    ((0, 8, 5), (12, 8)),
    ((0, 20), (13, 0)),
)
_TENSORFLOW: tuple[tuple[Version, Toolkit], ...] = (
    ((2, 11), (11, 2)),
    ((2, 12), (11, 8)),
    ((2, 15), (12, 2)),
    ((2, 16), (12, 3)),
    ((2, 18), (12, 5)),
)
_TENSORFLOW_KNOWN_TO = (2, 21)
_ROCM = re.compile(r"rocm|hip\b|amd/|xpu|habana|neuron|tpu")
_CUDA_TAG = re.compile(r"^(\d{1,2}\.\d{1,2})(?:\.\d{1,2})?-")
_IN_TAG = re.compile(r"(?<![a-z0-9])cu(?:da)?[-_]?(\d{2})[.-]?(\d)(?!\d)")
_COMPAT_INSIDE = re.compile(r"(?:^|/)nvidia/|(?:^|/)vllm/vllm-openai|(?:^|/)lmsysorg/sglang")

WHEELS: dict[Toolkit, tuple[Version, ...]] = {
    (11, 8): ((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0)),
    (12, 1): ((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0)),
    (12, 4): ((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0)),
    (12, 6): ((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0)),
    (12, 8): ((7, 0), (7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0)),
    (12, 9): ((7, 0), (7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0)),
    (13, 0): ((7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0)),
    (13, 2): ((7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0)),
}
"""Toolkit of a PyTorch wheel -> compute capabilities that it has machine code for (x86_64)."""


def split(image: str) -> tuple[str, str]:
    """(repository in lower case without digest, tag); the tag is empty where there is none."""
    name = image.partition("@")[0].strip().lower()
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "")


def toolkit_of(image: str) -> Toolkit | None:
    """The CUDA toolkit that the image was built with; None where the reference does not tell."""
    repository, tag = split(image)
    if not tag or _ROCM.search(f"{repository}:{tag}"):
        return None
    if re.search(r"(?:^|/)(?:nvidia/)?cuda$", repository):
        found = _CUDA_TAG.match(tag)
        return toolkit(found[1]) if found else None
    named = _IN_TAG.search(tag)
    if named:
        return toolkit(f"{named[1]}.{named[2]}")
    if _NGC.search(repository):
        return _of_month(tag)
    numbers = version(tag)
    if numbers is None:
        return None
    if re.search(r"(?:^|/)vllm/vllm-openai$", repository):
        return _of_release(_VLLM, numbers)
    if re.search(r"(?:^|/)tensorflow/tensorflow$", repository) and "-gpu" in tag:
        return _of_release(_TENSORFLOW, numbers) if numbers < _TENSORFLOW_KNOWN_TO else None
    return None


def _of_month(tag: str) -> Toolkit | None:
    found = re.match(r"(\d{2})\.(\d{2})(?!\d)", tag)
    if found is None or _LAGGING.search(tag):
        return None
    month = int(found[1] + found[2])
    if month > _NGC_KNOWN_TO:
        return None
    return next((cuda for first, cuda in reversed(_NGC_MONTHS) if month >= first), None)


def _of_release(table: tuple[tuple[Version, Toolkit], ...], numbers: Version) -> Toolkit | None:
    return next((cuda for first, cuda in reversed(table) if numbers >= first), None)


def has_compat_package(image: str) -> bool:
    """Whether images of this repository carry NVIDIA's forward compatibility libraries (those built on nvidia/cuda)."""
    return _COMPAT_INSIDE.search(split(image)[0]) is not None


def wheel_architectures(image: str) -> tuple[Version, ...] | None:
    """Compute capabilities of the PyTorch inside `pytorch/pytorch` images; None for others."""
    repository, _ = split(image)
    if not re.search(r"(?:^|/)pytorch/pytorch$", repository):
        return None
    cuda = toolkit_of(image)
    return WHEELS.get(cuda) if cuda else None


def runs_on(capability: Version, built_for: tuple[Version, ...]) -> bool:
    """Machine code runs on the same major capability, equal or higher minor (8.0 on 8.6 and 8.9; 10.0 on 10.3)."""
    return any(one[0] == capability[0] and one <= capability for one in built_for)

"""What is known of one container's CUDA: its image's toolkit, its node's driver and GPU. Pure."""

import re

import msgspec

from diagnostics.findings import Evidence
from diagnostics.rules.stack import architectures, cuda_images
from diagnostics.rules.stack.cuda_compat import (
    Judged,
    Verdict,
    Version,
    judged,
    newest_cuda,
    toolkit,
    version,
    written,
)
from diagnostics.snapshot import Container, Node, Pod, Snapshot
from diagnostics.text import printable

_REQUIRED = re.compile(r"(?:^|[ ,])cuda>=(\d{1,2}\.\d{1,2})")
_RUNTIME_LABELS = (("nvidia.com/cuda.runtime-version.full",),
                   ("nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.runtime-version.minor"),
                   ("nvidia.com/cuda.runtime.major", "nvidia.com/cuda.runtime.minor"))  # fmt: skip


class Facts(msgspec.Struct, frozen=True):
    """One container and the node that it runs on; None is unknown."""

    pod: Pod
    container: Container
    node: Node | None
    toolkit: tuple[int, int] | None
    toolkit_source: str
    driver: Version | None
    newest: tuple[int, int] | None
    """The newest CUDA that the node's driver serves in full: nvidia-smi's number."""

    @property
    def product(self) -> str | None:
        return self.node.gpu_product if self.node else None

    @property
    def judged(self) -> Judged | None:
        """The precise rule's verdict; None unless toolkit and driver are known."""
        if self.toolkit is None or self.driver is None:
            return None
        return judged(self.toolkit, self.driver, self.product)

    @property
    def is_too_new(self) -> bool | None:
        """The toolkit cannot run without the forward compatibility package; None where it cannot be told."""
        found = self.judged
        return None if found is None else found.verdict in {Verdict.NEEDS_COMPAT, Verdict.TOO_NEW}

    @property
    def compat_path(self) -> str | None:
        """The part of LD_LIBRARY_PATH that puts forward compatibility libraries before the driver's."""
        parts = self.container.env.get("LD_LIBRARY_PATH", "").split(":")
        return next((part for part in parts if "compat" in part and "cuda" in part), None)

    def evidence(self) -> tuple[Evidence, ...]:
        found = [Evidence("Image", printable(self.container.image, 200) or "unknown", source="spec, image")]
        if self.toolkit is not None:
            found.append(
                Evidence("CUDA in the image", written_cuda(self.toolkit), source=self.toolkit_source)
            )
        if self.driver is not None and self.node is not None:
            source = f"labels of node {self.node.name}"
            found.append(Evidence("Driver of the node", written(self.driver), source=source))
        if self.newest is not None:
            found.append(
                Evidence(
                    "Newest CUDA that this driver serves",
                    written_cuda(self.newest),
                    source="label nvidia.com/cuda.runtime-version, or the table of drivers",
                )
            )
        verdict = self.judged
        if verdict is not None and verdict.needed:
            label = "Driver that the image's CUDA needs at least"
            found.append(Evidence(label, written(verdict.needed), source="CUDA release notes"))
        if self.product:
            found.append(Evidence("GPU", printable(self.product, 80), source="label nvidia.com/gpu.product"))
        return tuple(found)


def facts_of(snapshot: Snapshot, pod: Pod, container: Container) -> Facts:
    node = snapshot.node_by_name.get(pod.node or "")
    cuda, source = _toolkit_of(container)
    driver = version(node.driver_version) if node else None
    return Facts(pod, container, node, cuda, source, driver, newest_of(node))


def newest_of(node: Node | None) -> tuple[int, int] | None:
    """From the node's labels, new form before old; else from its driver."""
    if node is None:
        return None
    for names in _RUNTIME_LABELS:
        found = toolkit(".".join(node.labels.get(name, "") for name in names))
        if found is not None:
            return found
    driver = version(node.driver_version)
    return newest_cuda(driver) if driver else None


def written_cuda(cuda: Version) -> str:
    return ".".join(str(n) for n in cuda)


def _toolkit_of(container: Container) -> tuple[tuple[int, int] | None, str]:
    """What the pod's environment overrides, else what the image's reference says."""
    required = _REQUIRED.search(container.env.get("NVIDIA_REQUIRE_CUDA", ""))
    if required:
        return toolkit(required[1]), "NVIDIA_REQUIRE_CUDA in the container's environment"
    named = toolkit(container.env.get("CUDA_VERSION"))
    if named:
        return named, "CUDA_VERSION in the container's environment"
    return cuda_images.toolkit_of(container.image), "image reference"


def nodes_that_would_do(snapshot: Snapshot, needed: Version) -> list[str]:
    """GPU nodes with a driver from `needed` on."""
    drivers = {node.name: version(node.driver_version) for node in snapshot.nodes}
    return sorted(name for name, driver in drivers.items() if driver is not None and driver >= needed)


def capability_of(facts: Facts) -> Version | None:
    return architectures.capability_of_node(facts.node)

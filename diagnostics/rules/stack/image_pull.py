"""Why the image of an operator's container cannot be pulled, from its reference, the node and the runtime's words."""

import re

from diagnostics.snapshot import Container, Node

_WORDS = tuple(
    (cause, re.compile(pattern, re.IGNORECASE))
    for cause, pattern in (
        ("registry-rate-limited", r"toomanyrequests|429 Too Many|rate limit"),
        (
            "registry-refuses-access",
            r"unauthorized|authentication required|\b40[13]\b|pull access denied|\bdenied\b",
        ),
        ("registry-certificate-untrusted", r"x509:|certificate signed by unknown|certificate has expired"),
        (
            "registry-unreachable",
            r"i/o timeout|no such host|connection refused|connection reset|TLS handshake timeout|deadline exceeded"
            r"|network is unreachable|no route to host|proxyconnect|dial tcp",
        ),
        ("disk-full", r"no space left on device"),
        ("image-of-other-architecture", r"no match(?:ing manifest)? for platform|exec format error"),
        (
            "not-found",
            r"not found|manifest unknown|manifest for \S+|NotFound|name unknown|reading manifest|does not exist",
        ),
    )
)
_DRIVER = re.compile(r"(?:^|/)(?:driver|nvidia-driver|vgpu-driver|vgpu-manager)(?=[:@])")
_KERNEL = re.compile(r"\d+\.\d+\.\d+-\d+[\w.+]*")
_OS = re.compile(r"-(?:ubuntu|rhel|rhcos|centos|sles|sl-micro|opensuse\S*|rocky|ol|debian|amzn|flatcar|cos|talos|scos|"
                 r"azurelinux|mariner|photon|fedora\S*)[-v]?[\d.]*$")  # fmt: skip


def pull_cause(container: Container, message: str, node: Node | None) -> str | None:
    """Slug of why; None where the words say nothing.

    Operator images of the driver are tagged `<version>-<os>`, precompiled ones `<branch>-<kernel>-<os>`: a tag that is
    not there means that nobody made this driver for this kernel or operating system.
    """
    cause = next((cause for cause, words in _WORDS if words.search(message)), None)
    if cause != "not-found":
        return cause
    image = container.image
    if not image:
        return None
    if not _DRIVER.search(image):
        return "image-not-found"
    tag = image.partition("@")[0].rpartition(":")[2]
    of_node = bool(node and node.kernel and node.kernel.removesuffix(".x86_64") in tag)
    rest = tag.partition("-")[2]
    if of_node or _KERNEL.search(rest):
        return "precompiled-driver-image-missing"
    return "driver-image-missing-for-os" if _OS.search(tag) else "driver-image-not-found"

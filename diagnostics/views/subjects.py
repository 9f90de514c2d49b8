"""What a finding is about, in words, and where that has a page."""

from diagnostics.incidents.cost import NO_WORKLOADS
from diagnostics.views.page import node_url, workload_url


def subject_words(kind: str, namespace: str, name: str) -> str:
    """Kind and name."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def subject_url(slug: str, kind: str, namespace: str, name: str) -> str:
    """Address of its page, for a GPU that of its node; empty where it has none."""
    if kind in NO_WORKLOADS:
        # A GPU's name begins with its node's.
        return node_url(slug, name.partition("/")[0])
    return workload_url(slug, kind, namespace, name)

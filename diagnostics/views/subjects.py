"""What a finding is about: in words, where that has a page, and by which fingerprints it is known."""

from diagnostics.findings import Subject, fingerprint
from diagnostics.incidents.cost import NO_WORKLOADS
from diagnostics.models import Cluster
from diagnostics.rules import RETIRED, catalogue
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


def fingerprints(cluster: Cluster, subject: Subject) -> list[str]:
    """Of all that rules, present and past, may have found about `subject`: incidents are indexed by them, and not by
    their subjects.
    """
    codes = [*(rule.code for rule in catalogue()), *RETIRED]
    # While the cluster's identity could not be read, findings were told apart without it.
    return [fingerprint(identity, code, subject) for identity in (cluster.identity, "") for code in codes]

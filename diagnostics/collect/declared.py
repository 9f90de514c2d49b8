"""From a cluster as its site declares it to the target that is asked."""

from pathlib import Path

import msgspec

from diagnostics.clusters import DeclaredCluster
from diagnostics.collect.target import PrometheusTarget, Target


def declared_target(slug: str, declared: DeclaredCluster) -> Target:
    """The target is called by its slug, which is also what a site's overrides name."""
    fields = msgspec.structs.asdict(declared) | {"name": slug, "kubeconfig": _path(declared.kubeconfig)}
    if declared.prometheus is not None:
        prometheus = msgspec.structs.asdict(declared.prometheus)
        files = {name: _path(value) for name, value in prometheus.items() if name.endswith("_file")}
        fields["prometheus"] = PrometheusTarget(**(prometheus | files))
    return Target(**fields)


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None

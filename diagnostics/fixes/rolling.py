"""A rolling update that finds no GPU for its first new pod hangs: the step that lets an old pod go first."""

from collections.abc import Iterable

from diagnostics.fixes import Risk, Step, StepKind, kubectl, manifests
from diagnostics.placement import update_hangs
from diagnostics.snapshot import Pod, Snapshot
from diagnostics.text import counted, printable

_IN_PLACE = {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}}


def old_pod_first(steps: Iterable[Step], pod: Pod, snapshot: Snapshot) -> tuple[Step, ...]:
    """`steps`, which change the template of the pod's owner, with that step before the first change where it hangs."""
    given = list(steps)
    root = pod.root
    if root is None or not update_hangs(pod, snapshot):
        return tuple(given)
    first = next((i for i, step in enumerate(given) if step.kind is StepKind.FIX), len(given))
    command = kubectl.kubectl(
        "patch", root.kind.lower(), "-n", root.namespace, "--type=merge", "-p", manifests.to_json(_IN_PLACE),
        *kubectl.named(root.name),
    )  # fmt: skip
    own = Step(
        kind=StepKind.FIX,
        title=f"Let an update of {root.kind} {printable(root.name, 120)} end an old pod before it starts a new one",
        why="As it is set, the new pod comes first, and no node that admits it has room for one more with "
        f"{counted(pod.gpu_count, 'GPU')}: it would stay Pending while the old one keeps its GPUs. This setting alone "
        "restarts nothing.",
        risk=Risk.SAFE,
        command=command,
        expect="`patched`; the next change of the template replaces one pod at a time, in its place.",
    )
    return (*given[:first], own, *given[first:])

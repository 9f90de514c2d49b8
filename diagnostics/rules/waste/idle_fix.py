"""The guided fix for GPUs that are held and idle: its owner is asked first, in words for a server, notebook or job."""

import re

from diagnostics.findings import Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, kubectl, steps
from diagnostics.snapshot import Pod
from diagnostics.text import printable

_NOTEBOOK = re.compile(r"jupyter|notebook|rstudio|code-server", re.IGNORECASE)
_SCALED = {"Deployment", "StatefulSet", "ReplicaSet"}
_OWNERS = re.compile(
    r"(?:^|[./])(?:owner|contact|email|maintainer|creator|username|user|team)$", re.IGNORECASE
)
"""Keys of labels and annotations that name a person or a team: `owner`, `hub.jupyter.org/username`."""


def is_notebook(subject: Subject, pod: Pod) -> bool:
    """By its kind, name, image or command: somebody works in it, nobody calls it."""
    words = (subject.kind, subject.name, *(w for c in pod.containers for w in (c.image, *c.command, *c.args)))
    return any(_NOTEBOOK.search(word[:1000]) for word in words)


def idle_fix(subject: Subject, pod: Pod) -> Fix:
    """Look, ask its owner, then keep it on purpose or release it."""
    notebook = is_notebook(subject, pod)
    expect = "The time of the last request or training step, or none at all."
    if notebook:
        expect = "When a kernel was last started or saved; a cell that only waits writes nothing."
    return Fix(
        "Ask its owner whether it is needed, then release or shrink it",
        (
            steps.describe_pod(pod),
            steps.read_log(pod, expect=expect),
            _ask(subject, pod, notebook=notebook),
            _keep(subject, notebook=notebook),
            _release(subject, notebook=notebook),
            steps.verify_finding_gone("The GPUs are free, or busy again."),
        ),
    )


def _ask(subject: Subject, pod: Pod, *, notebook: bool) -> Step:
    named = [
        f"{printable(key, 80)}={printable(value, 80)}"
        for fields in (pod.labels, pod.annotations)
        for key, value in sorted(fields.items())
        if value and _OWNERS.search(key)
    ]
    if named:
        who, how = (
            f"its owner, {named[0].partition('=')[2]}",
            f"Its pod says {', '.join(dict.fromkeys(named[:3]))}.",
        )
    else:
        who = f"whoever uses namespace {printable(subject.namespace, 80)}"
        how = "No label or annotation of its pod names an owner; those of its namespace may."
    lost = "Variables and data in the kernel's memory are lost when it is stopped: only its owner knows what is saved."
    if not notebook:
        lost = "Only its owner knows whether somebody waits for it, and what is lost when it stops."
    return steps.look(
        title=f"Ask {who}, whether {printable(subject.name, 120)} is needed",
        why=f"{how} {lost}",
        command=kubectl.get_yaml("namespace", subject.namespace),
        expect="Labels and annotations that name a team or a contact; then an answer: keep it, or release it.",
    )


def _keep(subject: Subject, *, notebook: bool) -> Step:
    reason = "in use by its owner" if notebook else "warm standby"
    why = "A standby that must answer at once may idle; the annotation on the workload says so to everybody."
    if notebook:
        why = "Its owner needs what the kernel holds; the annotation says so to everybody. It ends nothing."
    return Step(
        kind=StepKind.FIX,
        title="Keep it on purpose, if its owner says so" if notebook else "Keep it on purpose: mark a warm standby",
        why=why,
        risk=Risk.SAFE,
        command=kubectl.kubectl(
            "annotate", subject.kind.lower(), "-n", subject.namespace, *kubectl.named(subject.name),
            "gpuhealth.io/exempt=idle-gpu", f"gpuhealth.io/exempt-reason={reason}",
        ),
        expect="The finding closes as exempt and shows this reason.",
    )  # fmt: skip


def _release(subject: Subject, *, notebook: bool) -> Step:
    kind = subject.kind.lower()
    memory = (
        "Ends the notebook's kernels: variables and whatever they hold in memory are lost, with every file outside a "
        "volume."
    )
    if subject.kind in _SCALED:
        words, risk = ["scale", kind, "-n", subject.namespace, "--replicas=0"], Risk.DISRUPTIVE
        why = "Stops the service; its configuration stays and it can be scaled up again."
        if notebook:
            risk = Risk.DESTRUCTIVE
            why = f"{memory} Its volumes and configuration stay, and it can be scaled up again."
    else:
        words, risk = ["delete", kind, "-n", subject.namespace], Risk.DESTRUCTIVE
        why = "Ends the process: whatever it holds in memory and in its container's file system is lost."
        if notebook:
            why = memory
    return Step(
        kind=StepKind.FIX,
        title="Release its GPUs, once its owner agrees" + (" and has saved" if notebook else ""),
        why=why,
        risk=risk,
        command=kubectl.kubectl(*words, *kubectl.named(subject.name)),
        expect="The GPUs read as free at the next poll.",
    )

"""Changes to the text of a case about a waiting pod that leave its meaning alone."""

import re
from random import Random

_AVAILABLE = re.compile(r"(0/\d+ nodes are available: )(.+?)(\.(?: |$)|$)", re.MULTILINE)
_TAILS = (
    "", " preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling.",
    " no new claims to deallocate, preemption: 0/9 nodes are available: 9 No preemption victims found for "
    "incoming pod.",
)  # fmt: skip
_NAMES = ("alpha-7", "team.b-train-0", "x", "llama-3-8b-5c9f7d4b6-q7z2x", "job-of-the-week-12")


def reordered(text: str, random: Random) -> str:
    """Pods of a listing, and the reasons within the scheduler's words."""

    def again(match: re.Match[str]) -> str:
        items = re.split(r", (?=\d+ )", match[2])
        random.shuffle(items)
        return f"{match[1]}{', '.join(items)}{match[3]}"

    lines = _AVAILABLE.sub(again, text, count=1).splitlines()
    rows = [
        i for i, line in enumerate(lines) if " nvidia.com/gpu: " in line and "/1 " in line and line[0] != " "
    ]
    shuffled = random.sample(rows, len(rows))
    kept = [lines[shuffled[rows.index(i)]] if i in rows else line for i, line in enumerate(lines)]
    return "\n".join(kept) + "\n"


def renamed(text: str, random: Random) -> str:
    """Other names of pods, containers and quotas."""
    for number, old in enumerate(re.findall(r"^(\S+)\s+\d/\d ", text, re.MULTILINE)):
        text = re.sub(
            rf"^{re.escape(old)}\b", f"pod-{number}-{random.choice(_NAMES)}", text, flags=re.MULTILINE
        )
    text = re.sub(
        r"(name: )(\S+-container|gpu-pod)", lambda m: m[1] + f"c{random.randrange(9_999)}" + m[2][:2], text
    )
    text = text.replace("quota: medium", f"quota: {random.choice(_NAMES)}")
    return text.replace("notebook-user-1", random.choice(_NAMES))


def of_another_version(text: str, random: Random) -> str:
    """How other versions of the scheduler spell taints, and what they append."""
    text = re.sub(
        r"had untolerated taint(\(s\)| \{[^}]*\})",
        random.choice(["had untolerated taint(s)", "had untolerated taint {nvidia.com/gpu: present}"]),
        text,
    )
    text = text.replace("create Pod in", random.choice(["create Pod in", "Error creating: create Pod in"]))
    return re.sub(
        r"(nodes are available: [^#\n]*?\.)(?: (?:no new|preemption).*)?$",
        lambda m: m[1] + random.choice(_TAILS),
        text,
        count=1,
        flags=re.MULTILINE,
    )


def scaled(text: str, random: Random) -> str:
    """More GPUs a pod, more restarts, larger amounts; what does not fit does not fit either way."""
    factor = random.randrange(1, 9)
    text = re.sub(r"(nvidia\.com/gpu: )(\d+)", lambda m: f"{m[1]}{int(m[2]) * factor}", text)
    text = re.sub(r"restarts (\d+)", lambda m: f"restarts {random.randrange(9, 999)}", text)
    return re.sub(
        r"((?:limits|requests)\.cpu=)(\d+)(m?)", lambda m: f"{m[1]}{int(m[2]) * factor}{m[3]}", text
    )


def of_another_resource(text: str, random: Random) -> str:
    """A quota of something else that is not GPUs."""
    other = random.choice(["limits.cpu", "requests.cpu", "limits.memory", "requests.memory", "pods"])
    return text.replace("limits.cpu", other)


def among_more_nodes(text: str, random: Random) -> str:
    """Nodes without GPUs that refuse the pod as the others of them do."""
    more = random.randrange(40)
    found = re.search(r"0/(\d+) nodes", text)
    if found is None or "# GPU nodes" not in text:
        return text
    total = int(found[1])
    text = text.replace(f"0/{total} nodes", f"0/{total + more} nodes")
    return re.sub(
        r"(\d+)( Insufficient nvidia\.com/gpu| node\(s\) didn't match PersistentVolume)",
        lambda m: f"{int(m[1]) + more}{m[2]}",
        text,
        count=1,
    )

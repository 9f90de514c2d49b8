"""Changes to the text of a case that leave its meaning alone: numbers, names, order, versions, wrapping, ranks."""

import re
from random import Random

from tests.signatures.torch_messages import GENERATIONS, render

GIB = 2.0**30
_UNITS = {"bytes": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "GB": 2.0**30}
_AMOUNT = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?) (bytes|KiB|MiB|GiB|GB)\b")
_FIRST_OF_PAIR = re.compile(r"\((\d+\.\d+)(?=/\d+\.\d+ GiB\))")
"""`(31.44/47.38 GiB)`: the amount without a unit of its own."""
_SEGMENT_NUMBER = re.compile(r"((?:_size|'size)': )(\d+)")
_MIG = {"1g.5gb": 5, "2g.10gb": 10, "3g.20gb": 20, "1g.10gb": 10, "2g.20gb": 20, "3g.40gb": 40, "4g.40gb": 40}
_PREFIXES = ("[rank{}]: ", "[1,{}]<stderr>:", "worker-{}: ", "{}: ", "(RayTrainWorker pid=1{}, ip=10.0.0.7) ")
_NOISE = (
    "step 120 loss 2.3512 lr 1e-4", "INFO:root:saved checkpoint-100", "  0%|          | 0/1000 [00:00<?, ?it/s]",
    "WARNING: memory format is channels_last", "{'loss': 1.2, 'epoch': 0.4}", "Loading shards: 57%",
)  # fmt: skip


def scaled(text: str, random: Random) -> str:
    """All amounts of memory by one factor; a MIG profile moves to another with the request beside it."""
    factor = random.uniform(0.5, 3.0)
    profile = re.search(r"MIG (\d+g\.\d+gb)", text)
    if profile is not None:
        other = random.choice(sorted(_MIG))
        factor = _MIG[other] / _MIG[profile[1]]
        text = text.replace(profile[1], other)
    text = re.sub(
        r"OOM (\d+) / (\d+)", lambda m: f"OOM {int(int(m[1]) * factor)} / {int(int(m[2]) * factor)}", text
    )
    text = _SEGMENT_NUMBER.sub(lambda m: f"{m[1]}{int(int(m[2]) * factor)}", text)
    text = _FIRST_OF_PAIR.sub(lambda m: f"({float(m[1]) * factor:.2f}", text)
    return _AMOUNT.sub(lambda m: _printed(float(m[1]) * factor, m[2], whole="." not in m[1]), text)


def _printed(value: float, unit: str, *, whole: bool) -> str:
    return f"{value:.0f} {unit}" if whole else f"{value:.2f} {unit}"


def other_units(text: str, random: Random) -> str:
    """The amounts of a prose message in units that PyTorch prints."""

    def again(match: re.Match[str]) -> str:
        amount = float(match[1]) * _UNITS[match[2]]
        unit = random.choice(["bytes", "KiB", "MiB", "GiB"])
        if unit == "bytes":
            return f"{amount:.0f} bytes"
        return f"{amount / _UNITS[unit]:.2f} {unit}"

    return _AMOUNT.sub(again, text)


def renamed(text: str, random: Random) -> str:
    """Other PIDs, GPU indices, UUIDs, source line numbers, namespaces, pods and containers; each change consistent."""
    fresh = random.sample(range(1000, 4_000_000), 40)
    for number, old in enumerate(sorted(set(re.findall(r"(?<![\w.-])\d{5,7}(?=, \d+ MiB| has )", text)))):
        text = re.sub(rf"\b{old}\b", str(fresh[number]), text)
    index = random.randrange(8)
    text = re.sub(r"\bGPU \d(?=[ :])", f"GPU {index}", text)
    text = re.sub(r"\bDevice( +)\d\b", lambda m: f"Device{m[1]}{index}", text)
    text = re.sub(r"(\.(?:py|cpp|c|cc)[:\]]?:?)\d+", lambda m: f"{m[1]}{random.randrange(1, 3000)}", text)
    text = re.sub(r"pid:\d+", f"pid:{fresh[30]}", text)
    row = re.search(r"^\s*(?:pod/(\S+)|(\S+)\s+(\S+)\s+\d/\d)", text, re.MULTILINE)
    box = re.search(r"Container (\S+) failed", text)
    for old in filter(None, (row[1], row[3]) if row else ()):
        text = text.replace(old, f"pod-{fresh[31]}-x")
    if box is not None:
        text = re.sub(rf"Container {re.escape(box[1])}\b", f"Container srv-{fresh[32]}", text)
    return re.sub(r"^  app(\d)", lambda m: f"  step-{fresh[33]}-{m[1]}", text, flags=re.MULTILINE)


def reordered(text: str, random: Random) -> str:
    """Rows of a listing, lines of a log and sections of a description in another order."""
    lines = text.splitlines()
    rows = [i for i, line in enumerate(lines) if re.fullmatch(r"\d+, \d+ MiB", line)]
    if rows:
        shuffled = random.sample(rows, len(rows))
        lines = [lines[shuffled[rows.index(i)]] if i in rows else line for i, line in enumerate(lines)]
    elif "Init Containers:" in text:
        head, *boxes = re.split(r"(?m)^(?=  \S)", text)
        return head + "".join(random.sample([b if b.endswith("\n") else b + "\n" for b in boxes], len(boxes)))
    else:
        random.shuffle(lines)
    return "\n".join(lines) + "\n"


def keys_reordered(text: str, random: Random) -> str:
    """Keys of each printed segment in another order, `blocks` included."""

    def again(match: re.Match[str]) -> str:
        inner = match[0][1:-1]
        parts = re.split(r", (?='(?:active_size|allocated_size|total_size|segment_type|blocks)')", inner)
        random.shuffle(parts)
        return "{" + ", ".join(parts) + "}"

    return re.sub(r"(?m)^\{.*\}$", again, text)


def wrapped(text: str, random: Random) -> str:
    """Broken at blanks, as terminals and log wrappers do."""
    width = random.randrange(40, 160)
    lines: list[str] = []
    for line in text.splitlines():
        current = ""
        for word in line.split(" "):
            if current and len(current) + len(word) >= width:
                lines.append(current)
                current = word
            else:
                current = f"{current} {word}" if current else word
        lines.append(current)
    return "\n".join(lines) + "\n"


def cut(text: str, random: Random) -> str:
    """Cut at a column in the middle of words, as `fold` does."""
    width = random.randrange(50, 140)
    parts = [line[i : i + width] for line in text.splitlines() for i in range(0, max(1, len(line)), width)]
    return "\n".join(parts) + "\n"


def among_ranks(text: str, random: Random) -> str:
    """One rank of several writes it; the others write something else in between its lines."""
    prefix = random.choice(_PREFIXES)
    rank = random.randrange(4)
    out: list[str] = []
    for line in text.splitlines():
        out.append(prefix.format(rank) + line)
        if random.random() < 0.5:
            out.append(prefix.format(rank + 1 + random.randrange(3)) + random.choice(_NOISE))
    return "\n".join(out) + "\n"


def noisy(text: str, random: Random) -> str:
    """Other lines before and after."""
    before = [random.choice(_NOISE) for _ in range(random.randrange(30))]
    after = [random.choice(_NOISE) for _ in range(random.randrange(30))]
    return "\n".join([*before, text.rstrip("\n"), *after]) + "\n"


_NEW_SHAPE = re.compile(
    r"Tried to allocate (?P<requested>[\d.]+ \w+)\. GPU (?P<gpu>\d) has a total capacity of (?P<total>[\d.]+ \w+) "
    r"of which (?P<free>[\d.]+ \w+) is free\. Process (?P<pid>\d+) has (?P<process>[\d.]+ \w+) memory in use\. "
    r"Of the allocated memory (?P<allocated>[\d.]+ \w+) is allocated by PyTorch, and "
    r"(?P<unallocated>[\d.]+ \w+) is reserved"
)


def of_another_torch(text: str, random: Random) -> str:
    """The same numbers as another generation of PyTorch prints them; old ones list no processes."""
    found = _NEW_SHAPE.search(text)
    if found is None:
        return text
    told = {k: float(v.split()[0]) * _UNITS[v.split()[1]] for k, v in found.groupdict().items() if " " in v}
    return render(
        random.choice(GENERATIONS), requested=told["requested"], total=told["total"], free=told["free"],
        allocated=told["allocated"], unallocated=told["unallocated"], processes={int(found["pid"]): told["process"]},
        gpu=int(found["gpu"]), swapped=random.random() < 0.5, platform=random.choice(["CUDA", "HIP"]),
    )  # fmt: skip

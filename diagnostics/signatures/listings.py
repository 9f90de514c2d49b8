"""Listings that people and start scripts leave in logs: nvidia-smi, MIG devices, PyTorch's memory snapshot.

They are read line by line or brace by brace, which takes more than a regular expression.
"""

import re

from diagnostics.signatures.grammar import Numbers, Signature, Words, number

_MIB = 2.0**20
_FARTHEST = 8000
"""Characters around a match that a listing may span."""

_ROW = re.compile(
    r"(?:(?P<card>GPU-[0-9a-fA-F-]{36}), )?(?P<pid>\d{1,10}),(?: [^,\n]{1,160},)? ?(?P<used>\d{1,9}) MiB$"
    r"|(?P<used_first>\d{1,9}) MiB, ?(?P<pid_last>\d{1,10})$"
    r"|\| +(?P<index>\d{1,3}) +(?:\S{1,8} +\S{1,8} +)?(?P<pid_table>\d{1,10}) +[CGM+]{1,5} .{0,160}? "
    r"?(?P<used_table>\d{1,9})MiB \|$"
)
_CARD = re.compile(r"\d{1,9} ?MiB ?/ ?(?P<a>\d{1,9}) ?MiB|, (?P<b>\d{1,9}) MiB\)")

_KEY = r"['\"]{}['\"] ?: ?"
_TOTAL = re.compile(_KEY.format("total_size") + r"(\d{1,15})")
_ACTIVE = re.compile(_KEY.format("active_size") + r"(\d{1,15})")
_ALLOCATED = re.compile(_KEY.format("allocated_size") + r"(\d{1,15})")
_SIZE_OF_BLOCK = re.compile(_KEY.format("size") + r"(\d{1,15})")
_STATE_OF_BLOCK = re.compile(_KEY.format("state") + r"['\"](\w{1,40})")
_BLOCK = re.compile(r"\{[^{}]{0,600}\}")


def read_processes(text: str, start: int) -> tuple[Numbers, Words, int] | None:
    """Rows of `nvidia-smi --query-compute-apps` or of its process table: who holds how much of a GPU.

    Numbers: `process_<pid>_bytes` for each, `processes_count`, `used_bytes` in all, and `total_bytes` of the
    GPU where the text before says it. Rows of one GPU only: a second GPU's rows end the listing.
    """
    numbers: Numbers = {}
    seen = ""
    position = max(0, text.rfind("\n", 0, start) + 1)
    end = position
    headings = 3
    while len(numbers) < 200:
        stop = text.find("\n", position)
        line = text[position : stop if stop >= 0 else len(text)][:400].strip()
        row = _ROW.match(line)
        if row is None and not numbers and headings and stop >= 0:
            headings -= 1
            position = stop + 1
            continue
        if row is None:
            break
        card = row["card"] or row["index"] or ""
        if numbers and card != seen:
            break
        seen = card
        pid = row["pid"] or row["pid_last"] or row["pid_table"]
        used = number(row["used"] or row["used_first"] or row["used_table"])
        if used is not None:
            numbers[f"process_{pid}_bytes"] = used * _MIB
        end = position + len(line)
        if stop < 0:
            break
        position = stop + 1
    if not numbers:
        return None
    used_bytes = sum(numbers.values())
    numbers |= {"processes_count": float(len(numbers)), "used_bytes": used_bytes}
    before = _CARD.search(text, max(0, start - 400), end)
    total = number(before["a"] or before["b"]) if before else None
    if total is not None and total * _MIB >= used_bytes * 0.5:
        numbers["total_bytes"] = total * _MIB
    return numbers, {"gpu": seen} if seen else {}, end


def read_segment(text: str, start: int) -> tuple[Numbers, Words, int] | None:
    """One segment of `torch.cuda.memory_snapshot()`, printed as Python or JSON, keys in any order.

    Numbers: `total_bytes`, `active_bytes`, `largest_inactive_bytes`, `active_count`, `inactive_count` of its
    blocks.
    """
    first, last = _braces(text, start)
    segment = text[first:last].replace("\n", " ")
    total = _TOTAL.search(segment)
    active = _ACTIVE.search(segment) or _ALLOCATED.search(segment)
    if total is None or active is None:
        return None
    numbers: Numbers = {
        "total_bytes": float(total[1]),
        "active_bytes": float(active[1]),
        "active_count": 0.0,
        "inactive_count": 0.0,
        "largest_inactive_bytes": 0.0,
    }
    for block in _BLOCK.finditer(segment):
        size, state = _SIZE_OF_BLOCK.search(block[0]), _STATE_OF_BLOCK.search(block[0])
        if size is None or state is None:
            continue
        if state[1].startswith("active"):
            numbers["active_count"] += 1
        elif state[1] == "inactive":
            numbers["inactive_count"] += 1
            numbers["largest_inactive_bytes"] = max(numbers["largest_inactive_bytes"], float(size[1]))
    return numbers, {}, max(last, start + 1)


def _braces(text: str, inside: int) -> tuple[int, int]:
    """The braces around a position, nested ones skipped; bounded on both sides where they never close."""
    depth, first = 0, max(0, inside - _FARTHEST)
    for match in reversed(list(re.finditer(r"[{}]", text[first:inside]))):
        if match[0] == "{" and depth == 0:
            first += match.start()
            break
        depth += 1 if match[0] == "}" else -1
    depth, last = 0, min(len(text), inside + _FARTHEST)
    for match in re.finditer(r"[{}]", text[inside:last]):
        if match[0] == "}" and depth == 0:
            last = inside + match.end()
            break
        depth += 1 if match[0] == "{" else -1
    return first, last


SIGNATURES = (
    Signature(
        name="gpu-processes",
        needles=("used_memory", "used_gpu_memory", "MiB |"),
        pattern=r"used_(?:gpu_)?memory|\| +\d{1,3} +(?:\S{1,8} +\S{1,8} +)?\d{1,10} +[CGM+]{1,5} ",
        read=read_processes,
        before=200,
        example="nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader\n4711, 5144 "
        "MiB\n4712, 2070 MiB",
    ),
    Signature(
        name="mig-device",
        needles=("MIG ",),
        pattern=r"\bMIG (?P<profile>\d{1,2}[cg]\.(?:\d{1,2}[cg]\.)?(?P<slice>\d{1,4})gb(?:\+\w{1,20})?) "
        r"+Device +"
        r"(?P<device_index>\d{1,3}):",
        example="MIG 3g.20gb     Device  0: (UUID: MIG-00000000-0000-0000-0000-00000000000a)",
    ),
    Signature(
        name="torch-memory-segment",
        needles=("total_size",),
        pattern=r"['\"]total_size['\"] ?: ?\d",
        read=read_segment,
        before=2,
        example="{'active_size': 499214336, 'total_size': 11643387904, 'blocks': [{'size': 16515072, "
        "'state': 'active_allocated'}, {'size': 18191360, 'state': 'inactive'}]}",
    ),
)

"""Turns the text of a case about boards into a snapshot: kernel and plugin lines, `kubectl describe`, metric lines."""

import re
from random import Random

import msgspec

from diagnostics.collect.dcgm import Sample, devices_from
from diagnostics.collect.readings import DeviceReading
from diagnostics.signatures import signals_in
from diagnostics.snapshot import LogSignal, Pod, Snapshot
from tests.builders import NOW, gpu, node, pod, snapshot

_AMOUNT = re.compile(r"(Capacity|Allocatable):\s+nvidia\.com/gpu:\s+(\d+)")
_SERIES = re.compile(r"^(DCGM_\w+|dcgm_\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
PLUGIN = pod("plugin-x2", "gpu-operator", 0, labels={"app": "nvidia-device-plugin-daemonset"})


def picture(text: str, *, in_pod: bool) -> Snapshot:
    """`in_pod`: a kernel line stands in the log of a failing GPU pod, else a message about the node quotes it."""
    amounts = {what: float(count) for what, count in _AMOUNT.findall(text)}
    fitted, offered = amounts.get("Capacity", 8.0), amounts.get("Allocatable", 8.0)
    host = node(gpus=int(fitted), allocatable={"nvidia.com/gpu": offered})
    failing = pod("case-0")
    by_plugin = "health.go" in text or "XidCriticalError" in text
    printer: Pod = PLUGIN if by_plugin else failing
    told = signals_in(text, namespace=printer.namespace, pod=printer.name, container="main")
    if not in_pod and not by_plugin and "nvidia-smi" not in text:
        told = tuple(_about_node(signal) for signal in told)
    return snapshot(
        host, failing, PLUGIN, gpu(0, holders=(failing.key,)), signals=told, logs_read=(printer.key,)
    )


def _about_node(signal: LogSignal) -> LogSignal:
    return msgspec.structs.replace(
        signal, namespace="", pod="", container="", words=signal.words | {"node": "gpu-1"}, at=NOW
    )


def readings(text: str) -> tuple[DeviceReading, ...]:
    """The metric lines as an exporter's page, each taken at the same time."""
    return devices_from(
        Sample(name, dict(_LABEL.findall(labels)), float(value), NOW)
        for name, labels, value in _SERIES.findall(text)
    )


_NOISE = (
    "[ 12.001] nvidia-nvlink: Nvlink Core is being initialized, major device number 510",
    "[ 17.4] audit: type=1400 apparmor=STATUS", "usb 1-1: new high-speed USB device number 2",
    "I0102 03:04:05.000001       1 server.go:216] Registered device plugin for 'nvidia.com/gpu' with Kubelet",
    "eth0: renamed from veth12ab", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07",
)  # fmt: skip
_PREFIXES = ("[{0}.{1:06}] ", "[Tue Nov  3 10:1{2}:12 2026] ", "Nov  3 10:1{2}:12 worker-7 kernel: ", "")


def renumbered(text: str, random: Random) -> str:
    """Another board, process, UUID and driver version."""
    bus = f"{random.randrange(1, 255):02x}:00"
    text = re.sub(r"\b(0000|0009):[0-9a-f]{2}:00", lambda m: f"{m[1]}:{bus}", text)
    text = re.sub(r"pid=\d+", f"pid={random.randrange(2, 4_000_000)}", text)
    name = random.choice(["python3", "ray::train", "a.out", "VLLM::Worker", "pt_main_thread"])
    text = re.sub(r"name=\w+", f"name={name}", text)
    uuid = f"{random.randrange(16**8):08x}-0000-4000-8000-{random.randrange(16**12):012x}"
    text = re.sub(r"GPU-0{8}-0000-0000-0000-0{11}\d", f"GPU-{uuid}", text)
    return text.replace("570.158.01", random.choice(["535.183.06", "560.35.03", "580.95.05"]))


def other_numbers(text: str, random: Random) -> str:
    """Other codes of the same kind, other counts of rows and GPUs."""
    text = re.sub(r"(?<=\): )43(?=,)", str(random.choice([13, 31, 43, 69])), text)
    text = re.sub(r"Xid=94", f"Xid={random.choice([94, 63, 46, 62, 119])}", text)
    text = re.sub(r"(?<=Uncorrectable Error               : )4", str(random.randrange(1, 400)), text)
    fitted = random.randrange(2, 17)
    text = re.sub(r"(Capacity:\s+nvidia\.com/gpu:\s+)8", rf"\g<1>{fitted}", text)
    return re.sub(r"(Allocatable:\s+nvidia\.com/gpu:\s+)7", rf"\g<1>{random.randrange(fitted)}", text)


def other_logger(text: str, random: Random) -> str:
    """Kernel lines as dmesg, its -T, or syslog print them, the continued ones too."""
    if "NVRM" not in text:
        return text
    prefix = random.choice(_PREFIXES).format(
        random.randrange(9_999), random.randrange(999_999), random.randrange(10)
    )
    text = re.sub(r"^\s*\[ ?[\d.]+\] ", prefix, text, flags=re.MULTILINE)
    return re.sub(r"^\s{4,}(?=NVRM)", prefix if random.random() < 0.5 else "      ", text, flags=re.MULTILINE)


def noisy(text: str, random: Random) -> str:
    """Lines of other things before and after, and between messages that stand on one line."""
    lines = text.splitlines()
    kept: list[str] = []
    is_whole = all(("NVRM: Xid" in line) or ("Xid=" in line) for line in lines)
    for line in lines:
        if is_whole or not kept:
            kept += random.sample(_NOISE, random.randrange(3))
        kept.append(line)
    return "\n".join([*kept, *random.sample(_NOISE, random.randrange(3))]) + "\n"

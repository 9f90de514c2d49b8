"""Kernel messages of the NVIDIA driver: Xid, a GPU that fell off the bus, and NVSwitch errors.

Shapes: NVIDIA's "Xid Errors" guide; the switch's lines from its Fabric Manager guide.
"""

from diagnostics.signatures.grammar import Signature

_PCI = r"(?:PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"

SIGNATURES = (
    Signature(
        name="xid",
        needles=("NVRM: Xid",),
        pattern=rf"NVRM: Xid \({_PCI}(?: GPU-I:(?P<mig_instance>\d{{1,3}}))?\): (?P<xid_code>\d{{1,4}}),"
        r"(?: pid=(?P<process_id>[^,\n]{1,40}), name=(?P<process>[^,\n]{1,80}),)? ?(?P<message>[^\n]{0,160})",
        is_one_line=True,
        example="NVRM: Xid (PCI:0000:0f:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the "
        "bus.",
    ),
    Signature(
        name="gpu-fallen-off-bus",
        needles=("allen off the bus",),
        pattern=r"NVRM: GPU (?:at (?:PCI:)?)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?):? "
        r"(?:GPU )?has fallen off the bus"
        r"|The NVIDIA GPU (?P<probed>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"
        r"(?: (?!The NVIDIA GPU)\S{1,60}){0,40}? \(PCI ID: [^)\n]{1,40}\)"
        r"(?: (?!The NVIDIA GPU)\S{1,60}){0,60}? off the bus",
        before=900,
        example="NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",
    ),
    Signature(
        name="gpu-power-missing",
        needles=("power cables connected",),
        pattern=rf"NVRM: GPU {_PCI}: GPU does not have the necessary power cables connected",
        before=80,
        example="NVRM: GPU 0000:01:00.0: GPU does not have the necessary power cables connected.",
    ),
    Signature(
        name="gpu-init-failed",
        needles=("m_init_adapter failed", "mInitAdapter failed"),
        pattern=rf"NVRM: GPU {_PCI}: [Rr](?:m_init_adapter|mInitAdapter) failed",
        before=60,
        example="NVRM: GPU 0000:18:00.0: rm_init_adapter failed, device minor number 3",
    ),
    Signature(
        name="nvswitch-sxid",
        needles=("SXid (",),
        pattern=rf"SXid \({_PCI}\): (?P<sxid_code>\d{{1,6}}), (?P<message>[^\n]{{0,160}})",
        is_one_line=True,
        example="nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up",
    ),
)

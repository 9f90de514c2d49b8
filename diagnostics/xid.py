"""NVIDIA Xid errors: one row per code, what it means and what to do, for Ampere and newer.

Meanings and actions: NVIDIA's Xid catalogue
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html). Class and severity are this project's
reading of it: the catalogue gives only the actions. Codes that are not listed are unused or reserved there.
"""

import re
from enum import StrEnum

import msgspec

CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"


class XidClass(StrEnum):
    """Where the cause most likely is."""

    HARDWARE = "hardware"
    MEMORY = "memory"
    LINK = "link"
    DRIVER = "driver"
    APPLICATION = "application"
    CONSEQUENCE = "consequence"
    """Follows another Xid, or a process that was ended: says nothing by itself."""


class XidSeverity(StrEnum):
    """How bad one code is."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class XidAction(StrEnum):
    """The immediate action of the catalogue."""

    NONE = "none"
    RESTART_APP = "restart the application"
    RESET_GPU = "reset the GPU"
    REBOOT = "reboot the node"
    CHECK_MECHANICALS = "check seating and power cables"
    UPDATE_SOFTWARE = "update driver or firmware"
    SUPPORT = "contact the vendor"


class Xid(msgspec.Struct, frozen=True):
    """One code. `is_fatal`: the GPU, or the node, needs a reset, a reboot or a replacement."""

    code: int
    slug: str
    meaning: str
    kind: XidClass
    severity: XidSeverity
    action: XidAction
    is_fatal: bool = False
    fatal_when: str = ""
    """Regular expression on the kernel's words that makes a code fatal whose number alone does not say."""
    source: str = CATALOGUE

    def is_fatal_with(self, message: str) -> bool:
        """Whether it is fatal, given the kernel's words (empty when only the code is known)."""
        return self.is_fatal or bool(self.fatal_when and re.search(self.fatal_when, message[:2000]))


_H, _M, _L = XidClass.HARDWARE, XidClass.MEMORY, XidClass.LINK
_D, _A, _C = XidClass.DRIVER, XidClass.APPLICATION, XidClass.CONSEQUENCE
_CRIT, _WARN, _INFO = XidSeverity.CRITICAL, XidSeverity.WARNING, XidSeverity.INFO
_NONE, _APP, _RESET, _REBOOT = XidAction.NONE, XidAction.RESTART_APP, XidAction.RESET_GPU, XidAction.REBOOT
_CHECK, _UPDATE, _SUPPORT = XidAction.CHECK_MECHANICALS, XidAction.UPDATE_SOFTWARE, XidAction.SUPPORT

_FATAL_WORD = r"(?<!Non)(?<!Non-)\bFatal\b"
"""NVLink5 lines print Fatal or Nonfatal: `NETIR_LINK_EVT Fatal XC0 i0 Link 08 (…)`."""

_COPY = "error of a copy engine"
_NVDEC = "error of the video decoder (NVDEC)"
_NVJPG = "error of the JPEG decoder (NVJPG)"
_LINK5 = "NVLink5 error of the"

_ROWS: tuple[Xid, ...] = (
    Xid(8, "gpu-fifo-timeout", "GPU stopped processing: idle time-out of its queue", _D, _WARN, _APP),
    Xid(11, "corrupt-push-buffer", "invalid or corrupt push buffer", _A, _WARN, _APP),
    Xid(13, "graphics-engine-exception", "graphics engine exception: illegal access or instruction", _A,
        _WARN, _APP),
    Xid(14, "fake-channel-error", "fake channel error", _C, _INFO, _NONE),
    Xid(25, "illegal-push-buffer", "illegal push buffer", _A, _WARN, _APP),
    Xid(31, "gpu-page-fault", "GPU memory page fault", _A, _WARN, _APP),
    Xid(32, "corrupt-pbdma", "corrupt push buffer stream", _A, _WARN, _APP),
    Xid(37, "driver-firmware-error", "driver firmware error", _D, _INFO, _NONE),
    Xid(38, "driver-firmware-error", "driver firmware error", _D, _INFO, _NONE),
    *(Xid(code, "copy-engine-error", _COPY, _A, _WARN, _APP)
      for code in (39, 40, 41, 70, 71, 72, 75, 76, 77, 85)),
    Xid(43, "channel-reset-by-application", "the faulting process was stopped", _A, _WARN, _NONE),
    Xid(44, "context-switch-fault", "fault during a context switch", _D, _INFO, _NONE),
    Xid(45, "channel-removed", "channel removed after another error, or with a process that was ended", _C,
        _INFO, _NONE),
    Xid(46, "gpu-timeout", "GPU stopped processing: time-out", _D, _CRIT, _RESET, is_fatal=True),
    Xid(48, "double-bit-ecc", "uncorrectable (double-bit) ECC error", _M, _CRIT, _RESET, is_fatal=True),
    Xid(54, "auxiliary-power-missing", "auxiliary power is not connected", _H, _CRIT, _CHECK, is_fatal=True),
    Xid(60, "video-engine-exception", "exception of the video or SEC2 engine", _D, _WARN, _APP),
    Xid(62, "gpu-microcontroller-halt", "the GPU's micro-controller (PMU) halted", _D, _CRIT, _RESET,
        is_fatal=True),
    Xid(63, "row-remap-recorded", "row remap or page retirement recorded; takes effect at the next reset", _M,
        _WARN, _NONE),
    Xid(64, "row-remap-failed", "row remap or page retirement failed", _M, _CRIT, _RESET, is_fatal=True),
    Xid(66, "illegal-driver-access", "illegal access by the driver", _D, _INFO, _NONE),
    Xid(67, "illegal-driver-access", "illegal access by the driver", _D, _INFO, _NONE),
    *(Xid(code, "video-decoder-error", _NVDEC, _A, _WARN, _APP) for code in (68, 83, 84, 88, 89, 96, 97, 98)),
    Xid(69, "graphics-engine-class-error", "graphics engine class error", _A, _WARN, _APP),
    Xid(74, "nvlink-error", "NVLink error", _L, _CRIT, _RESET, is_fatal=True),
    Xid(78, "vgpu-start-error", "vGPU could not start", _D, _WARN, _UPDATE),
    Xid(79, "gpu-fallen-off-bus", "GPU has fallen off the bus", _H, _CRIT, _REBOOT, is_fatal=True),
    Xid(80, "corrupt-data-to-gpu", "corrupted data was sent to the GPU", _A, _WARN, _APP),
    *(Xid(code, "jpeg-decoder-error", _NVJPG, _A, _WARN, _APP)
      for code in (82, 99, 100, 101, 102, 103, 104, 105)),
    Xid(86, "optical-flow-error", "error of the optical flow accelerator (OFA)", _A, _WARN, _APP),
    Xid(92, "high-single-bit-ecc-rate", "high rate of corrected (single-bit) ECC errors", _M, _WARN, _NONE),
    Xid(93, "inforom-wear", "the InfoROM nears its write limit", _H, _INFO, _NONE),
    Xid(94, "contained-memory-error", "contained memory error: only the affected process ends",
        _M, _WARN, _APP),
    Xid(95, "uncontained-memory-error", "uncontained memory error: every process on the GPU is lost",
        _M, _CRIT,
        _RESET, is_fatal=True),
    Xid(106, "smbpbi-test", "SMBPBI test message", _C, _INFO, _NONE),
    Xid(107, "smbpbi-test", "SMBPBI test message", _C, _INFO, _NONE),
    Xid(108, "nvlink-remote-translation-error",
        "NVLink remote translation error, mostly of a peer's application",
        _A, _WARN, _NONE),
    # The catalogue says reset, the device plugin takes it for the application's: left as a warning.
    Xid(109, "context-switch-timeout", "time-out of a context switch", _D, _WARN, _RESET),
    Xid(110, "security-fault", "security fault", _D, _CRIT, _RESET, is_fatal=True),
    Xid(119, "gsp-rpc-timeout", "time-out of a call to the GPU's system processor (GSP)", _D, _CRIT, _RESET,
        is_fatal=True),
    Xid(120, "gsp-error", "error of the GPU's system processor (GSP)", _D, _CRIT, _RESET, is_fatal=True),
    Xid(121, "c2c-link-error", "error of the chip-to-chip link", _L, _WARN, _NONE),
    *(Xid(code, "inforom-access-failed", "SPI or InfoROM access failed", _H, _WARN, _NONE)
      for code in (122, 123, 124, 125)),
    *(Xid(code, "copy-engine-error", _COPY, _A, _WARN, _APP) for code in range(126, 136)),
    Xid(136, "nvlink-training-failed", "training of an NVLink failed", _L, _CRIT, _RESET, is_fatal=True),
    Xid(137, "nvlink-privilege-error", "NVLink privilege error, mostly of a peer's application",
        _A, _WARN, _NONE),
    Xid(139, "optical-flow-error", "error of the optical flow accelerator (OFA)", _A, _WARN, _APP),
    Xid(140, "unrecovered-ecc", "unrecovered ECC error", _M, _CRIT, _RESET, is_fatal=True),
    Xid(141, "fast-path-error", "fast-path error", _D, _INFO, _NONE),
    Xid(142, "video-encoder-error", "error of the third video encoder (NVENC3)", _H, _WARN, _SUPPORT),
    Xid(143, "gpu-initialisation-failed", "initialisation of the GPU failed",
        _H, _CRIT, _RESET, is_fatal=True),
    *(Xid(code, "nvlink5-error", f"{_LINK5} {unit} unit", _L, _WARN, _NONE, fatal_when=_FATAL_WORD)
      for code, unit in ((144, "SAW"), (145, "RLW"), (146, "TLW"), (147, "TREX"), (148, "NVLPW"),
                         (149, "NETIR"))),
    Xid(150, "nvlink5-error", f"{_LINK5} MSE unit", _L, _WARN, _RESET, fatal_when=_FATAL_WORD),
    Xid(151, "key-rotation-error", "key rotation error of confidential computing", _D, _CRIT, _REBOOT,
        is_fatal=True),
    Xid(152, "dla-error", "error of the deep learning accelerator", _C, _INFO, _NONE),
    Xid(153, "dla-error", "error of the deep learning accelerator", _C, _INFO, _NONE),
    # Only points at the recovery action (field 1523): none, reset, reboot, drain P2P, drain and reset.
    Xid(154, "recovery-action-changed", "the GPU's recovery action changed", _C, _WARN, _NONE,
        fatal_when=r"\bto 0x[124]\b"),
    Xid(155, "nvlink-disabled", "NVLink error found by software, for example a link disabled",
        _L, _CRIT, _RESET,
        is_fatal=True),
    Xid(156, "resource-retired", "a resource of the GPU was retired; plan a reset", _M, _WARN, _RESET),
    Xid(157, "resource-retirement-failed", "retiring a resource of the GPU failed", _H, _CRIT, _SUPPORT,
        is_fatal=True),
    Xid(158, "gpu-fatal-timeout", "fatal time-out of the GPU", _H, _CRIT, _RESET, is_fatal=True),
    Xid(159, "chi-error", "CHI error (Grace)", _H, _WARN, _NONE),
    Xid(160, "memory-channel-retired", "a memory channel was retired", _M, _WARN, _NONE),
    Xid(161, "memory-channel-retirement-failed", "retiring a memory channel failed", _M, _CRIT, _SUPPORT,
        is_fatal=True),
    *(Xid(code, "power-smoothing", "state of the power-smoothing hardware", _H, _INFO, _NONE)
      for code in (162, 163, 164)),
    Xid(165, "power-smoothing", "state of the power-smoothing hardware", _H, _WARN, _NONE),
    Xid(166, "nvlink-security-error", "NVLink security error of confidential computing", _L, _WARN, _NONE),
    Xid(167, "pcie-fatal-timeout", "fatal PCIe time-out", _H, _CRIT, _REBOOT, is_fatal=True),
    Xid(168, "reduced-gpu-memory", "the GPU runs with reduced memory capacity",
        _M, _CRIT, _SUPPORT, is_fatal=True),
    Xid(169, "sec2-halt", "the SEC2 processor halted", _D, _CRIT, _RESET, is_fatal=True),
    Xid(170, "nvlink-security-error", "NVLink security error of confidential computing", _L, _WARN, _NONE),
    Xid(171, "uncorrectable-dram-error", "uncorrectable error in DRAM (detail of 48)", _M, _CRIT, _RESET,
        is_fatal=True),
    Xid(172, "uncorrectable-sram-error", "uncorrectable error in SRAM (detail of 48)", _M, _CRIT, _RESET,
        is_fatal=True),
)  # fmt: skip

XIDS: dict[int, Xid] = {row.code: row for row in _ROWS}


def lookup(code: int) -> Xid | None:
    """The row of one code; None for a code that the catalogue does not use."""
    return XIDS.get(code)

"""Messages of the CUDA driver and runtime, of NVML and of NVIDIA's container runtime when a GPU cannot be used.

What the operator's own containers say as well stands in `operator_pods` and `driver_install`.

Names of error codes: CUDA driver API `CUresult` and runtime API `cudaError`; NVML `nvmlReturn_t`; nvidia-container-cli
and nvidia-ctk of NVIDIA/libnvidia-container and NVIDIA/nvidia-container-toolkit. Frameworks print the same words.
"""

from diagnostics.signatures.grammar import Signature

_VERSION = r"\d{1,4}(?:\.\d{1,5}){0,3}"
_AT_LEAST = r"(?:>=|>|==?|<=|<|\\u003[ce]=?|&[lg]t;=?)"

SIGNATURES = (
    Signature(
        name="cuda-requirement-unmet",
        needles=("unsatisfied condition",),
        pattern=rf"unsatisfied condition: ?(?P<key>cuda|driver|arch|brand) ?{_AT_LEAST} ?(?P<wanted>[\w.]{{1,40}}?)"
        r"(?=[,;:\s\\\"']|\.\s|\.?$)",
        is_repeated=True,
        example="nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver "
        "to a newer version, or use an earlier cuda container: unknown",
    ),
    Signature(
        name="cuda-driver-insufficient",
        needles=("driver version is insufficient", "InsufficientDriver"),
        pattern=r"driver version is insufficient for (?:the )?CUDA runtime|cudaErrorInsufficientDriver",
        is_repeated=True,
        example="RuntimeError: CUDA driver initialization failed: CUDA driver version is insufficient for CUDA runtime "
        "version",
    ),
    Signature(
        name="torch-driver-too-old",
        needles=("driver on your system is too old",),
        pattern=r"NVIDIA driver on your system is too old \(found version (?P<found>\d{4,6})\)",
        is_repeated=True,
        example="RuntimeError: The NVIDIA driver on your system is too old (found version 11080). Please update your "
        "GPU driver",
    ),
    Signature(
        name="ngc-driver-too-old",
        needles=("was built for NVIDIA Driver Release",),
        pattern=rf"was built for NVIDIA Driver Release (?P<wanted>{_VERSION}) or later, but (?:version "
        rf"(?P<found>{_VERSION}) was|the container is being run|.{{0,80}}) ?(?:detected )?(?:and )?compatibility mode "
        r"is UNAVAILABLE",
        is_repeated=True,
        example="ERROR: This container was built for NVIDIA Driver Release 535.86 or later, but version 470.182.03 was "
        "detected and compatibility mode is UNAVAILABLE.",
    ),
    Signature(
        name="cuda-compat-unsupported",
        needles=("orward compatibility was attempted", "CompatNotSupportedOnDevice", "COMPAT_NOT_SUPPORTED_ON"),
        pattern=r"[Ff]orward compatibility was attempted on non[ -]?supported HW|cudaErrorCompatNotSupportedOnDevice"
        r"|CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        is_repeated=True,
        example="RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was "
        "attempted on non supported HW",
    ),
    Signature(
        name="cuda-driver-mismatch",
        needles=("unsupported display driver", "SystemDriverMismatch", "SYSTEM_DRIVER_MISMATCH"),
        pattern=r"unsupported display driver ?/ ?cuda driver combination|cudaErrorSystemDriverMismatch"
        r"|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        is_repeated=True,
        example="RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display "
        "driver / cuda driver combination",
    ),
    Signature(
        name="cuda-library-mismatch",
        needles=("does not match DSO version",),
        pattern=rf"kernel (?:reported )?version(?: is:?)? (?P<kernel>{_VERSION}) does not match DSO version "
        rf"(?P<library>{_VERSION})",
        is_repeated=True,
        example="E cuda_diagnostics.cc:313] kernel version 470.57.2 does not match DSO version 460.32.3 -- cannot find "
        "working devices in this configuration",
    ),
    Signature(
        name="cuda-ptx-unsupported",
        needles=("compiled with an unsupported toolchain", "UnsupportedPtxVersion", "UNSUPPORTED_PTX_VERSION",
                 "Unsupported .version"),
        pattern=r"PTX was compiled with an unsupported toolchain|cudaErrorUnsupportedPtxVersion"
        r"|CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
        r"|Unsupported \.version (?P<wanted>\d{1,2}\.\d{1,2}); current version is '(?P<known>\d{1,2}\.\d{1,2})'",
        is_repeated=True,
        example="RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
    ),
    Signature(
        name="cuda-no-kernel-image",
        needles=("no kernel image is available", "NoKernelImageForDevice", "NO_BINARY_FOR_GPU",
                 "kernel image is invalid", "invalid device function",
                 "NoBinaryForGpu"),
        pattern=r"no kernel image is available for execution on the device|cudaErrorNoKernelImageForDevice"
        r"|CUDA_ERROR_NO_BINARY_FOR_GPU|hipErrorNoBinaryForGpu|device kernel image is invalid"
        r"|error: invalid device function",
        is_repeated=True,
        example="torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
    ),
    Signature(
        name="torch-arch-unsupported",
        needles=("is not compatible with the current PyTorch", "PyTorch no longer supports this GPU",
                 "cuda capability supported by this version of PyTorch"),
        pattern=r"(?:with CUDA capability (?P<architecture>sm_\d{2,3}a?) is not compatible with the current PyTorch"
        r"|cuda capability (?P<capability>\d{1,2}\.\d)\.? ?(?:PyTorch no longer supports|.{0,40}?"
        r"Minimum and Maximum cuda capability supported by this version of PyTorch))",
        fields={
            "supported": r"supports CUDA capabilities (?P<supported>sm_\d{2,3}[\w ]{0,150}?)(?=\.| ?If|$)",
            "range": r"PyTorch is \((?P<least>\d{1,2}\.\d)\) - \((?P<most>\d{1,2}\.\d)\)",
        },
        before=200,
        is_repeated=True,
        example="UserWarning: NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current "
        "PyTorch installation. The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 "
        "sm_86 sm_90.",
    ),
    Signature(
        name="cuda-arch-unknown",
        needles=("is not defined for option 'gpu-name'", "nsupported gpu architecture",
                 "not compiled with any CUDA arch", "not in the list of supported gpu arch"),
        pattern=r"Value '(?P<value>(?:sm|compute)_\d{2,3}[af]?)' is not defined for option 'gpu-name'"
        r"|[Uu]nsupported gpu architecture '?(?P<architecture>(?:sm|compute)_\d{2,3}[af]?)'?"
        r"|not compiled with any CUDA arch (?:<=|>=) ?(?P<limit>\d{3,4})",
        is_repeated=True,
        example="ptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'",
    ),
    Signature(
        name="nvml-failed",
        needles=("nitialize NVML", "NVMLError", "nvml init failed", "nvml error"),
        pattern=r"(?:[Ff]ailed to [Ii]nitialize NVML|nvml init failed|(?:initialization|detection) error: nvml error"
        r"|NVMLError_\w{3,40})[:(]? ?"
        r"(?P<why>ERROR_(?:LIB_RM_VERSION_MISMATCH|DRIVER_NOT_LOADED|UNKNOWN|NO_PERMISSION)"
        r"|[Dd]river/library version mismatch|RM has detected an NVML/RM version mismatch"
        r"|(?<!initialization error: nvml error: )(?:[Uu]nknown [Ee]rror|[Dd]river [Nn]ot [Ll]oaded)"
        r"|[Ii]nsufficient [Pp]ermissions|[Nn]o [Pp]ermission)",
        fields={"library": rf"NVML library version: (?P<library>{_VERSION})"},
        is_repeated=True,
        example="Failed to initialize NVML: Driver/library version mismatch NVML library version: 535.183",
    ),
    Signature(
        name="nvrm-api-mismatch",
        needles=("API mismatch",),
        pattern=rf"API mismatch: the client(?: has the version|,? '?version'?) (?P<library>{_VERSION}),? ?"
        rf"(?:but|while) (?:NVRM: )?this kernel module has the version (?P<kernel>{_VERSION})",
        is_repeated=True,
        example="NVRM: API mismatch: the client has the version 535.183.01, but this kernel module has the version "
        "535.161.08.",
    ),
    Signature(
        name="nvidia-device-unknown",
        needles=(": unknown device", "device error:"),
        pattern=r"device error: (?P<device>[\w:/-]{1,80}): unknown device",
        is_repeated=True,
        example="nvidia-container-cli: device error: GPU-00000000-0000-0000-0000-000000000001: unknown device: unknown",
    ),
    Signature(
        name="cuda-no-device",
        needles=("o CUDA-capable device", "CUDA_ERROR_NO_DEVICE", "cudaErrorNoDevice",
                 "No CUDA GPUs are available"),
        pattern=r"[Nn]o CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice"
        r"|No CUDA GPUs are available",
        is_repeated=True,
        example="RuntimeError: CUDA error: no CUDA-capable device is detected",
    ),
    Signature(
        name="no-nvidia-driver",
        needles=("Found no NVIDIA driver", "NVIDIA Driver was not detected", "kernel driver does not appear",
                 "Could not find cuda drivers", "libcuda.so.1", "Failed to infer device type",
                 "find libnvidia-ml.so", "find libNVIDIA-ML.so", "detect NVIDIA driver version"),
        pattern=r"Found no NVIDIA driver on your system|NVIDIA Driver was not detected"
        r"|kernel driver does not appear to be running on this host|Could not find cuda drivers on your machine"
        r"|libcuda\.so\.1[:'\"]? ?;?(?:dlerror: libcuda\.so\.1: )?:? ?cannot open shared object file"
        r"|Failed to infer device type|couldn't find lib(?:nvidia-ml|NVIDIA-ML)\.so"
        r"|Failed to detect NVIDIA driver version",
        is_repeated=True,
        example="RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and "
        "installed a driver.",
    ),
    Signature(
        name="torch-without-cuda",
        needles=("Torch not compiled with CUDA",),
        pattern=r"Torch not compiled with CUDA enabled",
        is_repeated=True,
        example="AssertionError: Torch not compiled with CUDA enabled",
    ),
    Signature(
        name="cuda-not-ready",
        needles=("ystem not yet initialized", "SystemNotReady", "SYSTEM_NOT_READY", "cuInit: 802", "returned 802"),
        pattern=r"[Ss]ystem not yet initialized|cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY|returned 802\b",
        is_repeated=True,
        example="RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
    ),
    Signature(
        name="fabric-manager-mismatch",
        needles=("match with driver version",),
        pattern=rf"interface version (?P<library>{_VERSION}) (?:don't|doesn't|does not) match with driver version "
        rf"(?P<kernel>{_VERSION})",
        is_repeated=True,
        example="fabric manager NVIDIA GPU driver interface version 535.129.03 don't match with driver version "
        "535.154.05. Please update with matching NVIDIA driver package.",
    ),
    Signature(
        name="cuda-unknown-error",
        needles=("CUDA unknown error", "CUDA_ERROR_UNKNOWN", "cudaErrorUnknown"),
        pattern=r"CUDA unknown error - this may be due to an incorrectly set up environment|CUDA_ERROR_UNKNOWN"
        r"|cudaErrorUnknown\b",
        is_repeated=True,
        example="RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. "
        "changing env variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.",
    ),
    Signature(
        name="runtime-handler-missing",
        needles=("no runtime for", "find runtime handler", "unknown or invalid runtime name",
                 "nknown runtime specified"),
        pattern=r"no runtime for \\?\"(?P<handler>[\w.-]{1,63})\\?\" is configured"
        r"|find runtime handler (?P<crio>[\w.-]{1,63}) from runtime list"
        r"|(?:unknown or invalid runtime name|[Uu]nknown runtime specified):? (?P<docker>[\w.-]{1,63})",
        is_repeated=True,
        example='Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no '
        'runtime for "nvidia" is configured',
    ),
    Signature(
        name="runtime-class-missing",
        needles=("RuntimeClass", "runtimeclass"),
        pattern=r"[Rr]untime[Cc]lass(?:es)?(?:\.node\.k8s\.io)? \\?\"(?P<name>[\w.-]{1,253})\\?\" not found",
        is_repeated=True,
        example='Error creating: pods "infer-0" is forbidden: pod rejected: RuntimeClass "nvidia" not found',
    ),
    Signature(
        name="cdi-device-unresolvable",
        needles=("CDI device", "could not select device driver"),
        pattern=r"unresolvable CDI devices? (?P<device>[\w./=:-]{3,120})|failed to inject CDI devices"
        r"|CDI device injection failed|could not select device driver \\?\"(?:nvidia)?\\?\"",
        is_repeated=True,
        example="Error: failed to generate spec: failed to apply OCI options: CDI device injection failed: "
        "unresolvable CDI devices nvidia.com/gpu=GPU-00000000-0000-0000-0000-000000000001",
    ),
)  # fmt: skip

"""Messages of the GPU Operator's other containers: toolkit, device plugin, validator, MIG manager, DCGM, discovery."""

from diagnostics.signatures.grammar import Signature

SIGNATURES = (
    Signature(
        name="nvml-library-not-found",
        needles=(
            "load NVML library",
            "ERROR_LIBRARY_NOT_FOUND",
            "Incompatible platform detected",
            "Incompatible strategy",
            "non-NVML platform",
            "NVML not detected",
            "did you configure the NVIDIA Container",
            "default runtime to",
            "NVML Shared Library Not Found",
            "libnvidia-ml.so",
            "did you set the docker",
        ),
        pattern=r"(?:could not|[Ff]ailed to) load NVML library(?:: libnvidia-ml\.so(?:\.1)?)?|ERROR_LIBRARY_NOT_FOUND"
        r"|Incompatible (?:platform|strategy) detected(?: auto)?|[Dd]etected non-NVML platform|NVML not detected"
        r"|did you configure the NVIDIA Container (?:Toolkit|Runtime)|did you set the docker default runtime"
        r"|NVML Shared Library Not Found"
        r"|(?<!load library failed: )libnvidia-ml\.so(?:\.1)?: cannot open shared object file",
        before=120,
        reach=200,
        is_repeated=True,
        example="I0121 20:28:50.871846 1 factory.go:107] Detected non-NVML platform: could not load NVML library: "
        "libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
    ),
    Signature(
        name="nvidia-smi-not-injected",
        needles=("nvidia-smi",),
        pattern=r"exec: \\?\"nvidia-smi\\?\": executable file not found|nvidia-smi: command not found",
        before=40,
        reach=120,
        is_repeated=True,
        example='toolkit is not ready: exec: "nvidia-smi": executable file not found in $PATH',
    ),
    Signature(
        name="host-driver-missing",
        needles=("load library failed", "driver not loaded", "validate host driver", "validate the driver"),
        pattern=r"initialization error: (?:load library failed: libnvidia-ml\.so\S{0,4}|nvml error: driver not loaded)"
        r"|[Ff]ailed to validate (?:the )?(?:host )?driver",
        before=120,
        reach=300,
        is_repeated=True,
        example="nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
    ),
    Signature(
        name="driver-not-responding",
        needles=("driver rpc error", "nvml error: unknown", "allen off the bus or", "RmInitAdapter failed"),
        pattern=r"driver rpc error: timed out|initialization error: nvml error: unknown error|RmInitAdapter failed",
        before=80,
        example="nvidia-container-cli: initialization error: driver rpc error: timed out: unknown",
    ),
    Signature(
        name="operator-gpu-lost",
        needles=("GPU is lost", "ERROR_GPU_IS_LOST"),
        pattern=r"nvml: GPU is lost|ERROR_GPU_IS_LOST|[Uu]nable to determine the device handle[^\n]{0,80}GPU is lost",
        before=120,
        example="error creating nvml.Device 3: nvml: GPU is lost",
    ),
    Signature(
        name="inforom-corrupted",
        needles=("infoROM",),
        pattern=r"infoROM is corrupted",
        example="WARNING: infoROM is corrupted at gpu 0000:3b:00.0",
    ),
    Signature(
        name="toolkit-binary-missing",
        needles=("nvidia-container-runtime",),
        pattern=r"nvidia-container-runtime(?:\.(?:real|cdi|legacy|experimental))?\W{1,4}(?:stat: )?"
        r"(?:executable file not found|"
        r"no such file or directory|not found)",
        before=60,
        reach=160,
        example="fork/exec /usr/local/nvidia/toolkit/nvidia-container-runtime: no such file or directory",
    ),
    Signature(
        name="cdi-spec-not-made",
        needles=("CDI spec",),
        pattern=r"(?:[Ff]ailed to|[Ee]rror|[Uu]nable to) (?:generat|creat|sav|gett?)(?:e|ing)? (?:the )?"
        r"CDI spec",
        before=60,
        reach=200,
        example="error generating CDI specification: failed to generate CDI spec for common edits",
    ),
    Signature(
        name="device-symlinks-failed",
        needles=("/dev/char", "SYMLINK_CREATION"),
        pattern=r"(?:[Ff]ailed to|error|Failed) (?:create|creating) (?:the )?(?:device )?(?:node )?symlinks?[^\n]{0,40}"
        r"/dev/char|DISABLE_DEV_CHAR_SYMLINK_CREATION",
        before=60,
        reach=200,
        example="Error: error validating driver installation: failed to create symlinks under /dev/char that point to "
        "all possible NVIDIA character devices",
    ),
    Signature(
        name="fabric-manager-failed",
        needles=("abric manager", "abricmanager", "fabric-manager"),
        pattern=r"[Ff]abric ?[Mm]anager[^\n]{0,120}version mismatch"
        r"|(?:[Ff]ailed|[Uu]nable) to (?:start|initialize|load) (?:the )?(?:nvidia-|NVIDIA )?[Ff]abric ?-?[Mm]anager",
        before=60,
        reach=240,
        example="Failed to start NVIDIA fabric manager: exit status 1",
    ),
    Signature(
        name="waiting-for-ofed",
        needles=("mellanox ofed", "MOFED", "mofed"),
        pattern=r"[Ww]aiting for (?:the )?(?:mellanox ofed|MOFED|mofed)",
        is_repeated=True,
        example="waiting for mellanox ofed and nvidia drivers to be installed",
    ),
    Signature(
        name="port-in-use",
        needles=("address already in use",),
        pattern=r"listen tcp[46]? \S{0,40}:(?P<port_count>\d{2,5}): bind: address already in use",
        before=40,
        example="Failed to Listen and Server HTTP server: listen tcp :9400: bind: address already in use",
    ),
    Signature(
        name="leader-election-lost",
        needles=("leader election lost",),
        pattern=r"leader election lost",
        example='{"level":"error","logger":"setup","msg":"problem running manager","error":"leader election lost"}',
    ),
    Signature(
        name="toolkit-cannot-configure-runtime",
        needles=(
            "containerd config",
            "config.toml",
            "crio config",
            "docker config",
            "daemon.json",
            "configure containerd",
            "configure crio",
            "configure docker",
            "restart containerd",
            "restart crio",
            "restart docker",
            "containerd.sock",
            "docker.sock",
            "signal containerd",
            "setup runtime",
            "setting up toolkit",
            "install toolkit",
            "runtime config",
        ),
        pattern=r"(?:[Uu]nable to|[Ff]ailed to|[Cc]ould not|[Ee]rror|cannot) "
        r"(?:to )?(?:load|loading|update|updating|write|writing|flush|flushing|read|reading|parse|parsing|configure|"
        r"configuring|restart|restarting|signal|signaling|setup|setting up|install|installing) "
        r"(?:the )?(?:containerd|crio|cri-o|docker|toolkit|(?:NVIDIA )?(?:container )?runtime)\b[^\n]{0,160}"
        r"|unable to dial: dial unix \S{0,80}\.sock|dial unix \S{0,80}(?:containerd|docker)\.sock: connect",
        before=120,
        reach=300,
        example='level=error msg="unable to update containerd config: open /etc/containerd/config.toml: read-only '
        'file system"',
    ),
    Signature(
        name="mig-reset-blocked",
        needles=(
            "GPUs could not be reset",
            "In use by another client",
            "n use by another client",
            "clients are using the",
            "resetting all GPUs",
            "client is using the",
            "another process",
        ),
        pattern=r"GPUs? could not be reset|GPU (?P<pci>[0-9A-Fa-f:.]{7,16})[: ]{1,2}(?:is currently )?[Ii]n use by "
        r"another (?:client|process)|(?P<clients_count>\d{1,4}) clients? (?:are|is) using the GPU"
        r"|[Ii]n use by another client|error resetting (?:all )?GPUs?",
        before=80,
        reach=300,
        is_repeated=True,
        example="The following GPUs could not be reset: GPU 00000000:01:00.0: In use by another client",
    ),
    Signature(
        name="mig-config-unknown",
        needles=(
            "mig-config not present",
            "specified configuration",
            "validate the selected MIG",
            "Error selecting config",
        ),
        pattern=r"selected mig-config not present:? ?(?P<config>[\w.-]{0,80})|[Uu]nable to validate the selected MIG "
        r"configuration|Error selecting config(?!\S)[^\n]{0,120}not (?:present|found)|specified configuration "
        r"\S{0,80} ?(?:does not exist|not found)",
        before=60,
        reach=200,
        example='level=fatal msg="Error selecting config: selected mig-config not present: all-1g.11gb"',
    ),
    Signature(
        name="mig-profile-unsupported",
        needles=(
            "nvalid MIG profile",
            "unsupported MIG",
            "nsupported MIG",
            "all orderings failed",
            "nvalid MIG device",
            "GI profile ID",
            "error getting GPU instance profile",
            "not MIG capable",
            "NOT MIG capable",
            "MIG capable: false",
            "No MIG-supported",
            "cannot set MIG",
            "not supported on this GPU",
            "nvalid MIG configuration",
        ),
        pattern=r"[Ii]nvalid MIG (?:profile|device)[^\n]{0,60}|[Uu]nsupported MIG (?:profile|device|config)[^\n]{0,60}"
        r"|error attempting multiple config orderings: all orderings failed"
        r"|error getting (?:GPU instance )?(?:GI )?profile(?: ID| info)?[^\n]{0,80}(?:Not Supported|Invalid|not found)"
        r"|(?:not|NOT) MIG capable|cannot set MIG \S{1,20} on (?:a )?non[- ]MIG capable GPU|No MIG-supported devices?",
        before=120,
        reach=200,
        example="Error setting MIGConfig: error attempting multiple config orderings: all orderings failed",
    ),
    Signature(
        name="mig-mode-pending",
        needles=("MIG mode is in pending", "MIG mode change pending"),
        pattern=r"MIG mode is in pending (?:enable|disable) state|MIG mode change pending: true",
        reach=120,
        is_repeated=True,
        example="Warning: MIG mode is in pending enable state for GPU 00000000:07:00.0: Not Supported",
    ),
    Signature(
        name="mig-config-started",
        needles=("Updating to MIG config",),
        pattern=r"Updating to MIG config: (?P<config>[\w.-]{1,80})",
        reach=160,
        is_repeated=True,
        example='level=info msg="Updating to MIG config: all-1g.10gb"',
    ),
    Signature(
        name="plugin-mig-strategy",
        needles=(
            "nvalid MIG configuration",
            "same migEnabled value",
            "MIG device type present",
            "migEnabled=true",
        ),
        pattern=r"invalid MIG configuration|all devices on the node must be configured with the same migEnabled value"
        r"|more than one MIG device type present on node|device with migEnabled=true was not configured correctly",
        reach=200,
        example="all devices on the node must be configured with the same migEnabled value",
    ),
    Signature(
        name="plugin-config-invalid",
        needles=(
            "config file",
            "onfig-manager",
            "specified config",
            "unable to load config",
            "finalize config",
        ),
        pattern=r"(?:[Uu]nable to|[Ff]ailed to|error) (?:load|parse|parsing|finalize|finalizing|loading) "
        r"(?:the )?config(?: file)?\b[^\n]{0,120}|specified config \S{1,80} does not exist|error parsing config file",
        before=40,
        example='Error: specified config "a100-shared" does not exist',
    ),
    Signature(
        name="plugin-found-no-devices",
        needles=("No devices found",),
        pattern=r"No devices found\. Waiting indefinitely",
        is_repeated=True,
        example="I0819 07:02:54.758 1 main.go:353] No devices found. Waiting indefinitely.",
    ),
    Signature(
        name="plugin-device-unhealthy",
        needles=("arking device as unhealthy", "device marked unhealthy", "marking as unhealthy"),
        pattern=r"(?:XidCriticalError: Xid=(?P<xid_code>\d{1,4}) on Device=(?P<device>[\w:-]{1,60})[^\n]{0,40}; )?"
        r"(?:marking device as unhealthy|'\S{1,60}' device marked unhealthy: (?P<marked>[\w:-]{0,60})|marking as "
        r"unhealthy)",
        before=160,
        example="XidCriticalError: Xid=79 on Device=GPU-7c2a; marking device as unhealthy.",
    ),
    Signature(
        name="plugin-cannot-register",
        needles=("register device plugin", "contact Kubelet", "kubelet.sock"),
        pattern=r"[Cc]ould not register device plugin|[Cc]ould not contact [Kk]ubelet"
        r"|kubelet\.sock: (?:connect|no such)",
        before=60,
        example="Could not register device plugin: rpc error: code = Unimplemented desc = unknown service",
    ),
    Signature(
        name="watchers-exhausted",
        needles=("too many open files",),
        pattern=r"too many open files",
        example="failed to create FS watcher for /var/lib/kubelet/device-plugins: too many open files",
    ),
    Signature(
        name="validation-no-gpu-resource",
        needles=("GPU resources are not discovered", "any allocatable GPU"),
        pattern=r"GPU resources are not discovered by the node|unable to find any allocatable GPU resource",
        example="GPU resources are not discovered by the node",
    ),
    Signature(
        name="dcgm-engine-unreachable",
        needles=("host engine", "hostengine", "Host engine", "Hostengine"),
        pattern=r"(?:[Ee]rror connecting to|[Cc]annot (?:reach|connect to)|[Ff]ailed to connect to|"
        r"[Uu]nable to connect to) (?:the )?(?:remote )?(?:nv-)?(?:host ?engine)\b"
        r"|Host engine connection (?:invalid|disconnected)",
        before=60,
        example="Error connecting to nv-hostengine: Host engine connection invalid/disconnected",
    ),
    Signature(
        name="dcgm-profiling-failed",
        needles=(
            "rofiling module returned",
            "module of DCGM that is not currently loaded",
            "DcgmModuleProfiling failed",
        ),
        pattern=r"Profiling module returned an unrecoverable error|module of DCGM that is not currently loaded"
        r"|DcgmModuleProfiling failed to initialize",
        before=60,
        example="Failed to watch metrics: Error watching fields: The third-party Profiling module returned an "
        "unrecoverable error",
    ),
    Signature(
        name="operator-rights-missing",
        needles=("is forbidden: User",),
        pattern=r"(?P<resource>[\w./]{1,60}) is forbidden: User",
        before=120,
        is_repeated=True,
        example='nodes is forbidden: User "system:serviceaccount:gpu-operator:gpu-operator" cannot list resource',
    ),
    Signature(
        name="operator-crd-missing",
        needles=("no matches for kind",),
        pattern=r"no matches for kind \\?\"(?P<kind>\w{1,60})",
        example='no matches for kind "ClusterPolicy" in version "nvidia.com/v1"',
    ),
)

"""Messages of the containers that build, load and unload the NVIDIA driver on a node.

Shapes: the driver container's entry points (Ubuntu, RHEL, SLES, RHCOS), nvidia-installer, kbuild, modprobe, and the
k8s-driver-manager that runs before them.
"""

from diagnostics.signatures.grammar import Signature

SIGNATURES = (
    Signature(
        name="driver-kernel-headers-missing",
        needles=(
            "esolve Linux kernel version",
            "kernel-headers",
            "kernel-devel",
            "linux-headers",
            "kernel-default-devel",
            "kernel source tree",
            "ernel headers",
            "kernel header file",
            "/build: No such file",
            "Kernel source",
        ),
        pattern=r"Could not resolve Linux kernel version"
        r"|(?:Unable to find a match|No match for argument|No package|nothing provides|No provider of|"
        r"Unable to locate package|Couldn't find any package by (?:glob|regex)|Failed to find|Unable to find|"
        r"Cannot find|Could not find|package)\W{1,4}(?:the )?(?:kernel-(?:headers|devel|default-devel)|linux-headers|"
        r"[Kk]ernel headers)\S{0,80}"
        r"|Version '[^'\n]{1,60}' for 'linux-headers[^'\n]{0,60}' was not found"
        r"|[Uu]nable to find the kernel source tree for the currently running kernel"
        r"|[Yy]our kernel headers for kernel \S{1,80} cannot be found"
        r"|(?:[Kk]ernel headers|linux-headers|kernel-(?:headers|devel))\S{0,80}"
        r"(?: (?:for|of) (?:the )?(?:running )?kernel(?: \S{1,60})?)? (?:(?:is|are|were|was) )?"
        r"(?:not found|missing|not available|not installed|cannot be found|could not be found|has no installation "
        r"candidate)"
        r"|kernel header file \S{1,160} does not exist"
        r"|Failed to install (?:the )?(?:[Ll]inux )?kernel(?:[ -])headers"
        r"|/lib/modules/\S{1,80}/build: No such file or directory",
        before=300,
        reach=300,
        example="Resolving Linux kernel version... Could not resolve Linux kernel version",
    ),
    Signature(
        name="driver-packages-unreachable",
        needles=(
            "Temporary failure resolving",
            "Could not resolve host",
            "Failed to fetch http",
            "Cannot download repom",
            "Failed to download metadata",
            "Cannot prepare internal mirrorlist",
            "Could not connect to ",
            "Unable to connect to ",
            "Cannot find a valid baseurl",
        ),
        pattern=r"Temporary failure resolving '(?P<host>[^'\n]{1,120})'|Could not resolve host: (?P<name>\S{1,120})"
        r"|Failed to fetch https?://(?P<source>[^/\s]{1,120})|Cannot download repomd\.xml"
        r"|Failed to download metadata for repo|Cannot prepare internal mirrorlist|Cannot find a valid baseurl"
        r"|(?:Could not|Unable to) connect to (?P<server>[\w.-]{1,100})[: ]\S{0,12} ?\(?(?:[\d.]{7,15}|https?)",
        reach=300,
        is_repeated=True,
        example="W: Some index files failed: Temporary failure resolving 'archive.example.com'",
    ),
    Signature(
        name="driver-no-entitlement",
        needles=("ntitlement", "subscription-manager", "This system is not registered"),
        pattern=r"RHEL entitlement may be improperly deployed|[Ff]ailed to (?:enable|find) \S{0,40} ?entitlement"
        r"|[Nn]o (?:valid )?entitlements? (?:found|mounted)|This system is not registered (?:to|with)",
        example="FATAL: failed to install elfutils packages. RHEL entitlement may be improperly deployed.",
    ),
    Signature(
        name="driver-does-not-build",
        needles=(
            "GPL-incompatible",
            "modpost",
            "conftest",
            "cc_version_check",
            "unrecognized command",
            "mplicit declaration of",
            "Error building kernel module",
            "build the NVIDIA kernel module",
            "kernel module failed to build",
            "invalid module format",
            "Exec format error",
            "Unknown symbol",
            "nvidia kernel module build",
            "has no member named",
            "ompiler version check",
            "version magic",
            "incompatible pointer type",
            "too few arguments to function",
            "too many arguments to function",
            "rror during build of",
            "Bad return status",
            "disagrees about version",
        ),
        pattern=r"(?:ERROR: )?modpost: [^\n]{0,160}?(?:GPL-incompatible|undefined!|GPL-only)[^\n]{0,120}"
        r"|GPL-incompatible module (?P<module>[\w.-]{1,40}) uses (?:GPL-only )?symbol '?(?P<symbol>\w{1,80})"
        r"|\[[^\]\n]{0,160}(?:modpost|conftest|cc_version_check)[^\]\n]{0,120}\] Error \d+"
        r"|conftest(?:\.sh|\.h)?: ?[^\n]{0,60}(?:[Ee]rror|failed)"
        r"|(?:nv|os|nvidia|uvm)[\w./-]{0,80}\.[ch]:\d+:\d+: (?:fatal )?error: [^\n]{0,160}"
        r"|(?:cc|gcc|cc1)(?:-\d+)?: error: unrecognized command[ -]line option"
        r"|error: (?:implicit declaration of function|\S{1,60} has no member named|too (?:few|many) arguments to "
        r"function|passing argument[^\n]{0,60}incompatible pointer type)"
        r"|[Cc]ompiler version check failed"
        r"|(?:[Uu]nable to build|Failed to build|Error building|error building) (?:the )?(?:NVIDIA )?kernel modules?"
        r"|kernel module failed to build"
        r"|could not insert '?nvidia(?!.peermem)\S{0,20}: (?:Exec format error|Invalid (?:module format|argument)|"
        r"Unknown symbol)"
        r"|nvidia(?!.peermem)\S{0,20}: (?:version magic '[^\n]{0,120}' should be|Unknown symbol \w{1,60}|"
        r"disagrees about version)"
        r"|Bad return status for module build on kernel: (?P<kernel>\S{1,80})",
        before=300,
        reach=600,
        is_one_line=True,
        example="ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_unlock_strict'",
    ),
    Signature(
        name="driver-peermem-not-loaded",
        needles=("nvidia_peermem", "nvidia-peermem"),
        pattern=r"could not insert '?nvidia[_-]peermem'?: [^\n]{3,60}|[Ff]ailed to load nvidia[_-]peermem",
        before=60,
        example="modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument",
    ),
    Signature(
        name="driver-secure-boot",
        needles=(
            "Key was rejected",
            "Required key not available",
            "unsigned module",
            "unavailable key",
            "Lockdown: modprobe",
        ),
        pattern=r"Key was rejected by service|Required key not available|(?:[Ll]oading of |Lockdown: modprobe: )"
        r"(?:unsigned module|module with unavailable key)",
        example="modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
    ),
    Signature(
        name="driver-nouveau-loaded",
        needles=("ouveau",),
        pattern=r"Nouveau kernel driver (?:is currently in use|appears to be in use)"
        r"|(?:already bound to|conflict\w{0,3} with|being used by|unload|remove|Module|module) '?nouveau\b(?! is not)"
        r"|[Nn]ouveau (?:driver |kernel driver |module |kernel module )?(?:is |was )?(?:still |currently |already )?"
        r"(?:loaded|in use|running|active)",
        before=160,
        reach=120,
        example="ERROR: The Nouveau kernel driver is currently in use by your system.",
    ),
    Signature(
        name="driver-in-use",
        needles=(
            "driver is in use",
            "Module nvidia",
            "odule is still in use",
            "uninstall nvidia driver components",
            "module is already loaded with refcount",
        ),
        pattern=r"(?:[Cc]ould not|[Uu]nable to|[Ff]ailed to) unload (?:the )?NVIDIA (?:driver )?kernel modules?, "
        r"driver is in use|(?:FATAL|ERROR): Module nvidia\w{0,12} is in use|Failed to uninstall nvidia driver "
        r"components|nvidia\w{0,12} (?:kernel )?module is still in use",
        before=160,
        example="Could not unload NVIDIA driver kernel modules, driver is in use",
    ),
    Signature(
        name="driver-eviction-blocked",
        needles=(
            "cannot delete Pods",
            "cannot evict pod as it would violate",
            "rain node",
            "lobal timeout reached",
            "evict GPU pods",
            "delete/evict",
            "waiting for pod deletion",
        ),
        pattern=r"cannot delete Pods [^\n]{0,120}|[Cc]annot evict pod as it would violate the pod's disruption budget"
        r"|(?:[Ff]ailed to|[Uu]nable to|error:? unable to) drain node|drain did not complete within"
        r"|(?:[Ff]ailed|[Uu]nable) to (?:delete/evict|evict) (?:all )?GPU pods?"
        r"|global timeout reached: \S{1,20}|[Tt]imed out waiting for pod deletion",
        before=120,
        example="error: cannot delete Pods with local storage (use --delete-emptydir-data to override): ml/notebook-0",
    ),
    Signature(
        name="driver-wrong-module-type",
        needles=("open kernel module", "open nvidia.ko", "open GPU kernel modules"),
        pattern=r"requires? (?:the )?use of the NVIDIA open (?:GPU )?kernel modules"
        r"|not supported by (?:the )?(?:NVIDIA )?open (?:GPU )?(?:nvidia\.ko|kernel modules)",
        before=300,
        example="NVRM: The NVIDIA GPU driver for this device requires use of the NVIDIA open kernel modules.",
    ),
    Signature(
        name="driver-gpu-unsupported",
        needles=("installed in this system is", "ignoring the legacy GPU", "Legacy drivers"),
        pattern=r"installed in this system is (?:not supported by (?:the )?(?:NVIDIA )?\S{1,24} (?:NVIDIA )?"
        r"(?:Linux )?(?:driver release|graphics driver)|supported through the NVIDIA \S{1,12} Legacy drivers)"
        r"|ignoring the legacy GPU",
        reach=300,
        example="NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:102d) installed in this system is supported through "
        "the NVIDIA 470.xx Legacy drivers.",
    ),
    Signature(
        name="driver-already-running",
        needles=("is already running, aborting", "nstance of the NVIDIA driver"),
        pattern=r"[Aa]n instance of the NVIDIA driver is already running",
        example="An instance of the NVIDIA driver is already running, aborting",
    ),
    Signature(
        name="driver-module-not-loaded",
        needles=("nable to load the kernel module", "could not insert", "communicate with the NVIDIA driver"),
        pattern=r"Unable to load the kernel module 'nvidia|could not insert '?nvidia\w{0,12}'?: No such device"
        r"|couldn't communicate with the NVIDIA driver",
        before=120,
        example="ERROR: Unable to load the kernel module 'nvidia.ko'.",
    ),
)

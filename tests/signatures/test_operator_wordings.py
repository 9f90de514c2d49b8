"""The many wordings of what the GPU Operator's containers say: each means one thing, the usual lines mean nothing."""

import pytest

from diagnostics.signatures import signals_in

WORDINGS: dict[str, tuple[str, ...]] = {
    "driver-kernel-headers-missing": (
        "Could not resolve Linux kernel version",
        "Error: Unable to find a match: kernel-headers-4.18.0-240.23.2.el8_3.x86_64 "
        "kernel-devel-4.18.0-240.23.2.el8_3.x86_64",
        "E: Unable to locate package linux-headers-5.4.0-42-generic\nE: Couldn't find any "
        "package by glob 'linux-headers-5.4.0-42-generic'",
        "ERROR: Unable to find the kernel source tree for the currently running kernel.  "
        "Please make sure you have installed the kernel source files",
        "No package kernel-devel-3.10.0-1160.el7.x86_64 available.",
        "No provider of 'kernel-default-devel = 5.3.18-150300.59' found.",
        "E: Version '5.15.0-91.101' for 'linux-headers-generic' was not found",
        "make[1]: *** /lib/modules/5.15.0-1049-aws/build: No such file or directory.  Stop.",
        "Error! Your kernel headers for kernel 6.2.0-39-generic cannot be found.",
        "E: Package 'linux-headers-5.19.0-1025-gcp' has no installation candidate",
        "The kernel header file '/lib/modules/6.1.0/build/include/linux/kernel.h' does not exist",
        "Kernel headers not found for 5.10.0",
        "No match for argument: kernel-devel-5.14.0-362.el9.x86_64",
        "Error: Problem: nothing provides kernel-devel-uname-r = 5.14",
    ),
    "driver-does-not-build": (
        "make[2]: *** [cc_version_check] Error 1",
        "/usr/src/nvidia-470.57.02/kernel/nvidia/nv-acpi.c:84:19: error: initialization of "
        "'int (*)' from incompatible pointer type",
        "gcc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'",
        "make[3]: *** [/usr/src/linux/scripts/Makefile.modpost:133: /usr/src/nvidia/Module.symvers] Error 1",
        'ERROR: An error occurred while performing the step: "Building kernel modules". See '
        "log. ERROR: Failed to build the NVIDIA kernel module",
        "modprobe: ERROR: could not insert 'nvidia': Exec format error",
        'ERROR: modpost: "drm_gem_object_put_unlocked" [nvidia-drm.ko] undefined!',
        "Error! Bad return status for module build on kernel: 6.5.0-14-generic (x86_64)",
        "ERROR: Unable to build the NVIDIA kernel module.",
        "nvidia: disagrees about version of symbol module_layout",
        "include/linux/foo.h:1:1: error: implicit declaration of function 'vma_flags_set'",
    ),
    "driver-secure-boot": (
        "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
        "modprobe: ERROR: could not insert 'nvidia': Required key not available",
        "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
    ),
    "driver-nouveau-loaded": (
        "ERROR: The Nouveau kernel driver is currently in use by your system.  This driver is incompatible",
        "NVRM: GPU 0000:01:00.0 is already bound to nouveau.",
        "nouveau driver is loaded, please unload",
        "Failed to unload nouveau: modprobe: FATAL: Module nouveau is in use.",
    ),
    "nvml-library-not-found": (
        "2019/09/04 20:04:18 Failed to initialize NVML: could not load NVML library.",
        "If this is a GPU node, did you set the docker default runtime to `nvidia`?",
        "E0402 12:47:47 factory.go:112] Incompatible platform detected",
        "E0101 main.go: Incompatible strategy detected auto",
        "W rm.go:109] NVML not detected: could not load NVML library: libnvidia-ml.so.1: "
        "cannot open shared object file",
    ),
    "toolkit-cannot-configure-runtime": (
        'level=error msg="error running nvidia-toolkit: unable to setup runtime: unable to '
        'restart containerd: unable to dial: dial unix /runtime/sock-dir/containerd.sock: connect: no such "',
        "Error: unable to load crio config",
        'time=x level=fatal msg="unable to flush config: unable to load containerd config"',
    ),
    "mig-reset-blocked": (
        "MIG configuration failed: GPU 00000000:C1:00.0:In use by another client",
        "GPU 00000000:C1:00.0 is currently in use by another process.",
    ),
    "host-driver-missing": (
        "stderr: nvidia-container-cli: initialization error: load library failed: "
        "libnvidia-ml.so.1: cannot open shared object file: no such file or directory: unknown",
    ),
}
USUAL = (
    "Unable to determine if Secure Boot is enabled: No such file or directory",
    "such as rivafb, nvidiafb, or nouveau is present and prevents the NVIDIA kernel "
    "module from obtaining ownership",
    "warning: the compiler differs from the one used to build the kernel\n The kernel was "
    "built by: gcc (Ubuntu 11.3.0)\n You are using: cc (Ubuntu 11.2.0)",
    "Installing Linux kernel headers...\nGenerating Linux kernel version "
    "string...\nCompiling NVIDIA driver kernel modules...",
    "I1025 02:19:08.002792 1 health.go:151] Skipping non-nvmlEventTypeXidCriticalError event: {Device:{}}",
    "Could not find nouveau, nothing to unload; nouveau is not loaded",
    "nvidia driver module is already loaded with refcount 236",
    "Updating containerd config\nSuccessfully loaded config",
    "Loaded config from /etc/containerd/config.toml",
    "Installing toolkit\nSuccessfully installed toolkit",
)


def names(text: str) -> list[str]:
    return [s.signal for s in signals_in(text, namespace="gpu-operator", pod="p", container="c")]


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in WORDINGS.items() for text in texts]
)
def test_knows_a_wording(name: str, text: str) -> None:
    assert set(names(text)) == {name}


@pytest.mark.parametrize("text", USUAL)
def test_takes_nothing_from_a_usual_line(text: str) -> None:
    assert names(text) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "toolkit-binary-missing",
            'exec: "/usr/local/nvidia/toolkit/nvidia-container-runtime": stat: no such file or directory',
        ),
        ("driver-peermem-not-loaded", "could not insert 'nvidia_peermem': Unknown symbol in module"),
        ("fabric-manager-failed", "Failed to start nvidia-fabricmanager"),
    ],
)
def test_knows_more_wordings(name: str, text: str) -> None:
    assert name in names(text)
    assert "driver-does-not-build" not in names(text)

"""What API server, kubelet and DRA drivers say of device claims that are written for an old API or cannot be prepared.

Sources of the wordings: validation of spec.resourceClaims and the kubelet's FailedPrepareDynamicResources event
(kubernetes/kubernetes), the REST mapper's "no matches for kind" (k8s.io/apimachinery), NVML's return strings as
kubernetes-sigs/dra-driver-nvidia-gpu prints them.
"""

from diagnostics.signatures.grammar import Signature

_OLD = r"resource\.k8s\.io/v1alpha[123]"

SIGNATURES = (
    Signature(
        name="claim-names-nothing",
        needles=("must specify one of: `resourceClaimName`",),
        pattern=r"spec\.\S*resourceClaims\[\d+\][^:]{0,80}: Invalid value: .{0,600}?must specify one of: "
        r"`resourceClaimName`, `resourceClaimTemplateName`",
        before=800,
        example='The Pod "a" is invalid: spec.resourceClaims[0]: Invalid value: {"Name":"gpu","ResourceClaimName":null,'
        '"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`',
    ),
    Signature(
        name="claim-source-field",
        needles=("unknown field",),
        pattern=r"unknown field [\"'\\]{0,3}[\w.\[\]]{0,120}resourceClaims\[\d+\]\.source\b",
        example='Error from server (BadRequest): Pod in version "v1" cannot be handled as a Pod: strict decoding '
        'error: unknown field "spec.resourceClaims[0].source"',
    ),
    Signature(
        name="dra-api-not-served",
        needles=(
            "resource.k8s.io/v1alpha",
            "v1alpha2.Resource",
            "v1alpha2.PodScheduling",
            "GpuClaimParameters",
        ),
        pattern=rf"no matches for kind \S{{1,80}} in version \S?{_OLD}"
        r"|no matches for kind \S?(?:GpuClaimParameters|GpuClassParameters|MigDeviceClaimParameters)\b"
        r"|failed to (?:list|watch) \*v1alpha[123]\.(?:Resource\w{3,30}|PodSchedulingContext): .{0,200}?"
        r"could not find the requested resource"
        rf"|{_OLD}[^ ]{{0,120}}.{{0,200}}?(?:could not find the requested resource|404 Not Found|not registered)",
        example="W0101 1 reflector.go:547] failed to list *v1alpha2.ResourceClaim: the server could not find the "
        "requested resource",
    ),
    Signature(
        name="mig-placement-unavailable",
        needles=(
            "creating GPU instance",
            "create GPU instance",
            "creating MIG device",
            "creating gpu instance",
        ),
        pattern=r"(?:creating|create) (?:GPU|gpu|MIG|mig) (?:instance|device).{0,200}?"
        r"(?P<profile>\d+g\.\d+gb(?:\+\w+)?).{0,120}?(?:Insufficient Resources|ERROR_INSUFFICIENT_RESOURCES)",
        fields={
            "namespace": r"Namespace:(?P<namespace>[a-z0-9][a-z0-9-]{0,62})",
            "claim": r"(?:ClaimName|Name):(?P<claim>[a-z0-9][a-z0-9.-]{0,252})",
        },
        before=20,
        example="error preparing devices for claim 148dc683: MIG device allocation failed: error creating MIG device: "
        "error creating GPU instance for '1g.20gb': Insufficient Resources",
    ),
)

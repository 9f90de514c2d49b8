"""Where GPUs are, who holds them, and how jobs lie over them."""

from diagnostics.glossary.term import Term

TERMS = (
    Term(
        slug="fitted",
        name="fitted",
        gist="GPUs that are physically in the node",
        meaning="GPUs that are physically in a node. A label that only says that there is an NVIDIA device "
        "means at least one, number unknown.",
        formula="max(capacity / replicas, label `nvidia.com/gpu.count`, most that were ever seen)",
        unit="GPUs",
        source="Node `status.capacity`, labels of GPU feature discovery, earlier polls",
        see=("offered",),
    ),
    Term(
        slug="offered",
        name="offered",
        gist="GPUs that the scheduler may give out",
        meaning="GPUs of a node that the scheduler may give out, held or not.",
        unit="GPUs",
        source="Node `status.allocatable`",
        see=("fitted", "held"),
    ),
    Term(
        slug="held",
        name="held",
        gist="given to a pod that is bound to the node and not finished",
        meaning="Given to a pod that is bound to a node and not finished. Terminating pods and those of phase "
        "Unknown hold their GPUs; Failed and Succeeded ones hold none.",
        unit="GPUs",
        source="Pod `spec.nodeName` and `status.phase`. Which device: the pod's status, else the exporter's "
        "pod labels; else only the number is known",
    ),
    Term(
        slug="slot",
        name="slot",
        meaning="The place of a GPU: node and PCI address, so that a board which is swapped keeps its history "
        "there. A MIG instance adds its number; where the API gives only counts, places are numbered.",
        source="DCGM `pci_bus_id`, device plugin, resource slices",
    ),
    Term(
        slug="mig",
        name="MIG instance",
        meaning="A part of a board with its own memory and compute slices. It counts as its share of the "
        "slices.",
        formula="its compute slices / slices of the board",
        unit="share of a GPU",
        source="NVIDIA, Multi-Instance GPU User Guide",
        see=("gpu_hour",),
    ),
    Term(
        slug="shared_gpu",
        name="shared GPU",
        meaning="A board that the device plugin hands out several times (time-slicing or MPS). Each share "
        "counts as its part of the board; metrics cannot tell which holder does what.",
        formula="1 / replicas",
        unit="share of a GPU",
        source="Label `nvidia.com/gpu.replicas`",
        see=("gpu_hour",),
    ),
    Term(
        slug="workload",
        name="workload",
        meaning="What a pod belongs to at the top of its owners: a Job, PyTorchJob, Deployment, StatefulSet "
        "and so on; a pod without an owner stands for itself.",
        source="`metadata.ownerReferences`, followed upwards",
    ),
    Term(
        slug="collective_job",
        name="collective job",
        gist="a job whose members only work together",
        meaning="A job whose members only work together (a gang): a PyTorchJob, MPIJob, JobSet, "
        "LeaderWorkerSet, PodGroup or Volcano Job with more than one GPU pod, or GPU pods of one "
        "owner that use torchrun, `WORLD_SIZE`, `MASTER_ADDR` or mpirun. Never a StatefulSet or "
        "Deployment alone.",
        source="Kinds, commands and environment of the pods; ours",
        see=("blocked", "scatter"),
    ),
    Term(
        slug="scatter",
        name="scatter",
        gist="0 as close together as can be, 1 as far apart as can be",
        meaning="How far apart the P pods of a collective job were placed, against how close together they "
        "could be; the same over racks and NVLink domains. Reported from {scatter_min_ratio} on, or "
        "where a rack or NVLink domain is crossed without need.",
        formula="(used - least) / max(1, most - least); hosts used, least = hosts needed when each takes "
        "floor(GPUs of the host / GPUs of a pod), most = min(P, hosts that fit)",
        unit="ratio, 0 to 1",
        source="ours",
        see=("nvlink_domain", "rack"),
    ),
    Term(
        slug="rack",
        name="rack",
        meaning="The rack or leaf switch of a node, where a label says so. Unknown for nodes without one: "
        "racks are then neither counted nor judged.",
        source="The node label that the site names, else those of clouds and of NVIDIA's topograph",
    ),
    Term(
        slug="nvlink_domain",
        name="NVLink domain",
        meaning="Nodes whose GPUs reach each other over NVLink switches without the network.",
        source="Label `nvidia.com/gpu.clique`, or a cloud's own",
        see=("scatter",),
    ),
    Term(
        slug="slots",
        name="slots(k)",
        gist="requests of k GPUs that fit now",
        meaning="How many requests of k GPUs fit now, where all k have to be found within one host (or NVLink "
        "domain, or rack). Free GPUs that no such request can use are fragmented.",
        formula="sum over hosts of floor(usable free GPUs / k), for k = 1, 2, 4, 8, 16, 64",
        unit="requests",
        source="ours",
        see=("free", "stranded"),
    ),
    Term(
        slug="waiting",
        name="waiting",
        meaning="A pod that asks for GPUs and is bound to no node. Reported after {pending_after}; members of "
        "a collective job may start {partial_gang_after} apart.",
        formula="now - `metadata.creationTimestamp`",
        unit="a span of time",
        source="Pod phase Pending, condition `PodScheduled`",
    ),
)

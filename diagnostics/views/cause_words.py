"""The slug of a cause as people write it."""

_SPELT = {
    word.lower(): word
    for word in (
        *(
            "GPU",
            "GPUs",
            "CPU",
            "CUDA",
            "DCGM",
            "DRA",
            "ECC",
            "GPUDirect",
            "HBM",
            "KV",
            "MIG",
            "MPS",
            "NCCL",
            "NFS",
        ),
        *("NVLink", "NVML", "NUMA", "OOM", "OOMKilled", "PCIe", "PV", "PVC", "RDMA", "SM", "UUID", "Xid"),
    )
}


def cause_words(slug: str) -> str:
    """`gpu-lost` is `GPU lost`; what is no slug stays as it is."""
    words = " ".join(_SPELT.get(word, word) for word in slug.split("-"))
    return words[:1].upper() + words[1:]

"""Which nodes carry a kind of GPU.

People say `A100`; nodes carry the label that NVIDIA's feature discovery writes: the product's name with hyphens for
spaces, and `-SHARED` after it where the card is time-sliced. A kind often comes as several products, so it maps to all.
"""

PRODUCT_LABEL = "nvidia.com/gpu.product"

_PRODUCTS = {
    "T4": ("Tesla-T4",),
    "V100": ("Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-32GB", "Tesla-V100-PCIE-16GB", "Tesla-V100-PCIE-32GB"),
    "A10": ("NVIDIA-A10",),
    "A10G": ("NVIDIA-A10G",),
    "A100": ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe"),
    "A100-40GB": ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB"),
    "A100-80GB": ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe"),
    "L4": ("NVIDIA-L4",),
    "L40S": ("NVIDIA-L40S",),
    "H100": ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe", "NVIDIA-H100-NVL"),
    "H200": ("NVIDIA-H200", "NVIDIA-H200-NVL"),
    "B200": ("NVIDIA-B200",),
}


def node_label_values(kind: str) -> list[str]:
    """The values of a node's label that mean `kind`; a kind that is not in the table is taken to be such a value."""
    products = _PRODUCTS.get(kind.upper())
    return [kind] if products is None else [value for product in products for value in (product, f"{product}-SHARED")]

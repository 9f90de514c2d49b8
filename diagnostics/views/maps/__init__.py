"""The cluster map: racks, their nodes and every GPU, coloured by what one wants to know; now, or as it was.

Thousands of GPUs are one page: `markup` writes them, everything around them is a template's.
"""

from diagnostics.views.maps.page import cluster_map

__all__ = ["cluster_map"]

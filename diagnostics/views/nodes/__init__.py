"""Nodes with GPUs: the list, and the page of one."""

from diagnostics.views.nodes.detail import node_detail
from diagnostics.views.nodes.listing import node_list

__all__ = ["node_detail", "node_list"]

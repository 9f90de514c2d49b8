"""Workloads whose pods ask for GPUs: all of them, and one with its GPUs, pods, cost and history."""

from diagnostics.views.workloads.detail import workload_detail
from diagnostics.views.workloads.listing import workload_list

__all__ = ["workload_detail", "workload_list"]

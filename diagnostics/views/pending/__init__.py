"""Pods and gangs that wait for GPUs."""

from diagnostics.views.pending.listing import pending_list

__all__ = ["pending_list"]

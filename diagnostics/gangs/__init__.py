"""Gangs: pods that work only together, found by group key, owner chain and what their commands say. Pure."""

from diagnostics.gangs.grouping import gangs_of, pod_group_key
from diagnostics.gangs.launchers import Launch, launch_of
from diagnostics.gangs.roles import Role, fewest_pods, gang_size, pods_wanted, roles_of

__all__ = [
    "Launch",
    "Role",
    "fewest_pods",
    "gang_size",
    "gangs_of",
    "launch_of",
    "pod_group_key",
    "pods_wanted",
    "roles_of",
]

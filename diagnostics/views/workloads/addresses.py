"""Addresses of what a workload is linked to."""

from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

from diagnostics.picture import Owner


def gpu_url(slug: str, slot: str) -> str:
    """Page of the device in `slot`."""
    return _address("gpu_detail", slug, slot)


def map_url(slug: str, owner: Owner) -> str:
    """The map with the workload's GPUs marked."""
    address = _address("cluster_map", slug)
    return address and f"{address}?{urlencode({'workload': f'{owner.kind}/{owner.namespace}/{owner.name}'})}"


def _address(view: str, *args: str) -> str:
    """Empty where there is no such page."""
    try:
        return reverse(view, args=args)
    except NoReverseMatch:
        return ""

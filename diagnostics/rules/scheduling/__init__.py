"""GPU3xx: where pods land, wait, or hold what they cannot use."""

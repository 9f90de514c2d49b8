"""GPU5xx: GPUs that are paid for and do not work."""

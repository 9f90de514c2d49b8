"""GPU4xx: host and GPU memory."""

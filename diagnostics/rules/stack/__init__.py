"""GPU2xx: driver, operator and device plugin: what makes a GPU usable at all."""

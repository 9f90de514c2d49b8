"""GPU1xx: the boards themselves: Xids, ECC, links, heat."""

"""Names, uids and noise that depend on nothing but what they are made of."""

import hashlib
from functools import lru_cache

# Kubernetes makes name suffixes of these letters only, so that no word can come out.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def digest(*parts: object) -> bytes:
    """32 bytes that follow from the parts."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).digest()


def uuid_of(*parts: object) -> str:
    h = digest(*parts).hex()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:32]}"


def hex_of(length: int, *parts: object) -> str:
    """Up to 64 hexadecimal digits."""
    return digest(*parts).hex()[:length]


def suffix(length: int, *parts: object) -> str:
    """Up to 32 letters as in `web-7d9c8b6f5-x2x4q`."""
    return "".join(ALPHABET[b % len(ALPHABET)] for b in digest(*parts)[:length])


def number_of(below: int, *parts: object) -> int:
    return int.from_bytes(digest(*parts)[:8]) % below


@lru_cache(maxsize=20_000)
def noise(*parts: object) -> tuple[float, ...]:
    """32 numbers from 0 to 1."""
    return tuple(b / 255 for b in digest(*parts))

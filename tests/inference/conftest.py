"""Files as accidents leave them."""

import random
from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def damaged() -> Callable[[bytes, random.Random], bytes]:
    """A flipped bit, eight of them, a cut, or a page of zeros or of noise."""

    def damage(content: bytes, rng: random.Random) -> bytes:
        made = bytearray(content)
        kind = rng.randrange(5)
        if kind < 2:
            for _ in range((1, 8)[kind]):
                made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del made[rng.randrange(len(made)) :]
        else:
            at = rng.randrange(len(made))
            page = len(made[at : at + 4096])
            made[at : at + page] = bytes(page) if kind == 3 else rng.randbytes(page)
        return bytes(made)

    return damage

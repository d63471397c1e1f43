#!/usr/bin/python3
"""A hostile virtual machine: writes anything anywhere into its region, for some seconds.

usage: scribble.py REGION BYTES SECONDS
"""
import mmap
import os
import random
import sys
import time

path, size, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
seed = int(os.environ.get("SCRIBBLE_SEED", "1"))
print("seed", seed, flush=True)
chance = random.Random(seed)
with open(path, "r+b") as file:
    region = mmap.mmap(file.fileno(), size)
end = time.monotonic() + seconds
written = 0
while time.monotonic() < end:
    # Mostly words, as counters and places of queues are; sometimes whole pages.
    at = chance.randrange(0, size - 4096)
    if chance.random() < 0.95:
        at -= at % 8
        region[at : at + 8] = chance.choice(
            [b"\xff" * 8, b"\0" * 8, chance.randbytes(8), (at + 1).to_bytes(8, "little")])
    else:
        region[at : at + 4096] = chance.randbytes(4096)
    written += 1
print("written", written, flush=True)

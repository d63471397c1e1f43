#!/usr/bin/env python3
"""Sends COUNT datagrams of random bytes to UDP port 4791 of each ADDRESS, the same from every run.

usage: random_packets.py COUNT ADDRESS...

Half of them are bytes and nothing else; the others begin like a transport header that could be
meant: a valid opcode, version 0, a small queue pair number.
"""

import random
import socket
import sys
import time

OPCODES = [*range(0x00, 0x18), *range(0x20, 0x2C), 0x64, 0x65, 0x81, *range(0xA0, 0xB8)]


def packet(source):
    body = bytearray(source.randbytes(source.randrange(0, 1400)))
    if source.random() < 0.5 and len(body) >= 12:
        body[0] = source.choice(OPCODES)
        body[1] &= 0xF0
        body[2:4] = b"\xff\xff"
        body[5:8] = source.randrange(0, 64).to_bytes(3, "big")
    return bytes(body)


def main():
    count = int(sys.argv[1])
    for address in sys.argv[2:]:
        source = random.Random(count)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as out:
            for i in range(count):
                out.sendto(packet(source), (address, 4791))
                if i % 50 == 49:
                    time.sleep(0.005)


main()

#!/usr/bin/python3
"""Sends a RoCE packet, an RC send of 8 bytes, by the kernel's UDP, once or COUNT times.

usage: send_packet.py SOURCE DESTINATION QPN [--damaged] [COUNT]

SOURCE: an IPv4 address of this host. Its sequence number is 1. --damaged: its ICRC is wrong.
"""

import pathlib
import socket
import struct
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "interop"))
from check_capture import invariant_crc  # noqa: E402

IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3  # "don't fragment", so that the identification is 0
PORT = 4791


def main():
    source, destination, qpn = sys.argv[1], sys.argv[2], int(sys.argv[3], 0)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
    sender.bind((source, 0))
    send_only, migrated, pkey = 4, 0x40, 0xFFFF
    datagram = struct.pack(">BBHII", send_only, migrated, pkey, qpn, 1) + b"8 bytes."
    length = 8 + len(datagram) + 4
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0x4000, 64, 17, 0,
                         socket.inet_aton(source), socket.inet_aton(destination))
    udp = struct.pack(">HHHH", sender.getsockname()[1], PORT, length, 0)
    crc = invariant_crc(header + udp + datagram + bytes(4), 28)
    if "--damaged" in sys.argv:
        crc = bytes([crc[0] ^ 1]) + crc[1:]
    for _ in range(int(sys.argv[-1]) if len(sys.argv) > 4 and sys.argv[-1].isdigit() else 1):
        sender.sendto(datagram + crc, (destination, PORT))


if __name__ == "__main__":
    main()

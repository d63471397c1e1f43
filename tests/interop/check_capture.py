#!/usr/bin/python3
"""Checks every RoCE frame of a capture, by other programs' reading than softhca's.

usage: check_capture.py FILE [--from MAC]

FILE: pcap (not pcapng) of Ethernet frames, whole. Each frame to UDP port 4791 must carry the invariant
CRC of annex A17.3.3, computed here with zlib, and tshark must dissect it as RoCE without a complaint.
Prints `OPCODE SENT RECEIVED` for each opcode on the wire (decimal; frames from MAC, and all others), and
`mad ATTRIBUTE SENT RECEIVED` for each attribute of a connection manager's, with `accepted N`, of how many
requests; then exits with 1 if there was a complaint, each named with the number of its frame.
"""

import argparse
import collections
import struct
import subprocess
import zlib

ROCE_PORT = 4791
COMPLAINTS_SHOWN = 10
UD_SEND_ONLY = 100
CONNECTION_CLASS = 7
REP, SIDR_REP = 0x13, 0x18
# What tshark would guess the payload to be is no concern of the test.
GUESSES = ["eth_over_ib", "fc_infiniband", "iser_infiniband", "lnet_ib", "mellanox_eoib", "nvme_rdma",
           "rpcrdma_infiniband", "sdp_infiniband", "smb_direct_infiniband", "smcr_infiniband"]


def frames(path):
    """Yields the frames of a little-endian pcap file of Ethernet."""
    with open(path, "rb") as file:
        magic, _, _, _, _, _, link = struct.unpack("<IHHiIII", file.read(24))
        if magic not in (0xA1B2C3D4, 0xA1B23C4D) or link != 1:
            raise SystemExit(f"{path}: not a pcap file of Ethernet frames")
        while len(header := file.read(16)) == 16:
            captured, length = struct.unpack_from("<II", header, 8)
            frame = file.read(captured)
            # The last record of a capture that was stopped may be cut off.
            if len(frame) == captured:
                yield frame, length


def roce_packet(frame):
    """The IP packet without padding of a RoCE frame, and the offset of its BTH; None of any other."""
    at = 12
    while frame[at : at + 2] == b"\x81\x00":
        at += 4
    kind, packet = frame[at : at + 2], frame[at + 2 :]
    if kind == b"\x08\x00" and packet[9] == 17:
        udp, packet = (packet[0] & 15) * 4, packet[: int.from_bytes(packet[2:4], "big")]
    elif kind == b"\x86\xdd" and packet[6] == 17:
        udp, packet = 40, packet[: 40 + int.from_bytes(packet[4:6], "big")]
    else:
        return None
    if int.from_bytes(packet[udp + 2 : udp + 4], "big") != ROCE_PORT:
        return None
    return packet, udp + 8


def connection_message(packet, bth):
    """Attribute and data of a connection manager's datagram, None of any other packet."""
    mad = bth + 20
    if packet[bth] != UD_SEND_ONLY or packet[bth + 5 : bth + 8] != b"\0\0\1" or packet[mad + 1] != CONNECTION_CLASS:
        return None
    return int.from_bytes(packet[mad + 16 : mad + 18], "big"), packet[mad + 8 :]


def accepts(attribute, data):
    return attribute == REP or (attribute == SIDR_REP and data[20] == 0)


def invariant_crc(packet, bth):
    """Of an IP packet up to its last four bytes, with all that may change on the way as ones."""
    masked = bytearray(packet[:-4])
    if packet[0] >> 4 == 4:
        masked[1] = masked[8] = 0xFF  # type of service, time to live
        masked[10:12] = b"\xff\xff"  # header checksum
    else:
        masked[0:4] = bytes([masked[0] | 0x0F]) + b"\xff\xff\xff"  # traffic class, flow label
        masked[7] = 0xFF  # hop limit
    masked[bth - 2 : bth] = b"\xff\xff"  # UDP checksum
    masked[bth + 4] = 0xFF  # the congestion bits
    return zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")


def tshark_complaints(path):
    command = ["tshark", "-o", "udp.ignore_ipv6_zero_checksum:TRUE"]
    for name in GUESSES:
        command += ["--disable-heuristic", name]
    command += ["-r", path, "-Y", f"udp.dstport == {ROCE_PORT} && "
                "(!infiniband.bth || _ws.malformed || _ws.expert.severity >= 0x600000)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"tshark: {done.stderr}"
    yield from (f"tshark: {line}" for line in done.stdout.splitlines())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--from", dest="sender", default="")
    options = parser.parse_args()
    sender = bytes.fromhex(options.sender.replace(":", ""))
    counts = collections.defaultdict(lambda: [0, 0])
    messages = collections.defaultdict(lambda: [0, 0])
    accepted = set()
    complaints = []
    for number, (frame, length) in enumerate(frames(options.file), 1):
        if len(frame) < length:
            complaints.append(f"{number}: only {len(frame)} of {length} bytes captured")
            continue
        found = roce_packet(frame)
        if found is None:
            continue
        packet, bth = found
        counts[packet[bth]][frame[6:12] != sender] += 1
        if (message := connection_message(packet, bth)) is not None:
            attribute, data = message
            messages[attribute][frame[6:12] != sender] += 1
            if accepts(attribute, data):
                accepted.add(bytes(data[:8]))
        if invariant_crc(packet, bth) != packet[-4:]:
            complaints.append(f"{number}: ICRC is wrong, opcode {packet[bth]}")
    complaints += tshark_complaints(options.file)
    for opcode, (sent, received) in sorted(counts.items()):
        print(opcode, sent, received)
    for attribute, (sent, received) in sorted(messages.items()):
        print("mad", attribute, sent, received)
    if messages:
        print("accepted", len(accepted))
    for complaint in complaints[:COMPLAINTS_SHOWN]:
        print("complaint:", complaint)
    if not counts:
        print("complaint: no RoCE frame")
    raise SystemExit(bool(complaints) or not counts)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes first inputs for the fuzz targets from what real adapters and operators wrote.

usage: tests/fuzz/seeds.py FOLDER

FOLDER/TARGET gets files; `tests/fuzz/run --minimize` keeps those that reach something new when
they lie in tests/fuzz/corpus/TARGET. The frames are those of tests/wire, whole; for the target
`packets`, each side of each connection there, as steps of that target; the configurations are those
that this repository has, the requests those that softhcactl sends.
"""

import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROCE_PORT = 4791
RC_OPCODES = [*range(0x15), 0x16, 0x17]
RETH = {0x06, 0x0A, 0x0B, 0x0C}
ATOMIC = {0x13, 0x14}
AETH = {0x0D, 0x0F, 0x10, 0x11, 0x12}
PAYLOAD = {*range(0x0C), 0x0D, 0x0E, 0x0F, 0x10, 0x16, 0x17}
RESPONSE = {*range(0x0D, 0x13)}


def frames_of(path):
    data = path.read_bytes()
    at = 24
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def transport_of(frame):
    """Source address and packet from the base transport header on; nothing: not RoCE."""
    if frame[12:14] == b"\x08\x00":
        ip, source = 14 + 20, frame[26:30]
    elif frame[12:14] == b"\x86\xdd":
        ip, source = 14 + 40, frame[22:38]
    else:
        return None
    if struct.unpack_from(">H", frame, ip + 2)[0] != ROCE_PORT:
        return None
    return source, frame[ip + 8 : -4]


def packet_step(packet):
    """A step of the target `packets`: as Run::step() and send_packet() read it."""
    opcode = packet[0]
    if opcode not in RC_OPCODES:
        return b""
    step = bytes([0, RC_OPCODES.index(opcode), packet[8] >> 7])
    if opcode in RESPONSE:
        step += b"\x00"
    step += b"\x00"
    length = len(packet) - 12 - (16 if opcode in RETH else 4 if opcode in AETH else 0)
    if opcode in PAYLOAD:
        step += bytes([length if length < 192 else 200])
    if opcode in RETH or opcode in ATOMIC:
        dma = struct.unpack_from(">I", packet, 24)[0] if opcode in RETH else 8
        step += bytes([0]) + struct.pack("<H", 1024) + bytes([128 + min(dma // 16, 100), 1, 2])
    if opcode in AETH:
        step += packet[12:13] + packet[15:16]
    if opcode in (0x16, 0x17):
        step += b"\x00"
    return step + b"\x00"


# Commands of each kind to the peer, and receives, before the packets come.
RECEIVES = b"".join(bytes([10, 1]) + struct.pack("<H", 1024) + bytes([64, 0]) for _ in range(6))
COMMANDS = b"".join(
    bytes([8, opcode, 2, 1]) + struct.pack("<H", 1024) + bytes([64, 0])
    + struct.pack("<H", 1024) + b"\x00" for opcode in range(5))

CALL = '{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}'
REQUESTS = [CALL % (method, params) for method, params in [
    *((name, "{}") for name in ("status", "tenants", "qps", "srqs", "events", "counters", "reload.plan")),
    ("tenant.show", '{"name":"a"}'),
    ("qps", '{"tenant":"a","limit":5,"after":3}'),
    ("set", '{"tenant":"a","resource":"pcbs","amount":100}'),
    ("set", '{"changes":[{"tenant":"b","resource":"execution_credits","amount":10,"tvl":1},'
            '{"tenant":"a","resource":"vcbs","amount":10}]}'),
]]


def main():
    folder = pathlib.Path(sys.argv[1])
    for target in ("frame", "packets", "config", "admin"):
        (folder / target).mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / "tests" / "wire").glob("*.pcap")):
        sides = {}
        for n, frame in enumerate(frames_of(path)):
            (folder / "frame" / f"{path.stem}-{n}").write_bytes(frame)
            found = transport_of(frame)
            if found:
                sides.setdefault(found[0], []).append(packet_step(found[1]))
        for n, steps in enumerate(sides.values()):
            (folder / "packets" / f"{path.stem}-{n}").write_bytes(
                b"\x00" + RECEIVES + COMMANDS + b"".join(steps))
    for n, request in enumerate(REQUESTS):
        (folder / "admin" / str(n)).write_text(request)
    for path in [*ROOT.glob("config/*.toml"), *ROOT.glob("tests/system/*.toml")]:
        (folder / "config" / path.stem).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()

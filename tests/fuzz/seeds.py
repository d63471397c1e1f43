#!/usr/bin/env python3
"""Writes first inputs for the fuzz targets from what real adapters and operators wrote.

usage: tests/fuzz/seeds.py FOLDER

FOLDER/TARGET gets files; `tests/fuzz/run --minimize` keeps those that reach something new when
they lie in tests/fuzz/corpus/TARGET. The frames are those of tests/wire, whole; for the target
`packets`, each side of each connection there, as steps of that target, and for `cm` the management
datagrams; the configurations are those
that this repository has, the requests those that softhcactl sends; for the target `session`, what a
program asks for that makes one of each object, connects, and takes it all down.
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
    ("capture.start", '{"tenant":"a","snaplen":128,"ring_bytes":65536}'),
    ("captures", '{}'),
    ("fault.add", '{"kind":"drop","tenant":"a","probability":0.5,"count":3,"seed":7,"for_s":2}'),
    ("fault.add", '{"kind":"rnr","tenant":"b","every":3,"direction":"received"}'),
    ("fault.add", '{"kind":"reorder","port":"p","qpn":17,"every":2,"delay_s":0.1,"by":4}'),
    ("fault.remove", '{"numbers":[1]}'),
    ("fault.remove", '{"all":true}'),
    ("faults", '{}'),
    ("tenant.create", '{"name":"c","template":"t","addresses":["198.18.0.9"],"owner":"root","mode":384}'),
    ("tenant.remove", '{"name":"c","end":true}'),
    ("qps", '{"tenant":"a","limit":5,"after":3}'),
    ("set", '{"tenant":"a","resource":"pcbs","amount":100}'),
    ("set", '{"changes":[{"tenant":"b","resource":"execution_credits","amount":10,"tvl":1},'
            '{"tenant":"a","resource":"vcbs","amount":10}]}'),
]]


def cm_step(packet):
    """A step of the target `cm`: a whole MAD, from queue pair 1; nothing: not one."""
    if packet[0] != 0x64 or packet[5:8] != b"\0\0\1" or len(packet) != 20 + 256:
        return b""
    return b"\0" + packet[20:] + b"\0"


def words(*numbers):
    """Of a request, as the target `session` reads them; a name is the number of the object made."""
    return b"".join(bytes([n]) if n < 0xE0 else b"\xfe" + struct.pack("<I", n) for n in numbers)


NONE = 0xFFFFFFFF
# Places in that target's table of requests.
(QUERY_DEVICE, QUERY_PORT, ALLOC_PD, DEALLOC_PD, ALLOC_SHARED, FREE_SHARED, REGISTER, REREGISTER, DEREGISTER,
 CHANNEL, CREATE_CQ, RESIZE_CQ, DESTROY_CQ, CREATE_SRQ, MODIFY_SRQ, QUERY_SRQ, DESTROY_SRQ, CREATE_QP,
 MODIFY_QP, QUERY_QP, DESTROY_QP, CREATE_AH, DESTROY_AH, ALLOC_MW, DEALLOC_MW, OPEN_DOMAIN, CLOSE_DOMAIN,
 CREATE_XRC_SRQ, OPEN_QP, CLOSE_QP, MODIFY_CQ, ALLOC_NULL) = range(32)
VECTOR = [0] * 2 + [0xFFFF0000, 0x010012C6, 0, 0x01004000, 0x00010000, 0]


def attributes(mask, state, mtu=0, psn=0, qpn=0, vector=(), tail=(0,) * 5):
    head = [mask, state, 0, mtu, 0, 0, psn, psn, qpn, 0xF]
    return words(*head, *(vector or [0] * 8), *[0] * 8, *tail)


def one(place, *numbers):
    return bytes([place]) + words(*numbers)


def xrc_session():
    def queue_pair(qp_type):
        return one(CREATE_QP, 5, 0, 0, qp_type, 0, 0, 0, 10, 10, 2, 1, 64, 0, 0)

    made = [
        one(ALLOC_PD, 0, 0), one(ALLOC_NULL, 0, 0), one(CHANNEL, 0, 0), one(CREATE_CQ, 7, 0, 16, 0),
        one(MODIFY_CQ, 0, 0x00640010),
        one(OPEN_DOMAIN, 1, 0, 5, 0, 3, 0), one(CREATE_XRC_SRQ, 9, 0, 0, 16, 1, 0, 0, 0),
        queue_pair(10), one(OPEN_QP, 8, 0, 0, 0), queue_pair(9), one(CLOSE_DOMAIN, 0, 0),
    ]
    ended = [one(place, 0, 0) for place in (CLOSE_QP, DESTROY_QP, DESTROY_SRQ, CLOSE_DOMAIN)]
    return b"\x00" + b"".join(made) + b"".join(ended)


def session(qp_type):
    shared = one(ALLOC_SHARED, 0x4000, 0)
    extents = bytes([0, 0, 0, 1, 0])
    region = words(0x10000000, 0, 0x2000, 0, 0x10000000, 0, 0xF)
    made = [
        one(QUERY_DEVICE, 0, 0), one(QUERY_PORT, 1, 0), one(ALLOC_PD, 0, 0), shared,
        bytes([REGISTER]) + region + words(0, 1, 0) + extents,
        one(CHANNEL, 0, 0), one(CREATE_CQ, 7, 0, 16, 0), one(RESIZE_CQ, 0, 100),
        one(CREATE_SRQ, 9, 0, 0, 16, 1, 0), one(MODIFY_SRQ, 0, 4), one(QUERY_SRQ, 0, 0),
        one(CREATE_QP, 5, 0, 0, qp_type, 0, 0, 0, 10, 10, 2, 1, 64, 0, 0),
        one(CREATE_AH, 0, 0, *VECTOR), one(ALLOC_MW, 0, 1),
        bytes([MODIFY_QP]) + words(0, 0) + attributes(0x39, 1, tail=(0, 0, 0x0100, 0, 0)),
        bytes([MODIFY_QP]) + words(0, 0) + attributes(0x129181, 2, 3, 7, 0, VECTOR, (0, 0x01000000, 0x0C, 0, 0)),
        bytes([MODIFY_QP]) + words(0, 0) + attributes(0x12E01, 3, 0, 7, 0, (), (0, 0x00010000, 0x070E0000, 7, 0)),
        one(QUERY_QP, 0, 0),
    ]
    ended = [one(place, 0, 0) for place in (DESTROY_QP, DESTROY_AH, DEALLOC_MW, DEREGISTER, FREE_SHARED,
                                            DESTROY_SRQ, DESTROY_CQ, DEALLOC_PD)]
    return b"\x00" + b"".join(made) + b"".join(ended)


def main():
    folder = pathlib.Path(sys.argv[1])
    for target in ("frame", "packets", "config", "admin", "session", "cm"):
        (folder / target).mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / "tests" / "wire").glob("*.pcap")):
        sides = {}
        management = b""
        for n, frame in enumerate(frames_of(path)):
            (folder / "frame" / f"{path.stem}-{n}").write_bytes(frame)
            found = transport_of(frame)
            if found:
                sides.setdefault(found[0], []).append(packet_step(found[1]))
                management += cm_step(found[1])
        if management:
            (folder / "cm" / path.stem).write_bytes(management)
        for n, steps in enumerate(sides.values()):
            (folder / "packets" / f"{path.stem}-{n}").write_bytes(
                b"\x00" + RECEIVES + COMMANDS + b"".join(steps))
    for n, request in enumerate(REQUESTS):
        (folder / "admin" / str(n)).write_text("\0" + request)
        (folder / "admin" / f"own-{n}").write_text("\1" + request)
    for qp_type in (2, 3, 4):
        (folder / "session" / str(qp_type)).write_bytes(session(qp_type))
    (folder / "session" / "xrc").write_bytes(xrc_session())
    for path in [*ROOT.glob("config/*.toml"), *ROOT.glob("tests/system/*/*.toml")]:
        (folder / "config" / path.stem).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()

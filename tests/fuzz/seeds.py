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


# Operations of the target `requests`: its lists, one after the other.
OPERATIONS = """
    add_program end_program poll pass fill_sockets grant_vcbs revoke_vcbs
    raise_port_event park unpark make_cq resize_cq moderate_cq remove_cq poll_cq make_srq arm_srq resize_srq
    retire_srq remove_srq show_srq make_qp bring_up modify_qp query_qp destroy_qp open_target join_group leave_group
    set_rates set_receive_terms register_mr reregister_mr deregister_mr disturb_memory make_mw remove_mw make_ah
    remove_ah post ring post_receive scribble
    change rename_level adjust_lending remove_tenant remove_level release_whole collect_closed forget_addresses
    open close configure register_client set_buffers vouch remove_client watch_traffic view send receive
    add_fault remove_fault take_room add_capture remove_capture read_capture copy_events show_queue_pairs
    show_queue_pair find_queue_pair check_paths
    send_packet send_datagram send_raw fail_over serve_port""".split()
RC, UC, UD, XRC, TARGET = range(5)
WRITE, WRITE_IMM, SEND, SEND_IMM, READ, SWAP, ADD, INVALIDATE, BIND, FLUSH, SEND_INVALIDATE, ATOMIC_WRITE = range(12)
SIGNALED = 2


def do(name, *operands, poll=True):
    """An operation, and what it reads of the input; then a poll step."""
    return bytes([OPERATIONS.index(name) | (0x80 if poll else 0), *operands])


def make_qp(program, kind, srq=None):
    """A queue pair of the program, which has one completion queue."""
    sizes = () if kind == TARGET else (7, 7, 0, 0, 0)
    queues = () if kind in (TARGET, XRC) else (0, 0) if srq is None else (0, 1, srq)
    return do("make_qp", program, kind, *sizes, *queues) if kind != TARGET else do("make_qp", program, kind, 0)


def connect(program, held, kind, peer, local=True):
    """Brings the queue pair to RTS. `peer`: place among all queue pairs."""
    attributes = (2, 0, 0, 0, 0, 4, 4, 1, 8, 3)
    path = (0, 0, 0, 0) if local else (0, 120, 0, 0, 0, 0)  # to the first host on the network
    steps = [attributes, attributes + (path if kind != UD else ()), attributes]
    return do("bring_up", program, held, peer, int(local), 3, *(byte for step in steps for byte in step))


def modify(program, held, state):
    return do("modify_qp", program, held, state, 0, 2, 0, 0, 0, 1, 4, 4, 1, 8, 3, 0)


def entries(*keys, length=8):
    return bytes([len(keys)]) + b"".join(bytes([length, 0, 0, key]) for key in keys)


def post(program, held, opcode, data, how=0, vcb=0, key=0, region=0, datagram=b""):
    """`key`: of the peer's memory, or of the window that is bound to `region`."""
    return (do("post", program, held, opcode, SIGNALED, poll=False) + data + bytes([0, 0, key, region, 8, 0xF]) + datagram
            + bytes([0, how] + ([] if how & 0x10 else [vcb])) + do("poll", 4))


def post_receive(program, held, data, shared=False):
    return do("post_receive", program, poll=False) + data + bytes([int(shared), held]) + do("poll", 0)


def region(program):
    return do("register_mr", program, 1, 0, 0, *struct.pack("<H", 2048), 0)


def programs(count):
    """Programs of the first tenants, each with a completion queue and a region."""
    made = b"".join(do("add_program", i % 2) for i in range(count))
    return made + b"".join(do("make_cq", i, 1, 15) + region(i) for i in range(count))


def queue_pairs(kind):
    commands = {RC: (SEND, WRITE, READ, ADD, WRITE_IMM, BIND, INVALIDATE, ATOMIC_WRITE),
                UC: (SEND, WRITE, SEND_IMM)}[kind]
    window, peer = 2, 1
    keys = {BIND: window, INVALIDATE: window}
    return (
        programs(2) + make_qp(0, kind) + make_qp(1, kind) + connect(0, 0, kind, 1) + connect(1, 0, kind, 0)
        + do("make_mw", 0, 0, 1)
        + b"".join(post_receive(1, 0, entries(1)) for _ in range(3))
        + b"".join(post(0, 0, opcode, b"\0" if opcode in (BIND, INVALIDATE) else entries(0, length=1),
                        how=0x10 * (i % 2), vcb=i % 4, key=keys.get(opcode, peer)) for i, opcode in enumerate(commands))
        + do("set_rates", 0, 0, 0x57, 0, 0x57, 0, 1) + do("query_qp", 0, 0) + do("pass", 1)
        + b"".join(do("poll_cq", i, 0, 2) for i in range(2))
        # SQD and back, with the attributes of each transition.
        + b"".join(modify(0, 0, state) for state in (4, 3, 4, 3))
        + post(0, 0, FLUSH, b"\0", key=peer) + post(0, 0, SEND_INVALIDATE, entries(0), key=peer) + do("pass", 1)
        + do("show_queue_pairs", 0, 0) + do("show_queue_pair", 0) + do("find_queue_pair", 0)
        + do("ring", 1, 0, 4) + do("resize_cq", 0, 0, 7, 1, 1) + do("moderate_cq", 0, 0, 2, 40)
        + do("park", 0) + do("unpark", 0) + do("scribble", 0, 7, 3)
        + do("destroy_qp", 0, 0) + do("destroy_qp", 1, 0) + do("remove_cq", 0, 0) + do("deregister_mr", 1, 0)
        + do("remove_mw", 0, 0) + do("revoke_vcbs", 1, 1) + do("grant_vcbs", 8, 8) + do("raise_port_event", 0, 2)
        + do("end_program", 0, 1))


def on_the_wire():
    packets = b"".join(do("send_packet", 0, opcode, 1, 64, 0, 0, 0, 0, 0, 0, 0, 2) for opcode in (4, 10, 12, 20, 0))
    faults = b"".join(do("add_fault", kind, 2, 0, 0, 7, *delays, 0)
                      for kind, delays in ((1, (9, 3)), (2, ()), (3, (9, 2)), (4, ()), (5, ())))
    return (
        programs(1) + do("add_capture", 0, 255) + make_qp(0, RC) + connect(0, 0, RC, 0, local=False)
        + post(0, 0, SEND, entries(0)) + do("pass", 1) + post_receive(0, 0, entries(0)) + packets
        + faults + post(0, 0, WRITE, entries(0)) + packets + do("pass", 1) + do("read_capture", 0)
        + b"".join(do("remove_fault", 0) for _ in range(5)) + do("poll", 2) + do("take_room")
        + do("send_raw", 20, *range(20)) + do("copy_events", 1) + do("check_paths", 0, 2, *((0, 120, 0) * 3))
        + do("remove_capture", 0) + do("fail_over") + packets
        + do("serve_port", 1) + packets + do("serve_port", 0) + packets)


def datagrams():
    group = do("join_group", 0, 0, 0)
    to_qp1 = bytes([0, 240])  # queue pair number and key of general services
    return (
        do("open", 0) + do("open", 1) + do("open", 0) + programs(2)
        + make_qp(0, UD) + connect(0, 0, UD, 0) + make_qp(1, UD) + connect(1, 0, UD, 0) + group
        + do("make_ah", 0, 0, 0, 3, 0, 0, 0, 0) + do("make_ah", 1, 0, 120, 0, 0, 0, 0, 0)
        + do("make_ah", 1, 0, 220, 0, 0, 0, 0, 0)
        + do("register_client", 0, 5, 0) + do("register_client", 1, 0, 1) + do("register_client", 0, 2, 4)
        + b"".join(do("send_datagram", choice, 0, *more) for choice, more in
                   ((0, (0,)), (64, (0,)), (128, (0, 0)), (192, (0, 0))))
        + post_receive(1, 0, entries(1, length=40))
        + post(0, 0, SEND, entries(0), datagram=bytes([240, 1, 0, 0])) + post(0, 0, SEND, entries(0), datagram=to_qp1 + b"\0")
        + post(1, 0, SEND_IMM, entries(1), datagram=bytes([40, 0, 2]))
        + do("receive", 0, 0x0F) + do("send", 0, 0, 0, 120, 0, 0) + do("send", 0, 0, 0, 0, 3, 2)
        + do("set_buffers", 0, 1, 3, 0) + do("vouch", 0, 0, 120, 0) + do("watch_traffic", 0) + do("view", 0, 8)
        + do("configure", 0, 20, 0, 1, 0, 4, 0, 0, 3) + do("pass", 2) + do("watch_traffic", 0)
        + do("receive", 0, 0x1F) + do("remove_client", 0, 0) + do("leave_group", 0, 0, 0) + do("remove_ah", 0, 0)
        + do("close", 0))


def change(*steps):
    """A change of the configuration: a few steps, each (tenant, what, ...)."""
    return do("change", len(steps) - 1, *(byte for step in steps for byte in step), 0, 0)


def receive_queues():
    policy = change((1, 6, 4, 0x42, 3, 1, 1, 0x18, 2))  # limits of two buffers, and a watermark
    return (
        programs(2) + do("make_srq", 1, 15, 0, 2, 0) + make_qp(0, RC) + make_qp(1, RC, srq=0)
        + connect(0, 0, RC, 1) + connect(1, 0, RC, 0)
        + b"".join(post_receive(1, 0, entries(1), shared=True) for _ in range(6))
        + b"".join(post(0, 0, SEND, entries(0), vcb=i) for i in range(2))
        + do("set_receive_terms", 1, 0, 0x25, 1) + policy
        + b"".join(post(0, 0, SEND, entries(0), vcb=i) for i in range(4))
        + do("arm_srq", 1, 0, 5) + do("resize_srq", 1, 0, 7, 1, 3, 1) + do("show_srq", 1, 0)
        + post(0, 0, SEND, entries(0)) + do("pass", 1) + do("copy_events", 0, 0)
        + do("destroy_qp", 1, 0) + do("remove_srq", 1, 0))


def extended():
    """Targets that two programs hold, and queues that their requests name."""
    return (
        b"".join(do("add_program", 0) + do("make_cq", i, 0, 15) + region(i) for i in range(2))
        + do("make_srq", 0, 7, 0, 0, 1, 0, 0) + do("make_srq", 0, 7, 0, 0, 1, 0, 0)
        + make_qp(0, TARGET) + make_qp(1, XRC) + connect(0, 0, TARGET, 1) + connect(1, 0, XRC, 0)
        + do("open_target", 1, 0, 0)
        + b"".join(post_receive(0, i % 2, entries(0), shared=True) for i in range(4))
        + post(1, 0, SEND, entries(1)) + post(1, 0, WRITE, entries(1), key=0) + do("set_receive_terms", 0, 0, 5, 1)
        + do("retire_srq", 0, 0) + do("remove_srq", 0, 0) + do("end_program", 0, 1) + post(1, 0, SEND, entries(1))
        + do("destroy_qp", 0, 1) + do("destroy_qp", 0, 0))


def memory_of_processes():
    return (
        programs(2) + do("register_mr", 0, 1, 0, 0, *struct.pack("<H", 3000), 0x7F)
        + do("register_mr", 0, 7, 0) + make_qp(0, RC) + make_qp(1, RC) + connect(0, 0, RC, 1) + connect(1, 0, RC, 0)
        + do("disturb_memory", 0, 1, 2, 0, 5) + post(0, 0, WRITE, entries(2, length=200), key=1)
        + post(0, 0, READ, entries(2, length=200), key=1) + post(1, 0, ADD, entries(1, length=1), key=2)
        + post(0, 0, WRITE, entries(3), key=1) + do("pass", 1)
        + do("disturb_memory", 0, 1, 0, 2, 0) + post(1, 0, WRITE, entries(1), key=2)
        + do("reregister_mr", 0, 1, 0, 0, *struct.pack("<H", 1000), 0) + post(1, 0, WRITE, entries(1), key=2)
        + do("deregister_mr", 0, 0))


def tenants_and_levels():
    def level(name, pcbs=1, tvls=1):
        return (0, 6, 8, name, pcbs, tvls, 1)

    def other(what, *more):
        return (0, what, *more)

    return (
        do("add_program", 0) + do("make_cq", 0, 0, 15) + make_qp(0, RC)  # before there are levels
        + change(level(0), level(1)) + do("add_program", 0, 0) + do("add_program", 0, 1) + do("make_cq", 1, 0, 15)
        + make_qp(1, RC) + connect(0, 0, RC, 1) + connect(1, 0, RC, 0)
        # The path of the second belongs to another level now.
        + change((0, 6, 10, 1, 5, 0, 0)) + modify(1, 0, 0) + connect(1, 0, RC, 0)
        + change((0, 6, 3, 0x57, 1, 0x57, 0x57)) + change((0, 6, 1, 1, 2)) + change((0, 6, 1, 1, 1))
        + do("rename_level", 0, 0, 1) + do("adjust_lending", 1, 0) + do("pass", 31) + do("adjust_lending", 1, 0)
        + do("end_program", 0, 0) + do("release_whole")
        + change((0, 6, 9, 0, 0)) + do("end_program", 0, 0) + do("remove_level") + do("collect_closed")
        + change((1, 6, 5, 0, 1), (0, 6, 5, 1, 0)) + do("end_program", 0, 0) + do("forget_addresses")
        + change(other(0, 2, 1, 0, 11)) + change(other(2, 1, 1), other(2, 2, 1)) + change(other(3, 0, 1, 1))
        + change(other(5, 0, 1, 1, 1, 1), other(5, 1, 2, 1, 3, 3), other(5, 2, 1, 2)) + change(other(4, 11))
        + do("add_program", 1) + do("make_cq", 0, 0, 15) + change((1, 1)) + do("remove_tenant")
        + do("end_program", 0, 0) + do("remove_tenant") + change(other(0, 2, 1, 0, 7)))


REQUEST_SEEDS = {
    "rc": lambda: queue_pairs(RC), "uc": lambda: queue_pairs(UC), "wire": on_the_wire, "datagrams": datagrams,
    "receive-queues": receive_queues, "xrc": extended, "process-memory": memory_of_processes,
    "tenants": tenants_and_levels}


def main():
    folder = pathlib.Path(sys.argv[1])
    for target in ("frame", "packets", "config", "admin", "session", "cm", "requests"):
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
    for name, made in REQUEST_SEEDS.items():
        (folder / "requests" / name).write_bytes(made())
    for path in [*ROOT.glob("config/*.toml"), *ROOT.glob("tests/system/*/*.toml")]:
        (folder / "config" / path.stem).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()

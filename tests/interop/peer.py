#!/usr/bin/python3
"""One of two ends that check each other's RDMA operations by contents and completions.

usage: peer.py serve|call --device D --gid INDEX --port TCP-PORT [--host ADDRESS] [--mtu M]
               [--transport rc|uc] [--long-send-status N]

Both ends make a queue pair, tell each other about it over TCP, and take the part of the requester
in turn, the caller first. Every operation's data is a function of its seed, so that the responder
can check what arrived. Exit code 0: all was as expected. --long-send-status: the completion status
this end must see when its peer's receive buffer is too small (specification: 9, invalid request).
"""

import argparse
import errno
import json
import random
import socket
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE

ROOM = 1 << 20
SIZES = [0, 1, 2, 3, 4, 5, 255, 256, 257, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 65541, 1000003]
MTU = {256: e.IBV_MTU_256, 512: e.IBV_MTU_512, 1024: e.IBV_MTU_1024, 2048: e.IBV_MTU_2048,
       4096: e.IBV_MTU_4096}
ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
          | e.IBV_ACCESS_REMOTE_ATOMIC)
PATIENCE = 30  # seconds


def pattern(seed, size):
    return random.Random(seed).randbytes(size)


def expect(what, found, wanted):
    if found != wanted:
        if isinstance(found, bytes) and len(found) == len(wanted):
            at = next(i for i in range(len(found)) if found[i] != wanted[i])
            raise SystemExit(f"{what}: byte {at} of {len(found)} is the first that differs")
        raise SystemExit(f"{what}: {found!r} instead of {wanted!r}")


class Channel:
    """JSON lines over TCP."""

    def __init__(self, options):
        if options.role == "serve":
            listener = socket.create_server(("", options.port))
            connection, _ = listener.accept()
        else:
            connection = socket.create_connection((options.host, options.port), timeout=PATIENCE)
        connection.settimeout(2 * PATIENCE)
        self.file_in, self.file_out = connection.makefile("r"), connection.makefile("w")

    def tell(self, value):
        self.file_out.write(json.dumps(value) + "\n")
        self.file_out.flush()

    def hear(self):
        line = self.file_in.readline()
        if not line:
            raise SystemExit("the other end is gone")
        return json.loads(line)


class End:
    def __init__(self, options, channel):
        self.options, self.channel = options, channel
        self.context = Context(name=options.device)
        self.pd = PD(self.context)
        self.memory = MR(self.pd, ROOM, ACCESS)
        self.cq = CQ(self.context, 256)

    def connect(self, rnr_retry=7):
        """A new queue pair, connected to one the other end makes at the same time."""
        uc = self.options.transport == "uc"
        kind = e.IBV_QPT_UC if uc else e.IBV_QPT_RC
        cap = QPCap(max_send_wr=64, max_recv_wr=64)
        self.qp = QP(self.pd, QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, cap=cap))
        gid = self.context.query_gid(1, self.options.gid).gid
        psn = random.choice([0, 0xFFFFF0, random.randrange(1 << 24)])  # wrap-around, often
        self.channel.tell({"qpn": self.qp.qp_num, "psn": psn, "gid": gid,
                           "address": self.memory.buf, "rkey": self.memory.rkey})
        self.peer = peer = self.channel.hear()
        attr = QPAttr(port_num=1, path_mtu=MTU[self.options.mtu])
        attr.dest_qp_num = peer["qpn"]
        attr.qp_access_flags = ACCESS
        attr.rq_psn, attr.sq_psn = peer["psn"], psn
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 0 if uc else 8
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 16, 7, rnr_retry, 12
        route = GlobalRoute(dgid=GID(peer["gid"]), sgid_index=self.options.gid)
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        self.qp.to_rts(attr)
        self.channel.tell("connected")
        expect("handshake", self.channel.hear(), "connected")

    def sge(self, offset, size):
        return [SGE(self.memory.buf + offset, size, self.memory.lkey)]

    def receive(self, size):
        self.qp.post_recv(RecvWR(sg=self.sge(0, size), num_sge=1))

    def post(self, opcode, size, offset=0, flags=0, imm=0, rkey=None, remote=0, operands=None):
        wr = SendWR(opcode=opcode, num_sge=1, sg=self.sge(offset, size), imm_data=imm,
                    send_flags=e.IBV_SEND_SIGNALED | flags)
        rkey, address = rkey or self.peer["rkey"], self.peer["address"] + remote
        if operands:
            wr.set_wr_atomic(rkey, address, *operands)
        elif opcode not in (e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_IMM):
            wr.set_wr_rdma(rkey, address)
        self.qp.post_send(wr)

    def completion(self, what, status=e.IBV_WC_SUCCESS):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            count, found = self.cq.poll(1)
            if count:
                expect(f"{what}: completion status", found[0].status, status)
                return found[0]
            time.sleep(0.0002)
        raise SystemExit(f"{what}: no completion")

    # Responder: does as told until told to stop.

    def respond(self):
        while True:
            order = self.channel.hear()
            if order["do"] == "stop":
                return
            answer = getattr(self, "answer_" + order.pop("do"))(**order)
            self.channel.tell(answer)

    def answer_receive(self, size):
        self.memory.write(bytes(min(size, ROOM)), min(size, ROOM))
        self.receive(size)

    def answer_received(self, what, seed, size, imm, byte_len):
        wc = self.completion(what)
        expect(f"{what}: length", wc.byte_len, byte_len)
        expect(f"{what}: with immediate", bool(wc.wc_flags & e.IBV_WC_WITH_IMM), imm is not None)
        if imm is not None:
            expect(f"{what}: immediate", wc.imm_data, imm)
        self.answer_check(what, seed, size)

    def answer_check(self, what, seed, size):
        expect(what, self.memory.read(size, 0) if size else b"", pattern(seed, size))

    def answer_fill(self, seed, size):
        data = pattern(seed, size) + bytes(8)
        self.memory.write(data, len(data))

    def answer_number(self, value):
        self.memory.write(value.to_bytes(8, "little"), 8)

    def answer_what_number(self):
        return int.from_bytes(self.memory.read(8, 0), "little")

    def answer_connect(self, rnr_retry=7):
        self.connect(rnr_retry)

    def answer_drain(self):
        while self.cq.poll(1)[0]:
            pass

    # Requester.

    def order(self, do, **arguments):
        self.channel.tell({"do": do, **arguments})
        return self.channel.hear()

    def reconnect(self, **arguments):
        self.order("drain")
        self.answer_drain()
        self.channel.tell({"do": "connect", **arguments})
        self.connect(**arguments)
        self.channel.hear()

    def request(self):
        self.check_sends()
        self.check_writes()
        if self.options.transport == "rc":
            self.check_reads()
            self.check_atomics()
            self.check_many()
            self.check_errors()
        self.channel.tell({"do": "stop"})

    def prepare(self, seed, size):
        self.memory.write(pattern(seed, size) or bytes(1), size or 1)

    def check_sends(self):
        for seed, size in enumerate(SIZES):
            for imm in (None, 0x01020304 + size):
                what = f"send of {size}{' with immediate' if imm else ''}"
                self.order("receive", size=ROOM)
                self.prepare(seed, size)
                opcode = e.IBV_WR_SEND if imm is None else e.IBV_WR_SEND_WITH_IMM
                self.post(opcode, size, imm=imm or 0)
                self.completion(what)
                self.order("received", what=what, seed=seed, size=size, imm=imm, byte_len=size)

    def check_writes(self):
        for seed, size in enumerate(SIZES, 100):
            what = f"write of {size}"
            self.prepare(seed, size)
            self.order("fill", seed=0, size=size)
            if self.options.transport == "rc":
                self.post(e.IBV_WR_RDMA_WRITE, size)
                self.completion(what)
                self.order("check", what=what, seed=seed, size=size)
            self.prepare(seed + 100, size)
            self.order("receive", size=0)
            self.post(e.IBV_WR_RDMA_WRITE_WITH_IMM, size, imm=77 + size)
            self.completion(what)
            self.order("received", what=what + " with immediate", seed=seed + 100, size=size,
                       imm=77 + size, byte_len=size)

    def check_reads(self):
        for seed, size in enumerate(SIZES, 300):
            self.order("fill", seed=seed, size=size)
            self.answer_fill(0, size)
            self.post(e.IBV_WR_RDMA_READ, size)
            self.completion(f"read of {size}")
            self.answer_check(f"read of {size}", seed, size)

    def atomic(self, what, opcode, operands, before, after):
        self.order("number", value=before)
        self.post(opcode, 8, operands=operands)
        self.completion(what)
        expect(f"{what}: result", self.answer_what_number(), before)
        expect(f"{what}: memory", self.order("what_number"), after)

    def check_atomics(self):
        big = 0x1122334455667788
        self.atomic("fetch and add", e.IBV_WR_ATOMIC_FETCH_AND_ADD, (5, 0), big, big + 5)
        self.atomic("fetch and add, overflow", e.IBV_WR_ATOMIC_FETCH_AND_ADD, (2, 0), (1 << 64) - 1, 1)
        self.atomic("compare and swap", e.IBV_WR_ATOMIC_CMP_AND_SWP, (big, 3), big, 3)
        self.atomic("compare and swap, unequal", e.IBV_WR_ATOMIC_CMP_AND_SWP, (big, 3), 4, 4)

    def check_many(self):
        """More reads and atomics at once than may be in flight, and a fenced write behind them."""
        size = 9000
        self.order("fill", seed=7, size=30 * size)
        for i in range(30):
            self.post(e.IBV_WR_RDMA_READ, size, offset=i * size, remote=i * size)
        self.post(e.IBV_WR_RDMA_WRITE, 30 * size, offset=0, flags=e.IBV_SEND_FENCE, remote=30 * size)
        for i in range(31):
            self.completion(f"read {i} of many")
        self.answer_check("many reads", 7, 30 * size)
        self.post(e.IBV_WR_RDMA_READ, 30 * size, remote=30 * size)
        self.completion("read of the fenced write")
        self.answer_check("fenced write", 7, 30 * size)
        self.order("number", value=0)
        for i in range(30):
            self.post(e.IBV_WR_ATOMIC_FETCH_AND_ADD, 8, offset=8 * i, operands=(1, 0))
        for i in range(30):
            self.completion(f"atomic {i} of many")
        expect("many atomics", self.order("what_number"), 30)

    def check_errors(self):
        self.post(e.IBV_WR_RDMA_WRITE, 5000, rkey=self.peer["rkey"] ^ 0x5A5A00)
        self.completion("write with a wrong key", e.IBV_WC_REM_ACCESS_ERR)
        self.reconnect()
        self.post(e.IBV_WR_RDMA_READ, 5000, rkey=self.peer["rkey"] ^ 0x5A5A00)
        self.completion("read with a wrong key", e.IBV_WC_REM_ACCESS_ERR)
        self.reconnect()
        self.post(e.IBV_WR_RDMA_READ, 64, remote=ROOM - 32)
        self.completion("read past the end", e.IBV_WC_REM_ACCESS_ERR)
        self.reconnect()
        try:  # Soft-RoCE refuses to post it.
            self.post(e.IBV_WR_ATOMIC_FETCH_AND_ADD, 8, remote=4, operands=(1, 0))
        except PyverbsRDMAError as error:
            expect("atomic not aligned: error number", error.error_code, errno.EINVAL)
        else:
            self.completion("atomic not aligned", e.IBV_WC_REM_INV_REQ_ERR)
            self.reconnect()
        self.order("receive", size=100)
        self.post(e.IBV_WR_SEND, 101)
        self.completion("send of too much", self.options.long_send_status)
        self.reconnect(rnr_retry=1)
        self.post(e.IBV_WR_SEND, 100)
        self.completion("send without a receive", e.IBV_WC_RNR_RETRY_EXC_ERR)
        # One that comes late is waited for.
        self.reconnect()
        self.prepare(9, 9000)
        self.post(e.IBV_WR_SEND, 9000)
        time.sleep(0.05)
        self.order("receive", size=9000)
        self.completion("send before its receive")
        self.order("received", what="send before its receive", seed=9, size=9000, imm=None,
                   byte_len=9000)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["serve", "call"])
    parser.add_argument("--device", required=True)
    parser.add_argument("--gid", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host")
    parser.add_argument("--mtu", type=int, choices=MTU, default=1024)
    parser.add_argument("--transport", choices=["rc", "uc"], default="rc")
    parser.add_argument("--long-send-status", type=int, default=e.IBV_WC_REM_INV_REQ_ERR)
    options = parser.parse_args()
    end = End(options, Channel(options))
    end.connect()
    parts = [end.respond, end.request]
    if options.role == "call":
        parts.reverse()
    for part in parts:
        part()


if __name__ == "__main__":
    main()

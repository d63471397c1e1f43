"""One end: its device's resources, what it posts and awaits, and its answers as the responder."""

import random
import time

import pyverbs.enums as e
from channel import PATIENCE, expect, pattern
from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.wr import RecvWR, SendWR, SGE

ROOM = 1 << 20
SLOT = 16384  # for each message of an unreliable transport
SLOTS = 39  # of receives; behind them, those that writes write to
GRH = 40  # in front of what a UD receive gets
QKEY = 0x11111111
MTU = {256: e.IBV_MTU_256, 512: e.IBV_MTU_512, 1024: e.IBV_MTU_1024, 2048: e.IBV_MTU_2048,
       4096: e.IBV_MTU_4096}
ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
          | e.IBV_ACCESS_REMOTE_ATOMIC)
QUEUE_PAIR = {"rc": e.IBV_QPT_RC, "uc": e.IBV_QPT_UC, "ud": e.IBV_QPT_UD}
EXTENDED_SENDS = e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM
EXTENDED_WRITES = e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
EXTENDED = {"ud": EXTENDED_SENDS, "uc": EXTENDED_SENDS | EXTENDED_WRITES,
            "rc": EXTENDED_SENDS | EXTENDED_WRITES | e.IBV_QP_EX_WITH_RDMA_READ
            | e.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
            | e.IBV_QP_EX_WITH_SEND_WITH_INV | e.IBV_QP_EX_WITH_BIND_MW}


def message(number, size):
    """Data of `size` bytes, at least 4, that tell which message they are."""
    return number.to_bytes(4, "big") + pattern(number, size - 4)


class End:
    def __init__(self, options, channel):
        self.options, self.channel = options, channel
        self.context = Context(name=options.device)
        self.pd = PD(self.context)
        self.memory = MR(self.pd, ROOM, ACCESS | e.IBV_ACCESS_MW_BIND)
        self.cq = CQ(self.context, 256)
        self.window = None

    # Connection.

    def connect(self, transport, rnr_retry=7):
        """A new queue pair, connected to one the other end makes at the same time."""
        self.transport, self.posted = transport, []
        self.qp = self.new_queue_pair()
        gid = self.context.query_gid(1, self.options.gid).gid
        psn = random.choice([0, 0xFFFFF0, random.randrange(1 << 24)])  # wrap-around, often
        self.channel.tell({"qpn": self.qp.qp_num, "psn": psn, "gid": gid,
                           "address": self.memory.buf, "rkey": self.memory.rkey})
        self.peer = peer = self.channel.hear()
        attr = QPAttr(port_num=1)
        attr.rq_psn, attr.sq_psn = peer["psn"], psn
        route = GlobalRoute(dgid=GID(peer["gid"]), sgid_index=self.options.gid,
                            traffic_class=self.options.traffic_class)
        address = AHAttr(gr=route, is_global=1, port_num=1)
        if transport == "ud":
            attr.qkey = QKEY
            self.address_handle = AH(self.pd, attr=address)
        else:
            attr.path_mtu = MTU[self.options.mtu]
            attr.dest_qp_num, attr.ah_attr, attr.qp_access_flags = peer["qpn"], address, ACCESS
        if transport == "rc":
            attr.max_rd_atomic = attr.max_dest_rd_atomic = 8
            attr.timeout, attr.retry_cnt = 16, 7
            attr.rnr_retry, attr.min_rnr_timer = rnr_retry, 12
        self.qp.to_rts(attr)
        self.channel.tell("connected")
        expect("handshake", self.channel.hear(), "connected")

    def new_queue_pair(self):
        kind, cap = QUEUE_PAIR[self.transport], QPCap(max_send_wr=64, max_recv_wr=64)
        if not self.options.extended:
            return QP(self.pd, QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, cap=cap))
        return QPEx(self.context, QPInitAttrEx(
            qp_type=kind, scq=self.cq, rcq=self.cq, cap=cap, pd=self.pd,
            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
            send_ops_flags=EXTENDED[self.transport]))

    def reconnect(self, **arguments):
        self.order("drain")
        self.answer_drain()
        self.channel.tell({"do": "connect", **arguments})
        self.connect(self.transport, **arguments)
        self.channel.hear()

    # Work requests and completions.

    def sge(self, offset, size):
        return SGE(self.memory.buf + offset, size, self.memory.lkey)

    def receive(self, size, offset=0):
        self.qp.post_recv(RecvWR(wr_id=offset, sg=[self.sge(offset, size)], num_sge=1))

    def post(self, opcode, size, offset=0, flags=0, imm=0, rkey=None, remote=0, operands=(0, 0)):
        """`imm`: immediate data, or the key to invalidate. `operands`: of an atomic."""
        rkey, address = rkey or self.peer["rkey"], self.peer["address"] + remote
        flags |= e.IBV_SEND_SIGNALED
        if self.options.extended:
            self.post_extended(opcode, self.sge(offset, size), flags, imm, rkey, address, operands)
            return
        wr = SendWR(opcode=opcode, num_sge=1, sg=[self.sge(offset, size)], imm_data=imm, send_flags=flags)
        if opcode in (e.IBV_WR_ATOMIC_FETCH_AND_ADD, e.IBV_WR_ATOMIC_CMP_AND_SWP):
            wr.set_wr_atomic(rkey, address, *operands)
        elif opcode in (e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_WRITE_WITH_IMM, e.IBV_WR_RDMA_READ):
            wr.set_wr_rdma(rkey, address)
        elif self.transport == "ud":
            wr.set_wr_ud(self.address_handle, self.peer["qpn"], QKEY)
        self.qp.post_send(wr)

    def post_extended(self, opcode, sge, flags, imm, rkey, address, operands):
        qp = self.qp
        qp.wr_start()
        qp.wr_id, qp.wr_flags = 0, flags
        # pyverbs takes immediate data for numbers here, and for bytes in a SendWR.
        imm_number = int.from_bytes(imm.to_bytes(4, "little"), "big")
        {e.IBV_WR_SEND: qp.wr_send,
         e.IBV_WR_SEND_WITH_IMM: lambda: qp.wr_send_imm(imm_number),
         e.IBV_WR_SEND_WITH_INV: lambda: qp.wr_send_inv(imm),
         e.IBV_WR_RDMA_WRITE: lambda: qp.wr_rdma_write(rkey, address),
         e.IBV_WR_RDMA_WRITE_WITH_IMM: lambda: qp.wr_rdma_write_imm(rkey, address, imm_number),
         e.IBV_WR_RDMA_READ: lambda: qp.wr_rdma_read(rkey, address),
         e.IBV_WR_ATOMIC_FETCH_AND_ADD: lambda: qp.wr_atomic_fetch_add(rkey, address, operands[0]),
         e.IBV_WR_ATOMIC_CMP_AND_SWP: lambda: qp.wr_atomic_cmp_swp(rkey, address, *operands),
         }[opcode]()
        if self.transport == "ud":
            qp.wr_set_ud_addr(self.address_handle, self.peer["qpn"], QKEY)
        qp.wr_set_sge(sge)
        qp.wr_complete()

    def poll(self, seconds):
        """The next completion, or None when there is none for so long."""
        end = time.monotonic() + seconds
        while True:
            count, found = self.cq.poll(1)
            if count:
                return found[0]
            if time.monotonic() > end:
                return None
            time.sleep(0.0002)

    def completion(self, what, status=e.IBV_WC_SUCCESS):
        wc = self.poll(PATIENCE)
        if wc is None:
            raise SystemExit(f"{what}: no completion")
        expect(f"{what}: completion status", wc.status, status)
        return wc

    def did(self, operation, count):
        print("did", self.transport.upper(), count, operation, flush=True)

    # Requester: tells the other end to do something, and hears the answer.

    def order(self, do, **arguments):
        self.channel.tell({"do": do, **arguments})
        return self.channel.hear()

    def prepare(self, seed, size):
        self.memory.write(pattern(seed, size) or bytes(1), size or 1)

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

    def answer_received(self, what, seed, size, imm=None, invalidated=None):
        wc = self.completion(what)
        expect(f"{what}: length", wc.byte_len, size)
        for kind, flag, value in (("immediate", e.IBV_WC_WITH_IMM, imm),
                                  ("invalidated key", self.options.invalidated_flag, invalidated)):
            expect(f"{what}: with {kind}", bool(wc.wc_flags & flag), value is not None)
            if value is not None:
                expect(f"{what}: {kind}", wc.imm_data, value)
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
        self.connect(self.transport, rnr_retry)

    def answer_drain(self):
        while self.cq.poll(1)[0]:
            pass

    def answer_bind(self, kind, offset, size):
        """Binds a new memory window of type 1 or 2 to a part of the memory; its key."""
        self.window = MW(self.pd, {1: e.IBV_MW_TYPE_1, 2: e.IBV_MW_TYPE_2}[kind])
        info = MWBindInfo(self.memory, self.memory.buf + offset, size,
                          e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC)
        if kind == 1:
            self.qp.bind_mw(self.window, MWBind(info, e.IBV_SEND_SIGNALED))
            self.completion("bind")
            return self.window.rkey
        if self.options.extended:
            key = self.window.rkey & ~0xFF | (self.window.rkey + 1) & 0xFF
            self.qp.wr_start()
            self.qp.wr_id, self.qp.wr_flags = 0, e.IBV_SEND_SIGNALED
            self.qp.wr_bind_mw(self.window, key, info)
            self.qp.wr_complete()
        else:
            wr = SendWR(opcode=e.IBV_WR_BIND_MW)
            wr.set_bind_wr(self.window, info)
            key = wr.rkey
            self.qp.post_send(wr)
        self.completion("bind")
        return key

    def answer_close_window(self):
        self.window.close()

    # Messages of transports that may lose them: see unreliable.py.

    def answer_open(self):
        """Receives for messages, as many as there is room for, and nothing in what writes write to."""
        self.memory.write(bytes(ROOM), ROOM)
        for slot in range(SLOTS):
            if slot * SLOT not in self.posted:
                self.receive(SLOT, slot * SLOT)
                self.posted.append(slot * SLOT)

    def answer_collect(self, what, first, sizes, imm, written, lossy):
        """Checks the messages that came; how many of them did."""
        came = set()
        while lossy or len(came) < len(sizes):
            wc = self.poll(1 if lossy else PATIENCE)
            if wc is None:
                break
            expect(f"{what}: completion status", wc.status, e.IBV_WC_SUCCESS)
            self.posted.remove(wc.wr_id)
            offset, length = wc.wr_id, wc.byte_len
            if self.transport == "ud":
                offset, length = offset + GRH, length - GRH
            if written:
                number = wc.imm_data - 1
                offset = (SLOTS + number - first) * SLOT
            else:
                number = int.from_bytes(self.memory.read(4, offset), "big")
            if lossy and number < first:
                continue  # late, of an operation before
            if not 0 <= number - first < len(sizes):
                raise SystemExit(f"{what}: message {number} was not sent")
            size = sizes[number - first]
            expect(f"{what}, message {number}: length", length, size)
            expect(f"{what}, message {number}", self.memory.read(size, offset), message(number, size))
            expect(f"{what}, message {number}: immediate", bool(wc.wc_flags & e.IBV_WC_WITH_IMM), imm)
            if imm:
                expect(f"{what}, message {number}: immediate", wc.imm_data, number + 1)
            came.add(number)
        return len(came)

    def answer_pieces(self, what, first, sizes):
        """Checks writes of which packets may be missing, but no parts of packets; how many are whole."""
        whole = 0
        for place, size in enumerate(sizes):
            found, wanted = self.memory.read(size, (SLOTS + place) * SLOT), message(first + place, size)
            whole += found == wanted
            for at in range(0, size, self.options.mtu):
                piece = found[at : at + self.options.mtu]
                if any(piece):
                    expect(f"{what}, message {first + place}, at {at}", piece, wanted[at : at + len(piece)])
        return whole

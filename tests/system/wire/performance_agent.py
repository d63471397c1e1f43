#!/usr/bin/python3
"""Asks performance agents (management class 4) as a program can: management datagrams to queue pair
1, sent and received with verbs, read with libibmad.

usage: performance_agent.py receive DEVICE GID-INDEX FILE COUNT
       performance_agent.py ask DEVICE GID-INDEX OWN-GID PEER-GID FILE COUNT

"receive" writes the number of a queue pair into FILE and takes COUNT datagrams. "ask" asks the
agents of both addresses, sends COUNT datagrams there, and asks again what the counters say of them.
"""
import ctypes
import ipaddress
import struct
import sys
import time

from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr, QPAttr
from pyverbs.addr import AH
from pyverbs.wr import RecvWR, SendWR, SGE

GRH, MAD, QKEY, SIZE = 40, 256, 0x80010000, 104
# 14 Ethernet, 20 IP, 8 UDP, 12 BTH, 8 DETH, 4 ICRC: what is around a payload.
AROUND = 66
GET, SET, CLASS_PORT_INFO, COUNTERS, EXTENDED = 1, 2, 0x01, 0x12, 0x1d
BAD_VERSION, BAD_METHOD, BAD_ATTRIBUTE, BAD_FIELD = 0x04, 0x08, 0x0c, 0x1c

ibmad = ctypes.CDLL('libibmad.so.5')


def expect(holds, *what):
    if not holds:
        sys.exit('not as it should be: ' + ' '.join(map(str, what)))


class Endpoint:
    """An unreliable-datagram queue pair."""

    def __init__(self, device, gid_index, qkey, depth=64):
        self.gid_index, self.depth = gid_index, depth
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 2 * depth)
        self.mr = MR(self.pd, (depth + 1) * 512, e.IBV_ACCESS_LOCAL_WRITE)
        attr = QPAttr(port_num=1)
        attr.qkey = qkey
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=self.cq, rcq=self.cq,
                                         cap=QPCap(max_send_wr=8, max_recv_wr=depth)), attr)
        self.posted, self.kept = 0, []
        # What has gone over the wire, as the port counts it.
        self.packets, self.octets = {'Xmit': 0, 'Rcv': 0}, {'Xmit': 0, 'Rcv': 0}
        for _ in range(depth):
            self.post()

    def post(self):
        at = self.posted % self.depth
        sge = SGE(self.mr.buf + at * 512, 512, self.mr.lkey)
        self.qp.post_recv(RecvWR(wr_id=at, sg=[sge], num_sge=1))
        self.posted += 1

    def handle(self, gid):
        route = GlobalRoute(dgid=GID(ipaddress.IPv6Address(gid).packed.hex(":", 2)), sgid_index=self.gid_index)
        return AH(self.pd, attr=AHAttr(gr=route, is_global=1, port_num=1))

    def send(self, to, qpn, qkey, data):
        place = self.depth * 512
        self.mr.write(data, len(data), place)
        wr = SendWR(wr_id=1 << 32, num_sge=1, opcode=e.IBV_WR_SEND,
                    send_flags=e.IBV_SEND_SIGNALED,
                    sg=[SGE(self.mr.buf + place, len(data), self.mr.lkey)])
        wr.set_wr_ud(to, qpn, qkey)
        self.qp.post_send(wr)
        expect(self.wait(5, sent=True) is not None, 'a send that does not complete')

    def wait(self, seconds, sent=False):
        """The next datagram, or the end of a send; None: there is none for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            count, completions = self.cq.poll()
            if count == 0:
                time.sleep(0.0005)
                continue
            wc = completions[0]
            expect(wc.status == e.IBV_WC_SUCCESS, 'completion', wc.status)
            if wc.wr_id >> 32:
                expect(sent, 'a send that completes twice')
                return b''
            data = self.mr.read(wc.byte_len - GRH, wc.wr_id * 512 + GRH)
            self.post()
            if not sent:
                return data
            self.kept.append(data)
        return None

    def note(self, way, data):
        self.packets[way] += 1
        self.octets[way] += len(data) + AROUND


class Agent:
    """Queue pair 1 of an address."""

    def __init__(self, endpoint, gid, is_remote):
        self.endpoint, self.to, self.transaction = endpoint, endpoint.handle(gid), 0
        self.is_remote = is_remote

    def request(self, attribute, method=GET, version=1, port=1, modifier=0):
        self.transaction += 1
        mad = bytearray(MAD)
        struct.pack_into('>BBBBHHQHHI', mad, 0, 1, 4, version, method, 0, 0, self.transaction,
                         attribute, 0, modifier)
        mad[65] = port
        return bytes(mad)

    def answer(self, mad, qkey=QKEY, seconds=1.0):
        """To what is sent; None: there is none."""
        end = self.endpoint
        end.send(self.to, 1, qkey, mad)
        got = end.kept.pop() if end.kept else end.wait(seconds)
        if self.is_remote:
            end.note('Xmit', mad)
            if got is not None:
                end.note('Rcv', got)
        return got

    def ask(self, attribute, status=0, **how):
        mad = self.request(attribute, **how)
        for _ in range(10):  # the first may be lost while the neighbour is asked for
            got = self.answer(mad)
            if got is not None:
                break
        expect(got is not None and len(got) == MAD, 'no answer to attribute', hex(attribute), how)
        head = struct.unpack_from('>BBBBHHQHHI', got)
        sent = struct.unpack_from('>BBBBHHQHHI', mad)
        expect(head[3] == 0x81 and head[4] == status, 'answer', head, 'to', sent)
        expect(head[:3] == sent[:3] and head[6:] == sent[6:], 'answer', head, 'to', sent)
        return got

    def counters(self, attribute):
        """As libibmad prints them."""
        got = ctypes.create_string_buffer(self.ask(attribute)[64:], MAD - 64)
        text = ctypes.create_string_buffer(4096)
        dump = ibmad.mad_dump_perfcounters if attribute == COUNTERS else ibmad.mad_dump_perfcounters_ext
        dump(text, ctypes.c_int(4096), got, ctypes.c_int(MAD - 64))
        lines = (line.split(':') for line in text.value.decode().splitlines())
        return {name: int(value.strip('. '), 0) for name, value in lines}


def check_class_port_info(agent):
    got = agent.ask(CLASS_PORT_INFO)
    base, version, mask = struct.unpack_from('>BBH', got, 64)
    # AllPortSelect, extended counters, PortXmitWait
    expect((base, version) == (1, 1) and mask & 0x1300 == 0x1300, 'ClassPortInfo', base, version, mask)


def check_refusals(agent):
    agent.ask(0x15, status=BAD_ATTRIBUTE)  # of the optional ones
    agent.ask(0xff00, status=BAD_ATTRIBUTE)
    agent.ask(COUNTERS, status=BAD_VERSION, version=2)
    agent.ask(COUNTERS, status=BAD_METHOD, method=0x14)
    agent.ask(COUNTERS, status=BAD_ATTRIBUTE, method=SET)  # counters are not to be set back
    agent.ask(COUNTERS, status=BAD_FIELD, port=7)
    agent.ask(COUNTERS, status=BAD_FIELD, modifier=1)
    agent.ask(COUNTERS, port=0xff)
    for mad in (b'\1', agent.request(COUNTERS)[:100], agent.request(COUNTERS) + b'\0' * 44,
                b'\2' + agent.request(COUNTERS)[1:],  # another base version
                agent.request(COUNTERS, method=0x81)):  # an answer
        expect(agent.answer(mad, seconds=0.3) is None, 'answer to', mad[:24].hex(), len(mad))
    expect(agent.answer(agent.request(COUNTERS), qkey=0x1234, seconds=0.3) is None,
           'answer to another Q_Key')
    agent.counters(COUNTERS)


def check_moved(agent, attribute, before, wanted):
    """By so many packets and octets each way; data is counted in words of 4."""
    after = agent.counters(attribute)
    moved = {name: after[name] - before[name] for name in before if after[name] != before[name]}
    print(hex(attribute), moved)
    for way, (packets, octets) in wanted.items():
        expect(moved.get(f'Port{way}Pkts', 0) == packets, way, moved, 'instead of', packets)
        # What was odd before may make one more.
        expect(moved.get(f'Port{way}Data', 0) - octets // 4 in (0, 1), way, moved, 'instead of', octets)


def ask(device, gid_index, own, peer, file, count):
    endpoint = Endpoint(device, gid_index, QKEY)
    agents = {'peer': Agent(endpoint, peer, True), 'own': Agent(endpoint, own, False)}
    for agent in agents.values():
        check_class_port_info(agent)
        check_refusals(agent)
    qpn = int(open(file, encoding='ascii').read())
    other = endpoint.handle(peer)
    before = {(n, a): agents[n].counters(a) for n in agents for a in (COUNTERS, EXTENDED)}
    endpoint.packets, endpoint.octets = {'Xmit': 0, 'Rcv': 0}, {'Xmit': 0, 'Rcv': 0}
    for _ in range(count):
        data = bytes(SIZE)
        endpoint.send(other, qpn, 0x11, data)
        endpoint.note('Xmit', data)
    # What the peer's port has for its agent is not its tenant's.
    at_peer = {'Xmit': (0, 0), 'Rcv': (count, count * (SIZE + AROUND))}
    for attribute in (COUNTERS, EXTENDED):
        check_moved(agents['peer'], attribute, before['peer', attribute], at_peer)
    at_own = {way: (endpoint.packets[way], endpoint.octets[way]) for way in ('Xmit', 'Rcv')}
    for attribute in (COUNTERS, EXTENDED):
        check_moved(agents['own'], attribute, before['own', attribute], at_own)


def receive(device, gid_index, file, count):
    endpoint = Endpoint(device, gid_index, 0x11)
    with open(file, 'w', encoding='ascii') as out:
        out.write(str(endpoint.qp.qp_num))
    for _ in range(count):
        data = endpoint.wait(30)
        expect(data is not None and len(data) == SIZE, 'a datagram')


def main():
    if sys.argv[1] == 'receive':
        receive(sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
    else:
        ask(sys.argv[2], int(sys.argv[3]), *sys.argv[4:7], int(sys.argv[7]))


main()

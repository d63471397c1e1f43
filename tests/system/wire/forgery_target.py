#!/usr/bin/python3
"""A reliable connection that expects a message with sequence number 1, from a peer that need not
exist. Says "received" when one comes, "nothing" when it is told that none will.

usage: forgery_target.py DEVICE GID-INDEX PEER-GID NUMBER-FILE STOP-FILE

Writes the number of its queue pair into NUMBER-FILE, and ends once STOP-FILE exists.
"""
import ipaddress
import os
import sys
import time

from pyverbs.addr import AHAttr, GlobalRoute, GID
from pyverbs.cq import CQ
from pyverbs.device import Context
import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr, QPAttr
from pyverbs.wr import RecvWR, SGE

BYTES, PATIENCE = 64, 60


def main():
    device, index, peer, number, stop = sys.argv[1:]
    context = Context(name=device)
    pd, cq = PD(context), CQ(context, 4)
    attr = QPAttr(port_num=1)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(1, 1, 1, 1)), attr)
    memory = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE)
    qp.to_init(attr)
    qp.post_recv(RecvWR(sg=[SGE(memory.buf, BYTES, memory.lkey)], num_sge=1))
    route = GlobalRoute(dgid=GID(ipaddress.IPv6Address(peer).packed.hex(":", 2)), sgid_index=int(index))
    attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
    attr.path_mtu, attr.rq_psn, attr.dest_qp_num = e.IBV_MTU_1024, 1, 0x1234
    qp.to_rtr(attr)
    with open(number + ".new", "w", encoding="ascii") as file:
        file.write(str(qp.qp_num))
    os.rename(number + ".new", number)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        last = os.path.exists(stop)
        if cq.poll(1)[0]:
            print("received", memory.read(8, 0).decode())
            return
        if last:
            print("nothing")
            return
        time.sleep(0.01)
    sys.exit("neither a message nor the word to stop")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The same as rc_pingpong.c, with which it can talk, by pyverbs (Debian: python3-pyverbs).

pingpong.py [OPTION]...           the server, which waits for a client
pingpong.py [OPTION]... SERVER    the client; SERVER is a host name or an address for TCP
"""

import argparse
import contextlib
import ipaddress
import secrets
import select
import socket
import sys
import time

from pyverbs import enums as e
from pyverbs.addr import AHAttr, GlobalRoute, GID
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

PORT = 1  # of the device
LINE = 84  # characters of what each side sends about itself


def open_device(name):
    names = [device.name.decode() for device in get_device_list()]
    if not names or name not in (None, *names):
        sys.exit(f"pingpong.py: no RDMA device {name or 'at all'}")
    return Context(name=name or names[0])


def meet(server, port):
    """Returns a TCP connection. The client tries for five seconds."""
    if not server:
        with socket.create_server(("", port)) as listener:
            return listener.accept()[0]
    for _ in range(50):
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection((server, port))
        time.sleep(0.1)
    sys.exit(f"pingpong.py: nothing listens at {server}, TCP port {port}")


def receive(tcp, length):
    text = b""
    while len(text) < length:
        if not (part := tcp.recv(length - len(text))):
            sys.exit("pingpong.py: the other side has ended")
        text += part
    return text


def wait_for_other_side(tcp):
    tcp.sendall(b"\0")
    receive(tcp, 1)


class Side:
    """A queue pair of this program."""

    def __init__(self, options):
        self.options = options
        self.context = open_device(options.device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 2)  # a send and a receive
        # The message to send, then room for one to receive.
        self.size, self.mr = options.size, MR(self.pd, 2 * options.size, e.IBV_ACCESS_LOCAL_WRITE)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap()))
        self.qp.to_init(QPAttr(port_num=PORT))
        self.post_receive()

    def connect(self, tcp):
        self.tcp, options = tcp, self.options
        psn, mtu = secrets.randbits(24), self.context.query_port(PORT).active_mtu
        gid = ipaddress.ip_address(self.context.query_gid(PORT, options.gid_index).gid)
        gid = socket.inet_ntop(socket.AF_INET6, gid.packed)  # which shows IPv4 as such
        print(f"local:  QPN 0x{self.qp.qp_num:06x}, PSN 0x{psn:06x}, GID {gid}")
        line = f"{self.qp.qp_num:06x} {psn:06x} {mtu:x} {options.count:10} {options.size:10} {gid:45}\n"
        tcp.sendall(line.encode())
        qpn, peer_psn, peer_mtu, count, size, peer_gid = receive(tcp, LINE).decode().split()
        if (int(count), int(size)) != (options.count, options.size):
            sys.exit(f"pingpong.py: the other side has -n {count} -s {size}")
        print(f"remote: QPN 0x{qpn}, PSN 0x{peer_psn}, GID {peer_gid}")
        attr = QPAttr(port_num=PORT)
        route = GlobalRoute(dgid=GID(ipaddress.ip_address(peer_gid).exploded), sgid_index=options.gid_index)
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=PORT)  # RoCE addresses by GID
        attr.path_mtu = min(mtu, int(peer_mtu, 16))
        attr.dest_qp_num, attr.rq_psn, attr.sq_psn = int(qpn, 16), int(peer_psn, 16), psn
        attr.min_rnr_timer = 12  # 0.64 ms
        attr.timeout, attr.retry_cnt = 14, 7  # 67 ms until a packet is repeated, 7 times without an answer
        attr.rnr_retry = 7  # no limit while the other side has no receive
        self.qp.to_rts(attr)
        wait_for_other_side(tcp)

    def post_receive(self):
        sge = SGE(self.mr.buf + self.size, self.size, self.mr.lkey)
        self.qp.post_recv(RecvWR(wr_id=e.IBV_WC_RECV, num_sge=1, sg=[sge]))

    def post_send(self, data):
        self.mr.write(data, self.size)
        sge = SGE(self.mr.buf, self.size, self.mr.lkey)
        self.qp.post_send(SendWR(wr_id=e.IBV_WC_SEND, opcode=e.IBV_WR_SEND, num_sge=1, sg=[sge],
                                 send_flags=e.IBV_SEND_SIGNALED))

    def received(self):
        return self.mr.read(self.size, self.size)

    def wait_for(self, kind, early):
        """Waits for a completion. Those of the other kind that come before are kept in `early`."""
        while kind not in early:
            count, completions = self.cq.poll()
            if count == 0:
                # pyverbs shows no descriptor of a completion channel: look again after 0.1 ms.
                readable, _, _ = select.select([self.tcp], [], [], 0.0001)
                if readable and not self.tcp.recv(1, socket.MSG_PEEK):
                    sys.exit("pingpong.py: the other side has ended")
                continue
            if completions[0].status != e.IBV_WC_SUCCESS:
                status = e.ibv_wc_status(completions[0].status).name
                sys.exit(f"pingpong.py: {status}, vendor error {completions[0].vendor_err:#x}")
            early.add(completions[0].wr_id)
        early.remove(kind)


def play(side, count, client):
    """The client sends a message, the server sends back what it received."""
    early = set()
    for i in range(count):
        message = bytes([i % 256]) * side.size
        if client:
            side.post_send(message)
        side.wait_for(e.IBV_WC_RECV, early)
        if client and side.received() != message:
            sys.exit(f"pingpong.py: message {i} came back with other data")
        message = side.received()
        # The next receive is there before the other side may send.
        if i + 1 < count:
            side.post_receive()
        if not client:
            side.post_send(message)
        side.wait_for(e.IBV_WC_SEND, early)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", nargs="?")
    parser.add_argument("-d", "--device", help="default: the first")
    parser.add_argument("-g", "--gid-index", type=int, default=0)
    parser.add_argument("-p", "--port", type=int, default=18600, help="of TCP")
    parser.add_argument("-n", "--count", type=int, default=1000, help="messages to and fro")
    parser.add_argument("-s", "--size", type=int, default=1024, help="bytes of a message")
    options = parser.parse_args()
    try:
        side = Side(options)
        with meet(options.server, options.port) as tcp:
            side.connect(tcp)
            begin = time.monotonic()
            play(side, options.count, client=options.server is not None)
            each = (time.monotonic() - begin) / options.count
            # The other side's last message may still need an acknowledgement of this queue pair.
            wait_for_other_side(tcp)
            print(f"{options.count} messages of {options.size} bytes to and fro, {each * 1e6:.1f} us each")
    except (OSError, PyverbsError) as error:
        sys.exit(f"pingpong.py: {error}")


if __name__ == "__main__":
    main()

"""What must fail on RC, and the completion status that tells so."""

import errno
import time

import pyverbs.enums as e
from channel import expect
from end import ROOM
from pyverbs.pyverbs_error import PyverbsRDMAError


def check_errors(end):
    refused(end, "write with a wrong key", e.IBV_WR_RDMA_WRITE, 5000, rkey=end.peer["rkey"] ^ 0x5A5A00)
    refused(end, "read with a wrong key", e.IBV_WR_RDMA_READ, 5000, rkey=end.peer["rkey"] ^ 0x5A5A00)
    refused(end, "read past the end", e.IBV_WR_RDMA_READ, 64, remote=ROOM - 32)
    if not end.options.peer_ignores_window_ends:
        key = end.order("bind", kind=2, offset=4096, size=4096)
        refused(end, "write past the end of a window", e.IBV_WR_RDMA_WRITE, 64, rkey=key, remote=8160)
        end.order("close_window")
    key = end.order("bind", kind=2, offset=0, size=4096)
    end.order("receive", size=0)
    end.post(e.IBV_WR_SEND_WITH_INV, 0, imm=key)
    end.completion("send with invalidate")
    refused(end, "write through a window taken away", e.IBV_WR_RDMA_WRITE, 64, rkey=key)
    end.order("close_window")
    not_aligned(end)
    end.order("receive", size=100)
    end.post(e.IBV_WR_SEND, 101)
    end.completion("send of too much", end.options.long_send_status)
    end.reconnect(rnr_retry=1)
    end.post(e.IBV_WR_SEND, 100)
    end.completion("send without a receive", e.IBV_WC_RNR_RETRY_EXC_ERR)
    end.reconnect()
    late_receive(end)
    end.did("errors, each with its status", 8 if end.options.peer_ignores_window_ends else 9)


def refused(end, what, opcode, size, **arguments):
    end.post(opcode, size, **arguments)
    end.completion(what, e.IBV_WC_REM_ACCESS_ERR)
    end.reconnect()


def not_aligned(end):
    what = "atomic not aligned"
    try:  # Soft-RoCE refuses to post it.
        end.post(e.IBV_WR_ATOMIC_FETCH_AND_ADD, 8, remote=4, operands=(1, 0))
    except PyverbsRDMAError as error:
        expect(f"{what}: error number", error.error_code, errno.EINVAL)
    else:
        end.completion(what, e.IBV_WC_REM_INV_REQ_ERR)
        end.reconnect()


def late_receive(end):
    what = "send before its receive"
    end.prepare(9, 9000)
    end.post(e.IBV_WR_SEND, 9000)
    time.sleep(0.05)
    end.order("receive", size=9000)
    end.completion(what)
    end.order("received", what=what, seed=9, size=9000)

"""What RC must do, whatever the link does to packets."""

import pyverbs.enums as e
from channel import expect

SIZES = [0, 1, 2, 3, 4, 5, 255, 256, 257, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 65541, 1000003]
FEW_SIZES = [0, 1, 1023, 1025, 4097, 100003]
WINDOW, SIZE_OF_WINDOW = 8192, 20000  # where a memory window begins, in bytes


def check_reliable(end):
    sizes = FEW_SIZES if end.options.few else SIZES
    check_sends(end, sizes)
    check_writes(end, sizes)
    check_reads(end, sizes)
    check_atomics(end)
    check_many(end)
    check_windows(end)


def check_sends(end, sizes):
    for what, opcode in (("send", e.IBV_WR_SEND), ("send with immediate", e.IBV_WR_SEND_WITH_IMM)):
        for seed, size in enumerate(sizes):
            imm = 0x01020304 + size if opcode == e.IBV_WR_SEND_WITH_IMM else None
            end.order("receive", size=size)
            end.prepare(seed, size)
            end.post(opcode, size, imm=imm or 0)
            end.completion(f"{what} of {size}")
            end.order("received", what=f"{what} of {size}", seed=seed, size=size, imm=imm)
        end.did(what, len(sizes))


def check_writes(end, sizes):
    for seed, size in enumerate(sizes, 100):
        what = f"write of {size}"
        end.prepare(seed, size)
        end.order("fill", seed=0, size=size)
        end.post(e.IBV_WR_RDMA_WRITE, size)
        end.completion(what)
        end.order("check", what=what, seed=seed, size=size)
    end.did("write", len(sizes))
    for seed, size in enumerate(sizes, 200):
        what = f"write with immediate of {size}"
        end.prepare(seed, size)
        end.order("receive", size=0)
        end.post(e.IBV_WR_RDMA_WRITE_WITH_IMM, size, imm=77 + size)
        end.completion(what)
        end.order("received", what=what, seed=seed, size=size, imm=77 + size)
    end.did("write with immediate", len(sizes))


def check_reads(end, sizes):
    for seed, size in enumerate(sizes, 300):
        end.order("fill", seed=seed, size=size)
        end.answer_fill(0, size)
        end.post(e.IBV_WR_RDMA_READ, size)
        end.completion(f"read of {size}")
        end.answer_check(f"read of {size}", seed, size)
    end.did("read", len(sizes))


def atomic(end, what, opcode, operands, before, after):
    end.order("number", value=before)
    end.post(opcode, 8, operands=operands)
    end.completion(what)
    expect(f"{what}: result", end.answer_what_number(), before)
    expect(f"{what}: memory", end.order("what_number"), after)


def check_atomics(end):
    big = 0x1122334455667788
    add, swap = e.IBV_WR_ATOMIC_FETCH_AND_ADD, e.IBV_WR_ATOMIC_CMP_AND_SWP
    atomic(end, "fetch and add", add, (5, 0), big, big + 5)
    atomic(end, "fetch and add, overflow", add, (2, 0), (1 << 64) - 1, 1)
    end.did("fetch and add", 2)
    atomic(end, "compare and swap", swap, (big, 3), big, 3)
    atomic(end, "compare and swap, unequal", swap, (big, 3), 4, 4)
    end.did("compare and swap", 2)


def check_many(end):
    """More reads and atomics at once than may be in flight, and a fenced write behind them."""
    count, size = (12, 3000) if end.options.few else (30, 9000)
    end.order("fill", seed=7, size=count * size)
    for i in range(count):
        end.post(e.IBV_WR_RDMA_READ, size, offset=i * size, remote=i * size)
    end.post(e.IBV_WR_RDMA_WRITE, count * size, offset=0, flags=e.IBV_SEND_FENCE, remote=count * size)
    for i in range(count):
        end.completion(f"read {i} of many")
    behind = end.options.forgets_fenced
    if behind:
        end.post(e.IBV_WR_RDMA_WRITE, 0)
    end.completion("fenced write")
    if behind:
        end.completion("write behind the fenced one")
    end.answer_check("many reads", 7, count * size)
    end.post(e.IBV_WR_RDMA_READ, count * size, remote=count * size)
    end.completion("read of the fenced write")
    end.answer_check("fenced write", 7, count * size)
    end.order("number", value=0)
    for i in range(count):
        end.post(e.IBV_WR_ATOMIC_FETCH_AND_ADD, 8, offset=8 * i, operands=(1, 0))
    for i in range(count):
        end.completion(f"atomic {i} of many")
    expect("many atomics", end.order("what_number"), count)
    end.did("many in flight, fenced", 2 * count + 2)


def check_windows(end):
    """The other end binds windows; this one goes through them, and takes those of type 2 away."""
    for kind in (1, 2):
        key = end.order("bind", kind=kind, offset=WINDOW, size=SIZE_OF_WINDOW)
        through_window(end, f"through a window of type {kind}", key)
        if kind == 1:
            end.order("close_window")
        else:
            invalidate(end, key, 9)
    for size in (0, 4096, 20001):
        key = end.order("bind", kind=2, offset=0, size=100)
        invalidate(end, key, size)
    end.did("send with invalidate", 4)


def through_window(end, what, key):
    size = SIZE_OF_WINDOW
    end.prepare(11, size)
    end.post(e.IBV_WR_RDMA_WRITE, size, rkey=key, remote=WINDOW)
    end.completion(f"write {what}")
    end.answer_fill(0, size)
    end.post(e.IBV_WR_RDMA_READ, size, rkey=key, remote=WINDOW)
    end.completion(f"read {what}")
    end.answer_check(f"read {what}", 11, size)
    end.post(e.IBV_WR_ATOMIC_FETCH_AND_ADD, 8, rkey=key, remote=WINDOW + 8, operands=(1, 0))
    end.completion(f"atomic {what}")
    end.did(what, 3)


def invalidate(end, key, size):
    what = f"send with invalidate of {size}"
    end.order("receive", size=size)
    end.prepare(12, size)
    end.post(e.IBV_WR_SEND_WITH_INV, size, imm=key)
    end.completion(what)
    end.order("received", what=what, seed=12, size=size, invalidated=key)
    end.order("close_window")

"""What each rank of an MPI program does in mpi.test: messages of every protocol (eager, several
fragments, rendezvous) around a ring, collectives, and atomics and puts into another rank's window.
Contents are checked; the first mistake ends the job."""
import array

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
me, ranks = world.rank, world.size
left, right = (me - 1) % ranks, (me + 1) % ranks


def pattern(rank, size):
    return numpy.arange(rank * 31, rank * 31 + size, dtype=numpy.uint32).view(numpy.uint8)


for size in (0, 1, 2, 250, 1000, 5000, 70_000, 1_000_000):
    got = numpy.zeros(4 * size, dtype=numpy.uint8)
    world.Sendrecv(pattern(me, size), right, recvbuf=got, source=left)
    assert numpy.array_equal(got, pattern(left, size)), f"ring: {size} words"

# All messages on their way at once, received in the opposite order.
sizes = [1 << i for i in range(16)]
got = [numpy.zeros(4 * size, dtype=numpy.uint8) for size in sizes]
receives = [world.Irecv(got[i], left, tag=i) for i in reversed(range(len(sizes)))]
sends = [world.Isend(pattern(me, size), right, tag=i) for i, size in enumerate(sizes)]
MPI.Request.Waitall(receives + sends)
for i, size in enumerate(sizes):
    assert numpy.array_equal(got[i], pattern(left, size)), f"tag {i}"

total = numpy.zeros(50_000)
world.Allreduce(numpy.full(50_000, float(me + 1)), total)
assert (total == ranks * (ranks + 1) / 2).all(), "allreduce"

everyone = numpy.zeros((ranks, 4000), dtype=numpy.uint8)
world.Alltoall(numpy.repeat(numpy.arange(ranks, dtype=numpy.uint8) + me, 4000).reshape(ranks, -1), everyone)
for rank in range(ranks):
    assert (everyone[rank] == rank + me).all(), "alltoall"

# Window of rank 0: a counter, and a place for each rank.
words = 1 + ranks * 1000
window = MPI.Win.Allocate(8 * words if me == 0 else 0, 8, comm=world)
if me == 0:
    numpy.frombuffer(window.tomemory(), dtype=numpy.int64)[:] = 0
world.Barrier()
window.Lock_all()
seen = []
for _ in range(100):
    before = array.array("q", [-1])
    window.Fetch_and_op([array.array("q", [1]), MPI.INT64_T], [before, MPI.INT64_T], 0, 0, MPI.SUM)
    window.Flush(0)
    seen.append(before[0])
window.Put(numpy.full(1000, me + 1, dtype=numpy.int64), 0, 1 + me * 1000)
window.Unlock_all()
numbers = sum(world.allgather(seen), [])
assert sorted(numbers) == list(range(100 * ranks)), "fetch and op: a number twice, or left out"
if me == 0:
    memory = numpy.frombuffer(window.tomemory(), dtype=numpy.int64)
    assert memory[0] == 100 * ranks, "counter"
    for rank in range(ranks):
        assert (memory[1 + rank * 1000 : 1 + (rank + 1) * 1000] == rank + 1).all(), "put"
window.Free()
print(f"rank {me} of {ranks}: all as it should be", flush=True)

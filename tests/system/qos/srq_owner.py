#!/usr/bin/env python3
"""Calls all functions of libsofthca-receive beside a server with one shared receive queue of 512 buffers and 1,000
queue pairs: srq_owner.py LIBRARY [QPN]. QPN: of a queue pair that is limited to 8 buffers; without it, prints that of
the one that has drawn all 512."""
import ctypes as c
import errno
import sys


class Queue(c.Structure):
    _fields_ = [(name, c.c_uint32) for name in ("number", "pid", "size", "available", "queue_pairs", "quarantined")]
    _fields_ += [("refused", c.c_uint64)]


class User(c.Structure):
    _fields_ = [(name, c.c_uint32) for name in ("qpn", "held", "limit", "quarantined")]
    _fields_ += [("draws", c.c_uint64), ("peer", c.c_char * 46)]


class Event(c.Structure):
    _fields_ = [("number", c.c_uint64), ("time", c.c_double), ("qpn", c.c_uint32), ("pid", c.c_uint32),
                ("name", c.c_char * 32), ("text", c.c_char * 256)]


library = c.CDLL(sys.argv[1])
receive = c.c_void_p()


def call(name, *arguments):
    return getattr(library, "softhca_receive_" + name)(receive, *arguments)


def expect(wanted, name, *arguments):
    got = call(name, *arguments)
    assert got == wanted, (name, arguments, got)


def limit(value):
    return c.c_int64(value)


KEEP, DEFAULT = -1, -2
assert library.softhca_receive_open(b"/nowhere/control.sock", c.byref(receive)) == -errno.ENOTCONN
assert library.softhca_receive_open(None, c.byref(receive)) == 0
queues = (Queue * 4)()
expect(1, "queues", 0, queues, 4)
queue = queues[0]
assert queue.size == 512 and queue.queue_pairs >= 1000, (queue.size, queue.queue_pairs)
expect(0, "queues", queue.pid + 1, queues, 4)
expect(1, "queues", queue.pid, None, 0)

users, user = (User * 4)(), User()
expect(-errno.ENOENT, "ranking", queue.number + 1, users, 4)
if len(sys.argv) < 3:
    expect(1, "ranking", queue.number, users, 4)
    assert users[0].draws == 512 and users[0].peer, users[0].draws
    expect(0, "ranking", queue.number, users, 0)
    print(users[0].qpn)
    sys.exit(0)
qpn = int(sys.argv[2])
expect(0, "find", qpn, c.byref(user))
assert (user.qpn, user.limit) == (qpn, 8), (user.qpn, user.limit)
expect(-errno.ENOENT, "find", 5, c.byref(user))

expect(0, "set", qpn, limit(5), 7)
expect(0, "find", qpn, c.byref(user))
assert user.limit == 5, user.limit
expect(0, "set", qpn, limit(DEFAULT), DEFAULT)
expect(0, "set", qpn, limit(8), KEEP)
expect(-errno.ENOENT, "set", 5, limit(8), KEEP)
expect(-errno.EINVAL, "set", qpn, limit(1 << 40), KEEP)
expect(-errno.EINVAL, "set", qpn, limit(KEEP), 8)
expect(-errno.EINVAL, "set", qpn, limit(KEEP), KEEP)

expect(0, "policy", b"srq.limit", b"400")
expect(0, "policy", b"srq.kind", b"soft")
expect(0, "policy", b"srq.statistical", b"true")
expect(0, "policy", b"srq.overcommit", b"1.5")
expect(-errno.EINVAL, "policy", b"srq.kind", b"harsh")
expect(-errno.EINVAL, "policy", b"srq.limits", b"1")
expect(-errno.EINVAL, "policy", b"queue_pairs", b"1")

events, names, last = (Event * 3)(), set(), 0
while found := call("events", events, 3):
    assert 0 < found <= 3, found
    for event in events[:found]:
        assert event.number > last and event.time > 1e9 and event.text, event.number
        last = event.number
        names.add(event.name)
assert b"srq_runaway" in names and all(name.startswith(b"srq_") for name in names), names
library.softhca_receive_close(receive)

"""Passes to sockets of the daemon a descriptor whose last close waits for a minute.

usage: passed_descriptors.py SOCKET...

A TCP connection with bytes that its peer does not take and SO_LINGER, by SCM_RIGHTS: in a greeting,
in a connection that is ended without one, and on the socket of JSON lines.
"""
import array
import errno
import os
import socket
import struct
import sys
import time


def lingering(seconds):
    listener = socket.create_server(('127.0.0.1', 0))
    ours = socket.create_connection(listener.getsockname())
    peer, _ = listener.accept()
    ours.setblocking(False)
    try:
        while True:
            ours.send(bytes(1 << 16))
    except BlockingIOError:
        pass
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, seconds))
    return ours, peer


def attack(path):
    kind = socket.SOCK_STREAM if path.endswith('.sock') else socket.SOCK_SEQPACKET
    connection = socket.socket(socket.AF_UNIX, kind)
    connection.connect(path)
    ours, peer = lingering(60)
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [ours.fileno()]))
    try:
        connection.sendmsg([b'{}\n' * 8], [rights])
        answer = 'passed'
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EPIPE):
            raise
        answer = 'refused by the kernel'
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 0, 0))  # it is ours alone
    ours.close()
    connection.close()
    return peer, answer


peers = []
for place in sys.argv[1:]:
    for _ in range(4):
        peer, said = attack(place)
        peers.append(peer)
        print(f'{os.path.basename(place)}: {said}', flush=True)
print('all', flush=True)
while os.getppid() != 1:
    time.sleep(0.1)

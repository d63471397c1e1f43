"""Sessions that are opened before their tenant is removed, and ask for everything only afterwards.

usage: outlive.py SOCKET
"""

import os
import pathlib
import random
import re
import socket
import struct
import sys
import time

ABI = pathlib.Path(__file__).resolve().parents[2] / "abi"
VERSION = int(re.search(r"kAbiVersion = (\d+)", (ABI / "version.hpp").read_text())[1])
MAGIC = int.from_bytes(b"softhca1", "little")
HELLO = 1
REQUESTS = [(operation, body) for operation in range(2, 51) for body in (b"", bytes(8))]
SESSIONS = 12


def request(connection, operation, body):
    """True if the daemon has answered."""
    try:
        connection.send(struct.pack("<II", operation, 0) + body)
        return bool(connection.recv(4096))
    except OSError:
        return False


def greeted(path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(10)
    try:
        connection.connect(path)
        if request(connection, HELLO, struct.pack("<QII", MAGIC, VERSION, 0)):
            return connection
    except OSError:
        pass
    connection.close()
    return None


while True:
    sessions = [session for session in (greeted(sys.argv[1]) for _ in range(SESSIONS)) if session]
    until = time.monotonic() + 3
    while os.path.exists(sys.argv[1]) and time.monotonic() < until:
        time.sleep(0.05)
    for session in sessions:
        random.shuffle(REQUESTS)
        all(request(session, operation, body) for operation, body in REQUESTS)  # until one ends it
        session.close()
    time.sleep(0.1)

"""Opens connections to a socket of the daemon, up to 200 at a time, and says nothing by them.

usage: connections.py SOCKET
"""

import socket
import sys
import time

connections = []
while True:
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setblocking(False)
        connection.connect(sys.argv[1])
        connections.append(connection)
    except OSError:
        time.sleep(0.01)
    if len(connections) > 200:
        time.sleep(0.1)
        connections = connections[100:]

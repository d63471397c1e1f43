#!/usr/bin/python3
"""One of two ends that connect by rdma_cm and check what each is told of it.

usage: python3 connect.py serve|call ADDRESS CASE

ADDRESS: the server's. CASE, which both ends must be given:
  reject        the server refuses, with as much private data as there is room for
  client        both ends check private data and parameters; then the client disconnects
  server        likewise, but the server does
  both          likewise, both do, at once
  slow          the server answers only after the request must have come again
Exit code 0: every event was the one expected.
"""

import sys
import time

from channel import expect, pattern
from rdma_cm import Connections

PORT = 7180
SLOW_SECONDS = 9  # a request comes again after 6.1 seconds
CONSUMER = 28  # the reason of a REJ
REQUEST, REPLY, REFUSAL = (pattern(seed, size) for seed, size in enumerate([56, 196, 148]))
# No queue pair stands behind these numbers: nothing but connecting is tried.
ASKED = {"responder_resources": 3, "initiator_depth": 5, "retry_count": 6, "rnr_retry_count": 4, "qp_num": 0x1234}
ANSWERED = {"responder_resources": 4, "initiator_depth": 2, "rnr_retry_count": 3, "qp_num": 0x4321}


def serve(connections, address, case):
    listener = connections.listen(address, PORT)
    event = connections.wait_for("CONNECT_REQUEST")
    expect("private data of the request", event.private_data, REQUEST)
    # What one end starts the other answers.
    expect("parameters of the request", (event.resources, event.depth, event.retries, event.rnr_retries), (5, 3, 6, 4))
    identifier = event.id
    if case == "reject":
        connections.call("reject", identifier, REFUSAL, len(REFUSAL))
    else:
        if case == "slow":
            time.sleep(SLOW_SECONDS)
        connections.with_parameters("accept", identifier, REPLY, **ANSWERED)
        connections.wait_for("ESTABLISHED")
        disconnect(connections, identifier, case in ("server", "both"), case == "both")
    connections.call("destroy_id", identifier)
    connections.call("destroy_id", listener)


def call(connections, address, case):
    identifier = connections.resolve(address, PORT)
    connections.with_parameters("connect", identifier, REQUEST, **ASKED)
    if case == "reject":
        event = connections.wait_for("REJECTED", CONSUMER)
        expect("private data of the refusal", event.private_data, REFUSAL)
    else:
        event = connections.wait_for("CONNECT_RESPONSE")
        expect("private data of the reply", event.private_data, REPLY)
        expect("parameters of the reply", (event.resources, event.depth, event.rnr_retries), (2, 4, 3))
        connections.call("establish", identifier)
        disconnect(connections, identifier, case != "server", case == "both")
    connections.call("destroy_id", identifier)


def disconnect(connections, identifier, first, both):
    if first:
        connections.call("disconnect", identifier)
    connections.wait_for("DISCONNECTED")
    if not first and not both:
        connections.call("disconnect", identifier)
    connections.wait_for("TIMEWAIT_EXIT")


def main():
    role, address, case = sys.argv[1:]
    {"serve": serve, "call": call}[role](Connections(), address, case)


if __name__ == "__main__":
    main()

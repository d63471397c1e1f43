#!/usr/bin/python3
"""One of two ends that check each other's RDMA operations by contents and completions.

usage: python3 peer serve|call --device D --gid INDEX --port TCP-PORT [--host ADDRESS] [--mtu M]
               [--transports rc,uc,ud] [--lossy] [--few] [--rounds N] [--extended] [--errors] [--traffic-class N]
               [--long-send-status N] [--invalidated-flag N] [--forgets-fenced] [--peer-ignores-window-ends]

Both ends make a queue pair of each transport, tell each other about it over TCP, and take the part of
the requester in turn, the caller first. Every operation's data is a function of its seed, so that the
responder can check what arrived. Prints `did TRANSPORT COUNT OPERATION` for each operation this end has
asked for, all of which were as expected. Exit code 0: everything was.
"""

import argparse

import pyverbs.enums as e
from channel import Channel
from end import MTU, End
from errors import check_errors
from reliable import check_reliable
from unreliable import check_unreliable


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["serve", "call"])
    parser.add_argument("--device", required=True)
    parser.add_argument("--gid", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host")
    parser.add_argument("--mtu", type=int, choices=MTU, default=1024)
    parser.add_argument("--transports", default="rc,uc,ud")
    parser.add_argument("--lossy", action="store_true", help="packets may be lost, repeated, reordered")
    parser.add_argument("--few", action="store_true", help="fewer lengths")
    parser.add_argument("--rounds", type=int, default=1, help="how often each end requests, on one queue pair")
    parser.add_argument("--extended", action="store_true", help="post by ibv_wr_*")
    parser.add_argument("--errors", action="store_true", help="also what must fail (RC)")
    parser.add_argument("--traffic-class", type=int, default=0, help="of the packets of RC and UC")
    parser.add_argument("--long-send-status", type=int, default=e.IBV_WC_REM_INV_REQ_ERR,
                        help="the completion status this end must see when its peer's receive buffer "
                        "is too small")
    parser.add_argument("--invalidated-flag", type=int, default=e.IBV_WC_WITH_INV,
                        help="how this end's device says that a send has invalidated a key")
    parser.add_argument("--forgets-fenced", action="store_true",
                        help="this end's device may not see that the reads before a fenced request have "
                        "completed, and goes on with the next request, as rxe of Linux 6.1 does at times")
    parser.add_argument("--peer-ignores-window-ends", action="store_true",
                        help="writes past the end of a memory window are not tried")
    options = parser.parse_args()
    end = End(options, Channel(options))
    for transport in options.transports.split(","):
        end.connect(transport)
        parts = [end.respond, lambda: request(end)]
        if options.role == "call":
            parts.reverse()
        for part in parts * options.rounds:
            part()


def request(end):
    if end.transport == "rc":
        check_reliable(end)
        if end.options.errors:
            check_errors(end)
    else:
        check_unreliable(end)
    end.channel.tell({"do": "stop"})


if __name__ == "__main__":
    main()

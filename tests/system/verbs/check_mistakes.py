#!/usr/bin/env python3
"""Compares the tables of docs/mistakes.md to what the programs `mistakes` saw and what the daemons say.

Prints each row that differs, as it must be. In the tables, 0x… stands for any hexadecimal number, N for
the number of a process, queue pair or protection domain and for a time, 198.18.0.1 for the peer.

usage: check_mistakes.py DOCUMENT FILE WAY SOFTHCACTL DIRECTORY PEER-DIRECTORY
       FILE: what the near program printed. WAY: the ends are of one "tenant", of two "tenants", or on
       two "hosts". The directories are the runtime directories of the daemons of the ends.
"""

import json
import re
import subprocess
import sys

STATUS = {0: "SUCCESS", 1: "LOC_LEN_ERR", 2: "LOC_QP_OP_ERR", 4: "LOC_PROT_ERR", 5: "WR_FLUSH_ERR",
          6: "MW_BIND_ERR", 7: "BAD_RESP_ERR", 9: "REM_INV_REQ_ERR", 10: "REM_ACCESS_ERR",
          11: "REM_OP_ERR", 12: "RETRY_EXC_ERR", 13: "RNR_RETRY_EXC_ERR"}
STATE = {-1: "gone", 0: "RESET", 1: "INIT", 2: "RTR", 3: "RTS", 6: "ERR"}
REQUEST = re.compile(r"\b(?:send|atomic|RDMA (?:write|read)) of \d+ bytes(?: at 0x… with key 0x…)?")

document, made, way, softhcactl, *directories = sys.argv[1:]


def normal(text):
    text = re.sub(r"0x[0-9a-f]+", "0x…", text)
    text = re.sub(r"\b\d+\.\d+\.\d+\.\d+\b", "198.18.0.1", text)
    text = re.sub(r"\b(process|queue pair|queue pair of|protection domain) \d+", r"\1 N", text)
    return re.sub(r"\b\d+ ms before", "N ms before", text)


def quoted(text):
    return f"`{normal(text)}`"


class Daemon:
    def __init__(self, directory):
        self.command = [softhcactl, "--runtime-dir", directory, "-o", "json"]
        self.events = {event["qpn"]: event for event in self.ask("events")["events"]
                       if event["kind"] == "queue_pair_error"}

    def ask(self, *arguments):
        return json.loads(subprocess.run([*self.command, *arguments], capture_output=True, text=True,
                                         check=True).stdout)

    def says(self, end):
        """The event of the queue pair's failure, or the reason why it dropped a message."""
        event = self.events.get(end.qpn)
        if event is None:
            if end.status:
                return ""
            try:
                return quoted("dropped: " + self.ask("qp", "show", str(end.qpn))["reason"])
            except (KeyError, subprocess.CalledProcessError):
                return ""
        if end.status not in ("", "SUCCESS") and event.get("vendor_err", 0) != int(end.code, 16):
            sys.exit(f"queue pair {end.qpn}: vendor_err {end.code} in its completion, but {event}")
        return quoted(event["text"])


class End:
    """What one end has seen."""

    def __init__(self, qpn, status, code, state):
        self.qpn, self.code, self.state = int(qpn), code, STATE[int(state)]
        self.status = STATUS[int(status)] if status != "-1" else ""

    def sees(self):
        return f"`{self.status}`" + (f" {self.code}" if int(self.code, 16) else "") if self.status else ""


def read_document():
    """The rows of the mistakes by their names, and of what a peer of another tenant or host says by the
    status; each a list of cells."""
    tables = {7: {}, 2: {}}
    for line in open(document, encoding="utf-8"):
        cells = [" ".join(cell.split()) for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) in tables:
            tables[len(cells)][cells[0].split("`")[1]] = cells
    return tables[7], tables[2]


def as_of_others(row, others):
    """What the table says of an end whose peer is of another tenant or host."""
    status = row[2].split("`")[1] if row[2] else ""
    return row if status not in others else [*row[:2], others[status][0], *row[3:5], others[status][1], row[6]]


def without_reason(said):
    """What is said of a sender without the peer's numbers, and without what the daemon knows besides."""
    return REQUEST.sub("REQUEST", said).split("; 198.18.0.1 is ")[0].rstrip("`") + "`"


rows, others = read_document()
near_daemon, far_daemon = map(Daemon, directories)
wrong = 0
for line in open(made, encoding="utf-8"):
    name, *numbers = line.split()
    near, far = End(*numbers[:4]), End(*numbers[4:])
    row = rows.pop(name, [f"`{name}`"] + [""] * 6)
    said = near_daemon.says(near)
    if way != "tenant" and near.status in others:
        row, said = as_of_others(row, others), without_reason(said)
    expected = [row[0], row[1], near.sees(), far.sees(), f"{near.state}, {far.state}", said,
                far_daemon.says(far)]
    if row != expected:
        wrong += 1
        print("| " + " | ".join(expected) + " |")
for name in rows:
    wrong += 1
    print(f"{name}: the program does not make this mistake")
sys.exit(1 if wrong else 0)

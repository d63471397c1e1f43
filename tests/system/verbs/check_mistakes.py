#!/usr/bin/env python3
"""Compares the tables of docs/mistakes.md to what the programs `mistakes` and `refusals` saw and what the daemons
say.

Prints each row that differs, as it must be. In the tables, 0x… stands for any hexadecimal number, N for
the number of a process, queue pair or protection domain and for a time, 198.18.0.1 for the tenant's own
address and that of the peer.

usage: check_mistakes.py DOCUMENT FILE WAY SOFTHCACTL DIRECTORY [PEER-DIRECTORY]
       FILE: what the program printed. WAY: the ends of `mistakes` are of one "tenant", of two "tenants", or
       on two "hosts"; "calls" for `refusals`. The directories are the runtime directories of the daemons.
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
    text = re.sub(r"\b(?!203\.0\.113\.)\d+\.\d+\.\d+\.\d+\b", "198.18.0.1", text)
    text = re.sub(r"\b(process|queue pair|queue pair of|protection domain) \d+", r"\1 N", text)
    return re.sub(r"\b\d+ ms before", "N ms before", text)


def quoted(text):
    return f"`{normal(text)}`"


class Daemon:
    def __init__(self, directory):
        self.command = [softhcactl, "--runtime-dir", directory, "-o", "json"]
        events = self.ask("events")["events"]
        self.events = {event["qpn"]: event for event in events if event["kind"] == "queue_pair_error"}
        self.refusals = [event for event in events if event["kind"] in ("request_refused", "session_refused")]

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


    def kind_of_refusal(self, sentence):
        """The kind of the event with this sentence, which begins with the name of the verb."""
        for event in self.refusals:
            whole = sentence if event["kind"] == "request_refused" else sentence.split(": ", 1)[1]
            if event["text"].endswith(": " + whole):
                return f"`{event['kind']}`"
        return ""


class End:
    """What one end has seen."""

    def __init__(self, qpn, status, code, state):
        self.qpn, self.code, self.state = int(qpn), code, STATE[int(state)]
        self.status = STATUS[int(status)] if status != "-1" else ""

    def sees(self):
        return f"`{self.status}`" + (f" {self.code}" if int(self.code, 16) else "") if self.status else ""


def table(columns):
    """The rows of the table with so many columns by what their first cell quotes; each a list of cells."""
    rows = {}
    for line in open(document, encoding="utf-8"):
        cells = [" ".join(cell.split()) for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == columns:
            rows[cells[0].split("`")[1]] = cells
    return rows


def as_of_others(row, others):
    """What the table says of an end whose peer is of another tenant or host."""
    status = row[2].split("`")[1] if row[2] else ""
    return row if status not in others else [*row[:2], others[status][0], *row[3:5], others[status][1], row[6]]


def without_reason(said):
    """What is said of a sender without the peer's numbers, and without what the daemon knows besides."""
    return REQUEST.sub("REQUEST", said).split("; 198.18.0.1 is ")[0].rstrip("`") + "`"


def compare_mistake(line, rows, others, near_daemon, far_daemon):
    """Returns the row of the table, and what it must be."""
    name, *numbers = line.split()
    near, far = End(*numbers[:4]), End(*numbers[4:])
    row = rows.pop(name, [f"`{name}`"] + [""] * 6)
    said = near_daemon.says(near)
    if way != "tenant" and near.status in others:
        row, said = as_of_others(row, others), without_reason(said)
    return row, [row[0], row[1], near.sees(), far.sees(), f"{near.state}, {far.state}", said,
                 far_daemon.says(far)]


def compare_call(line, rows, daemon):
    """Returns the row of the table, and what it must be."""
    name, returned, error, said = line.rstrip("\n").split(" ", 3)
    # The verbs return NULL, -1 or the errno value, and all set errno.
    match = re.fullmatch(r"softhca: (.*) \((\w+)\)", said)
    if not match or match[2] != error or returned not in ("NULL", "-1", error):
        sys.exit(f"{name}: returned {returned}, errno {error}, and said {said}")
    row = rows.pop(name, [f"`{name}`"] + [""] * 4)
    return row, [row[0], row[1], f"`{returned}`", quoted(f"{match[1]} ({error})"),
                 daemon.kind_of_refusal(match[1])]


daemons = [Daemon(directory) for directory in directories]
rows, others = (table(5), None) if way == "calls" else (table(7), table(2))
wrong = 0
for line in open(made, encoding="utf-8"):
    row, expected = compare_call(line, rows, *daemons) if others is None else compare_mistake(line, rows, others, *daemons)
    if row != expected:
        wrong += 1
        print("| " + " | ".join(expected) + " |")
for name in rows:
    wrong += 1
    print(f"{name}: the program does not make this mistake")
sys.exit(1 if wrong else 0)

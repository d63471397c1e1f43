#!/usr/bin/env python3
"""Compares the tables of docs/mistakes.md to what the programs `mistakes` and `refusals` saw and what the
daemon says.

Prints each row that differs, as it must be. In the tables, 0x… stands for any hexadecimal number, N for
the number of a process, queue pair or protection domain and for a time, 198.18.0.1 for the peer.

usage: check_mistakes.py DOCUMENT MISTAKES REFUSALS SOFTHCACTL [ARGUMENT...]
       MISTAKES, REFUSALS: files with what the programs printed
       SOFTHCACTL: the command that asks the daemon, with -o json
"""

import json
import re
import subprocess
import sys

STATUS = {0: "SUCCESS", 1: "LOC_LEN_ERR", 2: "LOC_QP_OP_ERR", 4: "LOC_PROT_ERR", 5: "WR_FLUSH_ERR",
          6: "MW_BIND_ERR", 9: "REM_INV_REQ_ERR", 10: "REM_ACCESS_ERR", 11: "REM_OP_ERR",
          12: "RETRY_EXC_ERR", 13: "RNR_RETRY_EXC_ERR"}

document, made, refused, *ctl = sys.argv[1:]


def ask(*arguments):
    return json.loads(subprocess.run([*ctl, *arguments], capture_output=True, text=True, check=True).stdout)


def normal(text):
    text = re.sub(r"0x[0-9a-f]+", "0x…", text)
    text = re.sub(r"\b\d+\.\d+\.\d+\.\d+\b", "198.18.0.1", text)
    text = re.sub(r"\b(process|queue pair|queue pair of|protection domain) \d+", r"\1 N", text)
    return re.sub(r"\b\d+ ms before", "N ms before", text)


def quoted(text):
    return f"`{normal(text)}`"


def seen(status, code):
    if status == "-1":
        return ""
    return "`" + STATUS[int(status)] + "`" + (f" {code}" if int(code, 16) else "")


def table(columns):
    """The rows of the table with so many columns by the name of the mistake; each a list of cells."""
    rows = {}
    for line in open(document, encoding="utf-8"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == columns:
            rows[cells[0].strip("`")] = cells
    return rows


failures, refusals = {}, []
for event in ask("events")["events"]:
    if event["kind"] == "queue_pair_error":
        failures[event["qpn"]] = event
    elif event["kind"] in ("request_refused", "session_refused"):
        refusals.append(event)


def said(qpn, completed, code):
    """What the daemon says of a queue pair: the event of its failure, or the reason of a drop."""
    event = failures.get(int(qpn))
    if event is None:
        try:
            return quoted("dropped: " + ask("qp", "show", qpn)["reason"])
        except (KeyError, subprocess.CalledProcessError):
            return ""
    if completed and event.get("vendor_err", 0) != int(code, 16):
        sys.exit(f"queue pair {qpn}: vendor_err {code} in its completion, but {event}")
    return quoted(event["text"])


def event_of(sentence):
    """The kind of the daemon's event with this sentence, which begins with the name of the verb."""
    for event in refusals:
        whole = sentence if event["kind"] == "request_refused" else sentence.split(": ", 1)[1]
        if event["text"].endswith(": " + whole):
            return f"`{event['kind']}`"
    return ""


wrong = 0


def compare(row, expected):
    global wrong
    if [" ".join(cell.split()) for cell in row] != expected:
        wrong += 1
        print("| " + " | ".join(expected) + " |")


rows = table(6)
for line in open(made, encoding="utf-8"):
    name, qpn, status, code, peer, peer_status, peer_code = line.split()
    row = rows.pop(name, [f"`{name}`", ""])
    expected = [row[0], row[1], seen(status, code), seen(peer_status, peer_code),
                said(qpn, status not in ("-1", "0"), code),
                said(peer, peer_status not in ("-1", "0"), peer_code)]
    compare(row, expected)

calls = table(5)
for line in open(refused, encoding="utf-8"):
    name, returned, error, said_line = line.rstrip("\n").split(" ", 3)
    # The verbs return NULL, -1 or the errno value, and all set errno.
    match = re.fullmatch(r"softhca: (.*) \((\w+)\)", said_line)
    if not match or match[2] != error or returned not in ("NULL", "-1", error):
        sys.exit(f"{name}: returned {returned}, errno {error}, and said {said_line}")
    row = calls.pop(name, [f"`{name}`", ""])
    compare(row, [row[0], row[1], f"`{returned}`", quoted(f"{match[1]} ({error})"), event_of(match[1])])

for name in [*rows, *calls]:
    wrong += 1
    print(f"{name}: the program does not make this mistake")
sys.exit(1 if wrong else 0)

#!/usr/bin/python3
"""Writes what the interoperation tests saw into their document.

usage: table.py RESULTS WIRE DOCUMENT

RESULTS: lines `LINK|MTU|IP|REQUESTER|TRANSPORT|COUNT|OPERATION` (REQUESTER: softhca or rxe), of cases that
passed. WIRE: lines `OPCODE SENT RECEIVED` (frames of the host's daemon, of the guest) of the same cases.
DOCUMENT: what is between the lines `<!-- seen -->` and `<!-- /seen -->` is replaced.
"""

import collections
import sys

OPCODES = {
    "SEND_FIRST": 0, "SEND_MIDDLE": 1, "SEND_LAST": 2, "SEND_LAST_IMM": 3, "SEND_ONLY": 4, "SEND_ONLY_IMM": 5,
    "WRITE_FIRST": 6, "WRITE_MIDDLE": 7, "WRITE_LAST": 8, "WRITE_LAST_IMM": 9, "WRITE_ONLY": 10,
    "WRITE_ONLY_IMM": 11, "READ_REQUEST": 12, "READ_RESPONSE_FIRST": 13, "READ_RESPONSE_MIDDLE": 14,
    "READ_RESPONSE_LAST": 15, "READ_RESPONSE_ONLY": 16, "ACKNOWLEDGE": 17, "ATOMIC_ACKNOWLEDGE": 18,
    "COMPARE_SWAP": 19, "FETCH_ADD": 20, "SEND_LAST_INVALIDATE": 22, "SEND_ONLY_INVALIDATE": 23}
NAMES = {code: name for name, code in OPCODES.items()}
SERVICES = {0: "RC", 1: "UC", 3: "UD"}  # the upper three bits
MARKS = ("<!-- seen -->", "<!-- /seen -->")


def read_results(path):
    """{link: {(transport, operation): {(mtu, ip): {requester: count}}}}, in the order of the file."""
    links = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            link, mtu, ip, requester, transport, count, operation = line.strip().split("|")
            cells = links.setdefault(link, {}).setdefault((transport, operation), {})
            cells.setdefault((mtu, ip), {})[requester] = int(count)
    return links


def operations_table(rows):
    columns = sorted({column for cells in rows.values() for column in cells}, key=lambda c: (c[1], int(c[0])))
    yield "| | operation |" + "".join(f" {mtu} {ip} |" for mtu, ip in columns)
    yield "| --- | --- |" + " --- |" * len(columns)
    for (transport, operation), cells in rows.items():
        shown = (cells.get(column, {}) for column in columns)
        yield f"| {transport} | {operation} |" + "".join(
            f" {cell.get('softhca', '-')} / {cell.get('rxe', '-')} |" for cell in shown)


def wire_table(path):
    counts = collections.defaultdict(lambda: [0, 0])
    with open(path, encoding="utf-8") as file:
        for line in file:
            opcode, sent, received = map(int, line.split())
            counts[opcode][0] += sent
            counts[opcode][1] += received
    yield "| opcode | | frames of softhca | frames of rxe |"
    yield "| --- | --- | --- | --- |"
    for opcode, (sent, received) in sorted(counts.items()):
        name = f"{SERVICES.get(opcode >> 5, '?')} {NAMES.get(opcode & 31, '?')}"
        yield f"| {opcode} | {name} | {sent} | {received} |"


def main():
    results, wire, document = sys.argv[1:]
    lines = []
    for link, rows in read_results(results).items():
        lines += [f"*{link[0].upper()}{link[1:]}*", "", *operations_table(rows), ""]
    lines += ["All frames of these cases, by opcode:", "", *wire_table(wire)]
    with open(document, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    with open(document, "w", encoding="utf-8") as file:
        file.write(before + MARKS[0] + "\n" + "\n".join(lines) + "\n" + MARKS[1] + after)


if __name__ == "__main__":
    main()

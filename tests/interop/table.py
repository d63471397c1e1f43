#!/usr/bin/python3
"""Writes what the interoperation tests saw into their document.

usage: table.py RESULTS WIRE CONNECTIONS DOCUMENT

RESULTS: lines `LINK|MTU|IP|REQUESTER|TRANSPORT|COUNT|OPERATION` (REQUESTER: softhca or rxe), of cases that
passed. WIRE: lines `OPCODE SENT RECEIVED` (frames of the host's daemon, of the guest) of the same cases.
CONNECTIONS: of cases of rdma_cm that passed, lines `COLUMN|host or guest serves|CASE|REQUESTS ACCEPTED` and
`mad ATTRIBUTE SENT RECEIVED`.
DOCUMENT: what is between the lines `<!-- seen -->` and `<!-- /seen -->` is replaced.
"""

import collections
import itertools
import sys

OPCODES = {
    "SEND_FIRST": 0, "SEND_MIDDLE": 1, "SEND_LAST": 2, "SEND_LAST_IMM": 3, "SEND_ONLY": 4, "SEND_ONLY_IMM": 5,
    "WRITE_FIRST": 6, "WRITE_MIDDLE": 7, "WRITE_LAST": 8, "WRITE_LAST_IMM": 9, "WRITE_ONLY": 10,
    "WRITE_ONLY_IMM": 11, "READ_REQUEST": 12, "READ_RESPONSE_FIRST": 13, "READ_RESPONSE_MIDDLE": 14,
    "READ_RESPONSE_LAST": 15, "READ_RESPONSE_ONLY": 16, "ACKNOWLEDGE": 17, "ATOMIC_ACKNOWLEDGE": 18,
    "COMPARE_SWAP": 19, "FETCH_ADD": 20, "SEND_LAST_INVALIDATE": 22, "SEND_ONLY_INVALIDATE": 23}
NAMES = {code: name for name, code in OPCODES.items()}
SERVICES = {0: "RC", 1: "UC", 3: "UD"}  # the upper three bits
ATTRIBUTES = {0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP",
              0x17: "SIDR_REQ", 0x18: "SIDR_REP"}
COLUMNS = ["IPv4", "IPv6", "IPv4, bad", "IPv6, bad"]
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


def joined(rows):
    """Successive rows with equal cells share a line: [(name, cells)] of (name, cells)."""
    for cells, group in itertools.groupby(rows, key=lambda row: row[1]):
        yield "; ".join(name for name, _ in group), cells


def operations_table(rows):
    columns = sorted({column for cells in rows.values() for column in cells}, key=lambda c: (c[1], int(c[0])))
    yield "| | operation |" + "".join(f" {mtu} {ip} |" for mtu, ip in columns)
    yield "| --- | --- |" + " --- |" * len(columns)
    for transport, group in itertools.groupby(rows.items(), key=lambda row: row[0][0]):
        for operations, cells in joined((operation, cells) for (_, operation), cells in group):
            shown = (cells.get(column, {}) for column in columns)
            yield f"| {transport} | {operations} |" + "".join(
                f" {cell.get('softhca', '-')}/{cell.get('rxe', '-')} |" for cell in shown)


def both_ways(counts):
    """The counts of softhca / of rxe: [(name, (sent, received))], from the daemon's side."""
    return ", ".join(f"{name} {sent}/{received}" for name, (sent, received) in counts)


def wire_lines(path):
    counts = collections.defaultdict(lambda: [0, 0])
    with open(path, encoding="utf-8") as file:
        for line in file:
            opcode, sent, received = map(int, line.split())
            counts[opcode][0] += sent
            counts[opcode][1] += received
    for service, group in itertools.groupby(sorted(counts), key=lambda opcode: opcode >> 5):
        yield f"- {SERVICES.get(service, '?')}: " + both_ways(
            (NAMES.get(opcode & 31, opcode), counts[opcode]) for opcode in group)


def connection_tables(path):
    rows = {}
    messages = collections.defaultdict(lambda: [0, 0])
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("mad "):
                attribute, sent, received = map(int, line.split()[1:])
                messages[attribute][0] += sent
                messages[attribute][1] += received
            else:
                column, server, case, accepted = line.strip().split("|")
                rows.setdefault(case, {}).setdefault(column, {})[server] = accepted
    yield "| | " + " | ".join(COLUMNS) + " |"
    yield "| --- |" + " --- |" * len(COLUMNS)
    for cases, cells in joined(rows.items()):
        shown = (cells.get(column, {}) for column in COLUMNS)
        yield f"| {cases} |" + "".join(f" {cell.get('host', '-')}/{cell.get('guest', '-')} |" for cell in shown)
    yield from ["", "All messages of these cases, of softhca / of rxe:", ""]
    yield both_ways((ATTRIBUTES.get(attribute, hex(attribute)), counts)
                    for attribute, counts in sorted(messages.items()))


def main():
    results, wire, connections, document = sys.argv[1:]
    lines = []
    tables = {}  # links with equal tables share one
    for link, rows in read_results(results).items():
        tables.setdefault(tuple(operations_table(rows)), []).append(link[0].upper() + link[1:])
    for table, links in tables.items():
        lines += [f"*{'; '.join(links)}*", "", *table, ""]
    lines += ["All frames of these cases, of softhca / of rxe:", "", *wire_lines(wire), "",
              "*Connections*: accepted where softhca serves / where rxe serves", "",
              *connection_tables(connections)]
    with open(document, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    with open(document, "w", encoding="utf-8") as file:
        file.write(before + MARKS[0] + "\n" + "\n".join(lines) + "\n" + MARKS[1] + after)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""Checks what `softhcactl capture` wrote, by tshark's reading.

usage: check_packets.py FILE [OPTION...]

Every packet of a tenant must be RoCE without a complaint of tshark, and carry the right ICRC (check_capture.py of
the interoperation tests), unless its comment says that it was damaged. On each connection the sequence
numbers of requests must follow each other, but for what is sent again (--lossy: some come out of turn),
and first, middle and last packets must fit (--gaps: some are missing; --cut: the capture ended before
they did). Options say what else is to be found:

  --packets N           so many packets, no more
  --interface NAME      all packets are on this interface
  --sent N, --written N, --read N, --atomics N    bytes of messages, each packet counted once; requests
  --comment REGEX       a packet with such a comment
  --dropped N           as the statistics of the interfaces say
"""

import argparse
import collections
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[2]
FIELDS = ["frame.interface_name", "frame.comment", "ip.src", "ip.dst", "udp.length",
          "infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.bth.destqp",
          "infiniband.bth.padcnt", "infiniband.reth.dmalen"]
# Of opcodes of RC and UC, by their low five bits: place in the message, and bytes of headers.
SENDS = {0: "first", 1: "middle", 2: "last", 3: "last", 4: "only", 5: "only"}
WRITES = {6: "first", 7: "middle", 8: "last", 9: "last", 10: "only", 11: "only"}
HEADERS = {3: 4, 5: 4, 6: 16, 9: 4, 10: 16, 11: 20}
READ, ATOMICS = 12, (19, 20)
BTH, DETH, ICRC, UDP = 12, 8, 4, 8
DATAGRAM = 100


class Packet:
    def __init__(self, line):
        cells = line.split("\t")
        self.interface, self.comment, self.source, self.destination = cells[:4]
        udp, self.opcode, self.psn, qpn, pad = (int(cell, 0) for cell in cells[4:9])
        self.flow = (self.interface, self.source, self.destination, qpn)
        self.dma_length = int(cells[9]) if cells[9] else 0
        self.body = udp - UDP - BTH - ICRC - pad

    def is_reliable_request(self):
        return self.opcode in SENDS or self.opcode in WRITES or self.opcode == READ or self.opcode in ATOMICS

    def payload(self):
        return self.body - HEADERS.get(self.opcode & 31, 0)


def fields_of(path, which, fields):
    command = ["tshark", "-r", path, "-T", "fields", "-Y", which]
    for field in fields:
        command += ["-e", field]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def packets_of(path):
    return [Packet(line) for line in fields_of(path, "infiniband.bth", FIELDS)]


def foreign_packets(path):
    """Interface and comment of what is no RoCE: kernels look for routers on the link, too."""
    return [tuple(line.split("\t")) for line in fields_of(path, "not infiniband.bth", FIELDS[:2])]


def check_frames(path):
    """By the checker of plain frames, without those that are said to be damaged."""
    with tempfile.TemporaryDirectory() as folder:
        sound, plain = f"{folder}/sound.pcapng", f"{folder}/plain.pcap"
        subprocess.run(["tshark", "-r", path, "-w", sound, "-Y", 'not frame.comment contains "bad_icrc"'],
                       check=True, capture_output=True)
        subprocess.run(["editcap", "-F", "nsecpcap", sound, plain], check=True)
        done = subprocess.run([sys.executable, TESTS / "interop/check_capture.py", plain],
                              capture_output=True, text=True, check=False)
    if done.returncode:
        yield done.stdout + done.stderr


def statistics(path):
    """Sum of isb_ifdrop over the interface statistics blocks, and how many there are."""
    data, at, dropped, blocks = pathlib.Path(path).read_bytes(), 0, 0, 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        option = at + 20
        while kind == 5 and option + 4 <= at + length - 4:
            code, size = struct.unpack_from("<HH", data, option)
            if code == 0:
                break
            if code == 5:
                dropped += struct.unpack_from("<Q", data, option + 4)[0]
            option += 4 + (size + 3) // 4 * 4
        blocks += kind == 5
        at += length
    return dropped, blocks


def packets_taken(packet, mtu):
    """Sequence numbers of a request: a read has those of its responses."""
    return max(1, -(-packet.dma_length // mtu)) if packet.opcode == READ else 1


class Flow:
    """The requests of one queue pair to another."""

    def __init__(self, options, mtu):
        self.options, self.mtu = options, mtu
        self.taken = {}  # by PSN
        self.answered = set()  # PSNs of responses to reads, without the first of each
        self.next = None

    def add(self, packet):
        """In the order in which they went."""
        if packet.psn in self.taken or packet.psn in self.answered:
            return  # again, or what is missing of a read
        if self.next not in (None, packet.psn) and not (self.options.lossy or self.options.gaps):
            yield f"{packet.flow}: PSN {packet.psn}, {self.next} expected"
        self.taken[packet.psn] = packet
        length = packets_taken(packet, self.mtu)
        self.answered.update((packet.psn + i) & 0xFFFFFF for i in range(1, length))
        self.next = (packet.psn + length) & 0xFFFFFF

    def check(self):
        """That nothing is missing, and messages are whole."""
        begin = next(iter(self.taken))
        following, within = None, False
        for psn in sorted(self.taken, key=lambda number: (number - begin + 0x800000) & 0xFFFFFF):
            packet = self.taken[psn]
            if following not in (None, psn):
                yield f"{packet.flow}: PSN {following} is missing"
            following = (psn + packets_taken(packet, self.mtu)) & 0xFFFFFF
            place = SENDS.get(packet.opcode) or WRITES.get(packet.opcode) or "only"
            if (place in ("middle", "last")) != within:
                yield f"{packet.flow}: PSN {psn}: {place} {'within' if within else 'outside of'} a message"
            within = place in ("first", "middle")
        if within:
            yield f"{packet.flow}: the last message has no end"


def amounts(packets, flows):
    sent = written = read = atomics = 0
    for flow in flows.values():
        for packet in flow.taken.values():
            if packet.opcode in SENDS:
                sent += packet.payload()
            elif packet.opcode in WRITES:
                written += packet.payload()
            elif packet.opcode == READ:
                read += packet.dma_length
            else:
                atomics += 1
    sent += sum(packet.body - DETH for packet in packets if packet.opcode == DATAGRAM and not packet.comment)
    return {"sent": sent, "written": written, "read": read, "atomics": atomics}


def complaints(options):
    packets = packets_of(options.file)
    foreign = foreign_packets(options.file)
    for name, comment in foreign:
        if not name.startswith("port ") or comment != "dropped: not_udp":
            yield f"no RoCE, on {name}: {comment}"
    if options.packets is not None and len(packets) + len(foreign) != options.packets:
        yield f"{len(packets)} packets of RoCE and {len(foreign)} others, {options.packets} expected"
    yield from check_frames(options.file)
    if options.interface:
        for name in {packet.interface for packet in packets} - {options.interface}:
            yield f"packets on the interface {name}"
    # The largest payload tells the path MTU.
    mtu = max((packet.payload() for packet in packets if packet.opcode in (0, 1, 6, 7)), default=4096)
    flows = collections.defaultdict(lambda: Flow(options, mtu))
    for packet in packets:
        if packet.is_reliable_request():
            yield from flows[packet.flow].add(packet)
    if not (options.gaps or options.cut):
        for flow in flows.values():
            yield from flow.check()
    for name, found in amounts(packets, flows).items():
        wanted = getattr(options, name)
        if wanted is not None and found != wanted:
            yield f"{name}: {found}, {wanted} expected"
    if options.comment and not any(re.search(options.comment, packet.comment) for packet in packets):
        yield f"no comment fits {options.comment}: {collections.Counter(packet.comment for packet in packets)}"
    dropped, blocks = statistics(options.file)
    if options.dropped is not None and dropped != options.dropped:
        yield f"statistics of {blocks} interfaces say that {dropped} were dropped, {options.dropped} expected"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    for flag in ("lossy", "gaps", "cut"):
        parser.add_argument(f"--{flag}", action="store_true")
    for number in ("packets", "sent", "written", "read", "atomics", "dropped"):
        parser.add_argument(f"--{number}", type=int)
    for text in ("interface", "comment"):
        parser.add_argument(f"--{text}")
    options = parser.parse_args()
    found = list(complaints(options))
    for complaint in found[:20]:
        print("complaint:", complaint)
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()

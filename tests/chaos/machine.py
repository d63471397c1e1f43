"""A hostile virtual machine. It starts and kills its agent and its programs, writes anything into its region, and
floods its channel.

usage: machine.py SEED RUN ACTIONS REGION BYTES CHANNEL      under softhca-run --guest

RUN: where its agent makes sockets. ACTIONS: a file that gets a line for each thing done.
"""

import mmap
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["SOFTHCA_BUILD"])
LONGEST = int(re.search(r"kMaxRecord = (\d+)", (ROOT / "abi/control.hpp").read_text())[1]) + 76
MAGIC = b"\xf3SoftHCA\xff\r\n\x1a\x9c\x5e\x31\xf7"
START, OPEN, RECORD, DATA = 1, 3, 4, 5
SOCKETS = [b"socket", b"control.sock", b"none.socket"]


class Machine:
    def __init__(self, seed, run, actions, region, size, channel):
        self.chance = random.Random(int(seed))
        self.run = run
        self.actions = open(actions, "a", buffering=1)
        self.region = region
        self.size = int(size)
        self.channel = int(channel)
        self.relay = os.getppid()
        with open(region, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), self.size)
        self.agent = None
        self.programs = []

    def start(self, *command, **more):
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more,
        )  # fmt: skip

    def send(self, data):
        """As much as the channel takes at once: the rest of a frame may be missing."""
        with socket.socket(fileno=os.dup(self.channel)) as channel:
            try:
                channel.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except OSError:
                pass

    def frame(self, kind, stream, payload):
        return struct.pack("<IHHI", len(payload), kind, 0, stream) + payload

    def starting(self):
        body = struct.pack("<QQQII", self.chance.getrandbits(64), 0, self.size, 1, 0)
        return bytes(LONGEST) + MAGIC + self.frame(START, 0, body)

    # --- what it does

    def look(self):
        """Notes an agent that has ended by a signal that was not sent."""
        code = self.agent.poll() if self.agent is not None else None
        if code is not None and code < 0 and code != -signal.SIGKILL:
            print(f"agent_crashed_{-code}", file=self.actions)

    def serve(self):
        self.look()
        if self.agent is None or self.agent.poll() is not None:
            self.agent = self.start(
                BUILD / "guest/softhca-guest", "--region", self.region, "--channel", f"fd:{self.channel}",
                "--runtime-dir", self.run, pass_fds=[self.channel],
            )  # fmt: skip

    def kill_agent(self):
        if self.agent is not None:
            self.agent.kill()
            self.agent.wait()

    def stop_agent(self):
        if self.agent is not None:
            self.agent.send_signal(signal.SIGSTOP)
            time.sleep(2 * self.chance.random())
            self.agent.send_signal(signal.SIGCONT)

    def work(self):
        """Programs that write to each other."""
        port = str(self.chance.randrange(21000, 25000))
        for more in ([], ["127.0.0.1"]):
            self.use("ibv_rc_pingpong", "-g", "0", "-p", port, "-n", "1000000", *more)
            time.sleep(0.2)

    def fill(self):
        """Programs that register more than the region has."""
        self.use(BUILD / "bench/isolation/softhca-aggressor", "--mode", "hog", "--size", "1G", "--qps", "64")

    def use(self, *program):
        tenant = [BUILD / "cli/softhca-run", "--runtime-dir", self.run, "--tenant", "vm", "--"]
        if len(self.programs) < 8:
            self.programs.append(self.start(*tenant, *program))

    def kill_programs(self):
        for program in self.programs:
            program.kill()
            program.wait()
        self.programs = []

    def scribble(self):
        """Words, as counters and places of queues are, and pages, over the whole region."""
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            at = self.chance.randrange(0, self.size - 4096, 8)
            value = self.chance.choice([b"\xff" * 8, bytes(8), self.chance.randbytes(8), self.chance.randbytes(4096)])
            self.memory[at : at + len(value)] = value

    def garble(self):
        """Bytes that are no frames."""
        for _ in range(self.chance.randrange(1, 50)):
            self.send(self.chance.randbytes(self.chance.randrange(1, 40000)))

    def begin_anew(self):
        for _ in range(self.chance.randrange(1, 50)):
            self.send(self.starting())

    def open_many(self):
        """More streams than there may be, which send what is no request."""
        self.send(self.starting())
        time.sleep(0.1)
        for first in range(1, 1100, 50):
            numbers = range(first, first + 50)
            self.send(b"".join(self.frame(OPEN, n, self.chance.choice(SOCKETS)) for n in numbers))
        for _ in range(200):
            kind, data = self.chance.choice([(RECORD, bytes(8)), (DATA, b"")])
            data += self.chance.randbytes(self.chance.randrange(1, 200))
            self.send(self.frame(kind, self.chance.randrange(1, 1100), data))

    def kill_relay(self):
        os.kill(self.relay, signal.SIGKILL)

    def play(self):
        kinds = [
            self.serve, self.kill_agent, self.stop_agent, self.work, self.fill, self.kill_programs, self.scribble,
            self.garble, self.begin_anew, self.open_many,
        ]  # fmt: skip
        end = time.monotonic() + self.chance.uniform(3, 9)
        while time.monotonic() < end and os.getppid() == self.relay:
            for do in [self.serve, self.work, *self.chance.choices([*kinds, self.kill_relay], k=4)]:
                do()
                print(do.__name__, file=self.actions)
                time.sleep(0.2 * self.chance.random())
        self.kill_programs()
        self.kill_agent()


Machine(*sys.argv[1:]).play()

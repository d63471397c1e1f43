"""What tenants attack with, and the processes that do."""

import os
import pathlib
import signal
import subprocess
import sys
import time

SANDBOX = pathlib.Path(os.environ["SANDBOX_DIR"])
BUILD = pathlib.Path(os.environ["SOFTHCA_BUILD"])
SYSTEM = pathlib.Path(os.environ["SYSTEM_TESTS"])
RUN = SANDBOX / "chaos"
MACHINE_ACTIONS = SANDBOX / "machine-actions"
TENANTS = {"calm": 1, "quiet": 2, "wild": 3, "rough": 4}
ADDRESSES = {name: f"198.18.0.{number}" for name, number in TENANTS.items()} | {"guest": "198.18.1.1"}
HOSTILE = BUILD / "tests/system/isolation/hostile"
AGGRESSOR = BUILD / "bench/isolation/softhca-aggressor"


def as_tenant(name):
    return [BUILD / "cli/softhca-run", "--runtime-dir", RUN, "--tenant", name, "--"]


class Crowd:
    """The processes of those who attack. What becomes of them is of no interest."""

    def __init__(self, chance, disturbance):
        self.chance = chance  # decides what is done
        self.disturbance = disturbance
        self.processes = []
        self.port = 20000
        self.lived = set()  # attacks that went on for a while
        self.crashed = []  # relays of machines, which are no programs of an attacker

    def attack(self, attack, tenant):
        self.name = attack.__name__
        attack(self, tenant)

    def look(self):
        """Forgets those that have ended."""
        faults = [-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGILL, -signal.SIGFPE]
        self.crashed += [p.returncode for p in self.processes if p.name == "machine" and p.poll() in faults]
        self.processes = [process for process in self.processes if process.poll() is None]
        for process in self.processes:
            if time.monotonic() - process.since > 0.5:
                self.lived.add(process.name)

    def start(self, *command, feed=False):
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        process.name, process.since = self.name, time.monotonic()
        self.processes.append(process)

    def next_port(self):
        self.port += 1
        return str(self.port)

    def signal(self, process, number):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass

    def disturb(self):
        """One is stopped, goes on, or is killed."""
        if self.processes:
            process = self.disturbance.choice(self.processes)
            self.signal(process, self.disturbance.choice([signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL]))

    def end(self):
        for process in self.processes:
            self.signal(process, signal.SIGKILL)
            process.wait()
        self.processes = []


def scribble(crowd, tenant):
    """Random words over all that is shared, wrong requests, holes."""
    seed = crowd.chance.randrange(1 << 30)
    crowd.start(HOSTILE / "scribble", RUN / tenant / "socket", ADDRESSES[tenant], seed, 10**9)


def busy(crowd, tenant):
    """Keeps memory busy that the daemon wants to seal."""
    crowd.start(HOSTILE / "busy", RUN / tenant / "socket", feed=True)


def withhold(crowd, tenant):
    """Memory of a file whose server does not answer."""
    folder = SANDBOX / f"withheld-{crowd.next_port()}"
    folder.mkdir()
    script = """sleep infinity | "$1" "$2" &
                until mountpoint -q "$2"; do sleep 0.05; done
                exec "${@:3}" "$2/page\""""
    crowd.start(
        *["unshare", "--mount", "--propagation", "private", "bash", "-c", script, "-", HOSTILE / "held-file", folder],
        *as_tenant(tenant), HOSTILE / "faulting", "softhca0",
    )  # fmt: skip


def register(crowd, tenant):
    """Registers memory all the time."""
    other = "rough" if tenant == "wild" else "wild"
    crowd.start(HOSTILE / "turns", RUN / tenant / "socket", RUN / other / "socket", 4, 10**9)


def pass_descriptors(crowd, tenant):
    """Descriptors whose close waits."""
    crowd.start(sys.executable, SYSTEM / "isolation/passed_descriptors.py", RUN / tenant / "socket")


def outlive(crowd, tenant):
    """Sessions that ask for everything once their tenant has been removed."""
    crowd.start(sys.executable, pathlib.Path(__file__).parent / "outlive.py", RUN / tenant / "socket")


def connect(crowd, tenant):
    """Connections that come and go and say nothing."""
    crowd.start(sys.executable, pathlib.Path(__file__).parent / "connections.py", RUN / tenant / "socket")


def stall(crowd, tenant):
    """Thousands of full send queues whose receivers are not ready."""
    program, port = BUILD / "tests/system/qos/stalled", crowd.next_port()
    crowd.start(*as_tenant(tenant), program, "softhca0", 0, 1024, port)
    crowd.start(*as_tenant(tenant), program, "softhca0", 0, 1024, port, "127.0.0.1")


def aggress(mode, *more):
    def attack(crowd, tenant):
        crowd.start(*as_tenant(tenant), AGGRESSOR, "--mode", mode, *more)

    attack.__name__, attack.__doc__ = mode, f"softhca-aggressor --mode {mode} {' '.join(more)}"
    return attack


def come_and_go(crowd, tenant):
    """Programs that would go on for ever."""
    port = crowd.next_port()
    for more in ([], ["127.0.0.1"]):
        crowd.start(*as_tenant(tenant), "ibv_rc_pingpong", "-g", "0", "-p", port, "-n", "100000000", *more)


def machine(crowd, tenant):
    """A virtual machine that ends soon (machine.py)."""
    crowd.start(
        BUILD / "cli/softhca-run", "--runtime-dir", RUN, "--guest", tenant, "--unsealed", "--",
        sys.executable, pathlib.Path(__file__).parent / "machine.py", crowd.chance.randrange(1 << 30),
        SANDBOX / "machine", MACHINE_ACTIONS, "{region}", "{bytes}", "{channel}",
    )  # fmt: skip


ATTACKS = [
    scribble, busy, register, pass_descriptors, connect, outlive, stall, come_and_go,
    aggress("hog"), aggress("doorbells"), aggress("churn"), aggress("rnr"), aggress("stalled"),
    aggress("hog", "--size", "1G", "--qps", "64"),  # more memory than there may be
]  # fmt: skip
if (HOSTILE / "held-file").exists() and os.access("/dev/fuse", os.W_OK):
    ATTACKS.append(withhold)
if "CHAOS_MACHINE" in os.environ:
    ATTACKS = [machine]

"""Tenants that obey beside tenants that attack.

usage: chaos.py DAEMON SECONDS SEED      inside tools/sandbox (tests/chaos/run)

Tenants `calm` and `quiet` exchange data with programs that check it, measure how long a short write
takes and ask the daemon for small things. Meanwhile processes of `wild` and `rough` attack in rounds,
each kind for itself and several at once, the operator reloads, makes and removes tenants, and in some
rounds the daemon itself is killed and started again. In every other round, and in all of them with
CHAOS_STORM=1, tenants come and go under running programs: the attackers are of `guest`, too, and the
operator takes `rough` out of the configuration and puts it back. In the rounds after those with a kill
of the daemon, only its adapter is killed, and another follows. With CHAOS_MACHINE=1 the only attacker is a
virtual machine, `vm`, which runs again and again. What has to hold:

  - programs of those who obey end well, and their data is right, unless their whole daemon was killed;
  - the daemon ends only when it is killed, and answers requests all the time; agents and relays of
    machines end only when they are killed;
  - after each round nothing is in use: of tenants by the metrics, of the daemon (descriptors, threads,
    mappings) by /proc.

How long writes and answers took is printed beside what they take alone; with two processors for
everything it depends too much on who has them to be asserted.
"""

import json
import os
import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

from attacks import ATTACKS, BUILD, MACHINE_ACTIONS, RUN, SANDBOX, TENANTS, Crowd, as_tenant, busy

METRICS = "http://127.0.0.1:19990/metrics"
BENCH = BUILD / "bench/verbs/softhca-bench"
ROUND = 5  # seconds
HAS_MACHINE = "CHAOS_MACHINE" in os.environ
MACHINE = """[[tenant]]
name = "vm"
addresses = ["198.18.2.1"]
vcbs = 32
pcbs = 64
trusted = "none"
guest_memory = 67108864
"""
REASONABLE = 60  # seconds in which anything has an answer, or hangs


class Failed(Exception):
    pass


def fail(what):
    raise Failed(what)


def configuration(weight, left_out=None):
    tenants = "".join(
        f"""[[tenant]]
name = "{name}"
addresses = ["198.18.0.{number}"]
vcbs = 32
pcbs = 64
weight = {weight if name == "calm" else 1}
trusted = "none"
"""
        for name, number in TENANTS.items()
        if name != left_out
    )
    return f"""[daemon]
runtime_dir = "{RUN}"
[metrics]
address = "127.0.0.1:19990"
{tenants}{MACHINE if HAS_MACHINE else ""}[[template]]
name = "guest"
addresses = ["198.18.1.1", "198.18.1.2"]
vcbs = 8
pcbs = 16
trusted = "none"
"""


class Refused(Exception):
    pass


class Daemon:
    def __init__(self, program):
        self.program = program
        self.file = SANDBOX / "chaos.toml"
        self.log = open(SANDBOX / "chaos.log", "ab")
        self.weight = 1
        self.succeeded = dict.fromkeys(["reload", "tenant.create", "tenant.remove"], 0)
        self.file.write_text(configuration(self.weight))
        self.start()

    def start(self):
        self.crashes = 0
        self.process = subprocess.Popen([self.program, "-c", self.file], stdout=self.log, stderr=self.log)
        until = time.monotonic() + REASONABLE
        while self.ask("status") is None:
            if self.process.poll() is not None or time.monotonic() > until:
                fail("the daemon does not start")
            time.sleep(0.02)

    def settle(self):
        """Notes what the daemon keeps when each tenant, one made on demand among them, was there."""
        self.make_guest()
        for tenant in [*TENANTS, "guest"]:
            if wrong := devinfo(tenant):
                fail(f"nobody attacks yet: {wrong}")
        self.remove_guest()
        self.kept = None
        while (figures := self.figures()) != self.kept:
            self.kept = figures
            time.sleep(1.5)  # a thread of a tenant lasts a second longer than its work

    def make_guest(self):
        self.change("tenant.create", name="guest", template="guest")

    def remove_guest(self):
        self.change("tenant.remove", name="guest")

    def change(self, method, **params):
        """What may be refused: the guest is there already, or not yet gone."""
        try:
            self.succeeded[method] += self.ask(method, **params) is not None
        except Refused:
            pass

    def adapter(self):
        """The process that serves: a child of the daemon's main process, which keeps it."""
        for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                name, fields = file.read_text().rsplit(") ", 1)
            except OSError:
                continue  # it has ended
            if name.endswith("(softhca-adapter") and int(fields.split()[1]) == self.process.pid:
                return int(file.parent.name)
        fail("the daemon has no adapter")

    def crash(self):
        """Kills the adapter, and waits for the one that follows."""
        os.kill(self.adapter(), signal.SIGKILL)
        self.crashes += 1
        until = time.monotonic() + REASONABLE
        while self.lives() and time.monotonic() < until:
            status = self.ask("status")
            if status and status["restarts"].get("crash") == self.crashes:
                return
            time.sleep(0.05)
        fail("no adapter follows" if self.lives() else "the daemon has ended by itself")

    def kill(self):
        adapter = self.adapter()
        end = os.pidfd_open(adapter)
        os.kill(adapter, signal.SIGSTOP)  # it must not clean up
        self.process.kill()
        os.kill(adapter, signal.SIGKILL)
        # Until then its sockets are there, which the next daemon takes for those of one that runs.
        if not select.select([end], [], [], REASONABLE)[0]:
            fail("the adapter does not end")
        os.close(end)
        if self.process.wait() != -signal.SIGKILL:
            fail(f"the daemon has ended by itself: {self.process.returncode}")

    def stop(self):
        self.process.terminate()
        if self.process.wait(REASONABLE) != 0:
            fail(f"the daemon ends with {self.process.returncode}")

    def lives(self):
        return self.process.poll() is None

    def ask(self, method, **params):
        """What the admin socket answers, or None while there is no daemon."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(REASONABLE)
            try:
                connection.connect(str(RUN / "admin.sock"))
                connection.sendall(json.dumps(request).encode() + b"\n")
                answer = b""
                while not answer.endswith(b"\n"):
                    part = connection.recv(1 << 16)
                    if not part:
                        return None
                    answer += part
            except socket.timeout:
                fail(f"{method}: no answer in {REASONABLE} s")
            except OSError:
                return None
        answer = json.loads(answer)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def reload(self, left_out=None):
        self.weight = 3 - self.weight
        self.file.write_text(configuration(self.weight, left_out))
        self.change("reload")

    def reload_without_rough(self):
        self.reload("rough")

    def figures(self):
        """What a leak would make grow. The memory of records grows with the most objects there were."""
        process = pathlib.Path(f"/proc/{self.adapter()}")
        maps = (process / "maps").read_text()
        records = maps.count("memfd:softhca-records")
        return {
            "descriptors": len(os.listdir(process / "fd")) - self.sealers() - records,
            "threads": len(os.listdir(process / "task")),
            "mappings of shared memory": maps.count("softhca-") - records,
        }

    def sealers(self):
        """Processes that wait for the next seal. The daemon keeps four at most, with a socket to each."""
        adapter, processes = self.adapter(), {}
        for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                pid, rest = file.read_text().split(" (", 1)
            except OSError:
                continue  # it has ended
            name, fields = rest.rsplit(") ", 1)
            processes[int(pid)] = name, int(fields.split()[1])
        helpers = {pid for pid, (_, parent) in processes.items() if parent == adapter}
        return sum(name == "softhca-sealer" and parent in helpers for name, parent in processes.values())

    def in_use(self):
        """What the metrics say tenants have, but for nothing."""
        text = urllib.request.urlopen(METRICS, timeout=REASONABLE).read().decode()
        found = re.findall(r'^softhca_tenant_in_use\{tenant="(\w+)",resource="(\w+)"\} (\S+)$', text, re.M)
        if not found:
            fail("the metrics do not say what is in use")
        return [f"{tenant}: {amount} {what}" for tenant, what, amount in found if float(amount) != 0]


class Exchange(threading.Thread):
    """Repeats something that has to end well as long as its daemon lives."""

    def __init__(self, what):
        super().__init__(daemon=True)
        self.what = what
        self.over = threading.Event()
        self.done = self.interrupted = 0
        self.wrong = None
        self.generation = 0  # of the daemon; odd while there is none

    def run(self):
        while not self.over.is_set() and self.wrong is None:
            generation = self.generation
            try:
                wrong = self.what()
            except Exception as error:  # a program that cannot even be started
                wrong = repr(error)
            if wrong is None:
                self.done += 1
            elif generation != self.generation or generation % 2 == 1:
                self.interrupted += 1
                time.sleep(0.1)
            else:
                self.wrong = wrong


def run_pair(first, second):
    """Two programs, the second of which connects to the first. None or what is wrong, and what the second says."""
    programs = [
        subprocess.Popen([str(word) for word in first], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    ]
    outputs = []
    try:
        if not listens(int(first[first.index("-p") + 1]), programs[0]):
            return "no server: " + programs[0].communicate(timeout=REASONABLE)[0].decode(), ""
        programs.append(
            subprocess.Popen([str(word) for word in second], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        )
        for program in reversed(programs):
            if outputs and programs[1].returncode != 0:
                program.kill()  # it may wait for who has gone
            outputs.append(program.communicate(timeout=2 * REASONABLE)[0].decode())
    except subprocess.TimeoutExpired:
        return f"hangs: {' '.join(str(word) for word in first)}", ""
    finally:
        for program in programs:
            program.kill()
            program.wait()
    if any(program.returncode for program in programs):
        return "\n".join([" ".join(str(word) for word in first), *outputs]), ""
    return None, outputs[0]


def listens(port, process):
    pattern = re.compile(rf":{port:04X} 0*:0000 0A")
    until = time.monotonic() + REASONABLE
    while process.poll() is None and time.monotonic() < until:
        if pattern.search(pathlib.Path("/proc/net/tcp").read_text() + pathlib.Path("/proc/net/tcp6").read_text()):
            return True
        time.sleep(0.02)
    return False


def pingpong():
    """Contents checked at both ends."""
    common = ["ibv_rc_pingpong", "-g", "0", "-p", "19101", "-c", "-n", "300", "-s", "20000"]
    return run_pair([*as_tenant("calm"), *common], [*as_tenant("quiet"), *common, "127.0.0.1"])[0]


P99 = []


def write_latency():
    """99 of 100 short writes of `calm` take at most so many us."""
    common = [*as_tenant("calm"), BENCH, "-p", "19102"]
    wrong, said = run_pair(
        [*common, "--server"],
        [*common, "--client", "127.0.0.1", "--measure", "completion", "--op", "write", "--size", "16", "--iterations", "2000"],
    )  # fmt: skip
    if wrong is None:
        P99.append(float(re.search(r"^.*\b16 +[0-9.]+ +([0-9.]+) ", said, re.M)[1]))
    return wrong


class Asking:
    """Requests of the operator, and how long each took, in seconds."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.took = []

    def __call__(self):
        began = time.monotonic()
        if self.daemon.ask("tenants") is None:
            return "the admin socket does not answer"
        self.took.append(time.monotonic() - began)
        time.sleep(0.02)
        return None


def devinfo(tenant="quiet"):
    done = subprocess.run([*as_tenant(tenant), "ibv_devinfo"], capture_output=True, text=True, timeout=REASONABLE)
    return None if done.returncode == 0 else done.stdout + done.stderr


def at_rest(daemon):
    """Waits until nothing is in use."""
    until = time.monotonic() + REASONABLE
    left = None
    while time.monotonic() < until and daemon.lives():
        left = daemon.in_use() or [
            f"{figure} {what}, {daemon.kept[what]} at first"
            for what, figure in daemon.figures().items()
            if figure > daemon.kept[what]
        ]
        if not left:
            return
        time.sleep(0.1)
    fail("left after a round: " + "; ".join(left) if daemon.lives() else "the daemon has ended by itself")


def part(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def main():
    program, seconds, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    print(f"CHAOS_SEED={seed}", flush=True)
    chance, disturbance = random.Random(seed), random.Random(seed)
    daemon = Daemon(program)
    daemon.settle()
    crowd = Crowd(chance, disturbance)
    for what in (pingpong, write_latency, write_latency):
        if wrong := what():
            fail(f"nobody attacks yet: {wrong}")
    at_rest(daemon)
    alone = min(P99)
    P99.clear()

    counts = dict.fromkeys((attack.__name__ for attack in ATTACKS), 0)
    plan, rounds, kills, taken_over, done, interrupted = [], 0, 0, 0, {}, 0
    asking = Asking(daemon)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        rounds += 1
        storm = rounds % 2 == 0 or "CHAOS_STORM" in os.environ
        changes = [daemon.reload, daemon.make_guest, daemon.remove_guest]
        if storm:
            changes += [daemon.make_guest, daemon.reload_without_rough]
        exchanges = [Exchange(what) for what in (pingpong, write_latency, devinfo, asking)]
        for exchange in exchanges:
            exchange.start()
        ends = time.monotonic() + ROUND
        dies = ends - ROUND / 2 if rounds % 3 == 0 else None
        crashes = ends - ROUND * chance.random() if rounds % 3 == 1 else None
        while time.monotonic() < ends:
            if not plan:
                plan = chance.sample(ATTACKS, len(ATTACKS))
            crowd.look()
            if len(crowd.processes) < (1 if HAS_MACHINE else 6):
                attack = plan.pop()
                counts[attack.__name__] += 1
                attackers = ["vm"] if HAS_MACHINE else ["wild", "rough", *["guest"] * storm]
                crowd.attack(attack, chance.choice(attackers))
            if not HAS_MACHINE:  # which disturbs its own processes
                crowd.disturb()
            disturbance.choice(changes)()
            if dies is not None and time.monotonic() > dies:
                dies = None
                kills += 1
                if not daemon.lives():
                    break
                for exchange in exchanges:
                    exchange.generation += 1
                crowd.attack(busy, "wild")  # a wait that no signal ends must not keep the daemon
                time.sleep(0.3)
                daemon.kill()
                daemon.start()
                for exchange in exchanges:
                    exchange.generation += 1
            if crashes is not None and time.monotonic() > crashes:
                crashes = None
                taken_over += 1
                exchanges[-1].generation += 1  # an answer to the operator may be lost
                daemon.crash()
                exchanges[-1].generation += 1
            if not daemon.lives():
                break
            time.sleep(0.3)
        if not daemon.lives():
            fail(f"the daemon has ended by itself: {daemon.process.returncode}")
        for exchange in exchanges:
            exchange.over.set()
        for exchange in exchanges:
            exchange.join(4 * REASONABLE)
            name = getattr(exchange.what, "__name__", "asking")
            if exchange.is_alive():
                fail(f"{name} hangs")
            if exchange.wrong is not None:
                fail(f"{name}: {exchange.wrong}")
            done[name] = done.get(name, 0) + exchange.done
            interrupted += exchange.interrupted
        crowd.end()
        daemon.remove_guest()
        daemon.reload()
        at_rest(daemon)
    daemon.stop()
    if not all(done.values()):
        fail(f"something never came to its end: {done}")
    if not all(daemon.succeeded.values()):
        fail(f"the operator never succeeded: {daemon.succeeded}")
    if len(crowd.lived) < len(counts) / 2 and rounds > 3:
        fail(f"of the attacks only these went on for half a second: {crowd.lived}")

    print(f"{rounds} rounds, {kills} kills of the daemon, {taken_over} of its adapter; attacks:", *(f"{n} {c}," for n, c in counts.items()),
          f"{len(crowd.lived)} kinds for a while")  # fmt: skip
    if HAS_MACHINE:
        actions = MACHINE_ACTIONS.read_text().split()
        print("the machine:", *(f"{name} {actions.count(name)}," for name in sorted(set(actions))))
        if "its virtual machine has started" not in pathlib.Path(daemon.log.name).read_text():
            fail("no machine has ever started")
        if crashes := [name for name in actions if name.startswith("agent_crashed")] + crowd.crashed:
            fail(f"agents or relays have crashed: {crashes}")
    print("ended well:", *(f"{n} {c}," for n, c in done.items()), f"interrupted by a kill: {interrupted}")
    print(f"p99 of a short write: {alone:.1f} us alone; beside attacks {part(P99, 0.5):.1f} us in half of {len(P99)} "
          f"measurements, {part(P99, 1):.1f} us at most (aim: 20 times)")  # fmt: skip
    print(f"answers to the operator: {1e3 * part(asking.took, 0.5):.1f} ms in half of {len(asking.took)}, "
          f"{1e3 * part(asking.took, 0.99):.1f} ms in 99 of 100, {1e3 * part(asking.took, 1):.1f} ms at most (aim: 100)")  # fmt: skip


def found_by_sanitizers():
    lines = (SANDBOX / "chaos.log").read_text(errors="replace").splitlines()
    first = next((i for i, line in enumerate(lines) if re.search("Sanitizer|runtime error:", line)), len(lines))
    return "\n".join(lines[first : first + 60])


if __name__ == "__main__":
    try:
        main()
        wrong = None
    except Failed as failed:
        wrong = str(failed)
    except Exception as error:  # when the daemon is gone, for example
        wrong = repr(error)
    if found := found_by_sanitizers():
        print(found)
        wrong = wrong or "found by a sanitizer"
    sys.exit(wrong and f"failed: {wrong}")

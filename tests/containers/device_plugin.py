"""The device plugin for Kubernetes between a daemon and a fake kubelet, with programs in containers that are
made of what it answers. Run by tests/system/deployment/device-plugin.test, with an empty /run.

usage: device_plugin.py BUILD FOLDER    FOLDER: for all that is made"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import grpc
import jsonschema

from container import Container, of_cdi
from fake_kubelet import FakeKubelet, Watch

SMALL, LARGE, ABSENT = "softhca.io/small", "softhca.io/large", "softhca.io/absent"
GRACE_S = 6
# In so long the plugin looks at the kubelet several times.
LOOKS_S = 1
RESOURCES = ["--resource", "small=4", "--resource", "large=2", "--resource", "absent=1"]
# Root without any rights of root, as in deploy/kubernetes.
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
CONFIG = """
[daemon]
runtime_dir = "{run}"
state_dir = "{state}"
[metrics]
address = ""
[pools]
tenants = 8
pcbs = 1024
[[template]]
name = "small"
addresses = ["198.18.1.1", "198.18.1.2", "198.18.1.3", "198.18.1.4"]
vcbs = 32
pcbs = 75
process_memory = false
socket = {{ mode = 0o666 }}
[[template]]
name = "large"
addresses = ["198.18.2.1", "198.18.2.2"]
pcbs = 500
socket = {{ mode = 0o666 }}
"""

CDI_SCHEMA = json.loads((pathlib.Path(__file__).parent / "cdi.schema.json").read_text())


def expect(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def eventually(condition, what):
    give_up = time.monotonic() + 30
    while not condition():
        expect(time.monotonic() < give_up, what)
        time.sleep(0.05)


def refused(code, words, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except grpc.RpcError as error:
        expect(error.code() == code, f"{arguments}: {error.code()}, not {code}: {error.details()}")
        for word in words:
            expect(word in error.details(), f"{arguments}: {word!r} is not said: {error.details()}")
        return
    expect(False, f"{arguments}: not refused")


class Daemon:
    def __init__(self, build, folder):
        self._build = build
        self.run = pathlib.Path("/run/softhca")
        self.state = folder / "state"
        self.config = folder / "daemon.toml"
        self.config.write_text(CONFIG.format(run=self.run, state=self.state))
        self._log = folder / "daemon.log"
        self._libraries = folder / "libraries"

    def start(self):
        with open(self._log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [*UNPRIVILEGED, self._build / "daemon/softhcad", "--config", self.config, "--watch-config",
                 "--libraries", self._libraries], stdout=log, stderr=log)
        eventually(lambda: "ready:" in self._log.read_text() or self.process.poll() is not None, "no daemon")
        expect(self.process.poll() is None, f"no daemon: {self._log.read_text()}")

    def adapter(self):
        return int(subprocess.check_output(["pgrep", "-P", str(self.process.pid), "-x", "softhca-adapter"]))

    def freeze(self, how):
        """SIGSTOP or SIGCONT to the process that serves, and to the one that would end it for standing still."""
        for process in (self.process.pid, self.adapter()):
            os.kill(process, how)

    def stop(self, number=signal.SIGTERM):
        if number == signal.SIGKILL:
            os.kill(self.adapter(), signal.SIGSTOP)  # it must not clean up
            os.kill(self.process.pid, signal.SIGSTOP)
            os.kill(self.adapter(), signal.SIGKILL)
        self.process.send_signal(number)
        code = self.process.wait(30)
        expect(code == 0 or number == signal.SIGKILL, f"the daemon ended with {code}: {self._log.read_text()}")

    def ask(self, *arguments):
        out = subprocess.run([self._build / "cli/softhcactl", "--runtime-dir", self.run, "-o", "json", *arguments],
                             check=True, stdout=subprocess.PIPE, timeout=30).stdout
        return json.loads(out)

    def tenants(self):
        """Addresses by name."""
        return {tenant["name"]: [each["address"] for each in tenant["addresses"]]
                for tenant in self.ask("tenants")["tenants"] if not tenant["leaving"]}

    def created(self):
        return sum(revision["cause"] == "tenant create" for revision in self.ask("revisions")["revisions"])


class Plugin:
    def __init__(self, folder, run):
        self._folder = folder
        self._run = run
        self.log = folder / "plugin.log"
        self.log.write_text("")

    def command(self, *options):
        return ["/usr/bin/python3", "-m", "softhca_device_plugin", "--runtime-dir", self._run,
                "--kubelet-dir", self._folder / "kubelet", *options]

    def start(self, interval="0.2"):
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [*UNPRIVILEGED, *self.command(*RESOURCES, "--interval", interval, "--grace", str(GRACE_S))],
                stdout=log, stderr=log)

    def stop(self):
        self.process.terminate()
        expect(self.process.wait(30) == 0, f"the plugin did not end well: {self.log.read_text()}")

    def times(self, text):
        return self.log.read_text().count(text)

    def says(self, text):
        return self.times(text) > 0


class Test:
    def __init__(self, build, folder):
        self.build = build
        self.folder = folder
        for name in ("device-plugins", "pod-resources"):
            (folder / "kubelet" / name).mkdir(parents=True)
        self.daemon = Daemon(build, folder)
        self.plugin = Plugin(folder, self.daemon.run)
        self.kubelet = FakeKubelet(folder / "kubelet")
        self.containers = []

    def container(self, answer):
        self.containers.append(Container(answer))
        return self.containers[-1]

    def registered(self):
        return set(self.kubelet.registered) == {SMALL, LARGE, ABSENT}

    def folders(self):
        return sorted(path.name for path in self.daemon.run.glob("pod-*"))

    def talk(self, server, client):
        """ibv_rc_pingpong between two containers."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        listening = f"{int(port):04X} 0"
        waiting = server.start("ibv_rc_pingpong", "-g", "0", "-c", "-n", "100", "-p", port)
        eventually(lambda: waiting.poll() is not None or any(
            listening in line and " 0A " in line for name in ("tcp", "tcp6")
            for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()), "no server")
        code, output = client.run("ibv_rc_pingpong", "-g", "0", "-c", "-n", "100", "-p", port, "127.0.0.1")
        if code != 0:
            waiting.kill()
        output += waiting.communicate(timeout=60)[0]
        expect(code == 0 and waiting.returncode == 0, f"ibv_rc_pingpong: {output}")

    # The steps, in this order.

    def step_usage(self):
        for options, words in ((["--resource", "small"], "is not TEMPLATE=COUNT"),
                               (["--resource", "small=0"], "is not TEMPLATE=COUNT"),
                               (["--resource", "a/b=1"], "is not TEMPLATE=COUNT"),
                               (["--resource", "x" * 60 + "=1"], "is too long"),
                               (["--resource", "small=1", "--resource", "small=2"], "a template is named twice"),
                               (["--resource", "small=1", "--kubelet-dir", "/nowhere"], "check that a kubelet runs")):
            ended = subprocess.run(self.plugin.command(*options), stderr=subprocess.PIPE, text=True, timeout=60)
            expect(ended.returncode == 2 and words in ended.stderr, f"{options}: {ended.stderr}")

    def step_registers_when_the_kubelet_comes(self):
        self.daemon.start()
        self.plugin.start()
        self.kubelet.refuse = "not today"
        self.kubelet.start()
        eventually(lambda: self.plugin.says("the kubelet does not register it: not today"), "nothing of a refusal")
        self.kubelet.refuse = ""
        eventually(self.registered, f"not registered: {self.kubelet.registered}")
        watch = Watch(self.kubelet, SMALL)
        healthy = {f"pod-small-{number}": "Healthy" for number in range(4)}
        eventually(lambda: watch.devices == healthy, f"devices: {watch.devices}")
        watch.close()

    def step_programs_in_containers(self):
        answers = [self.kubelet.run_pod(f"pod{n}", SMALL, f"pod-small-{n}") for n in range(2)]
        self.one, self.two = map(self.container, answers)
        expect(all(mount.read_only for mount in answers[0].mounts), "a mount can be written")
        code, output = self.one.run("touch", f"{self.daemon.run}/pod-small-0/x", root=True)
        expect(code != 0 and "Read-only" in output, f"a container writes into its tenant's folder: {output}")
        code, output = self.one.run("ls", str(self.daemon.run))
        expect(output.split() == ["pod-small-0"], f"a container sees {output}")
        self.talk(self.one, self.two)
        self.same_environment(answers[0].envs)

    def same_environment(self, environment):
        """softhca-run sets the same variables; those that hold paths alone differ."""
        out = subprocess.run(["env", "-i", self.build / "cli/softhca-run", "--runtime-dir", self.daemon.run,
                              "--tenant", "pod-small-0", "/usr/bin/env"], check=True, stdout=subprocess.PIPE, text=True)
        names = {line.partition("=")[0] for line in out.stdout.splitlines()}
        expect(names == set(environment), f"softhca-run sets {names}, the plugin {set(environment)}")

    def cdi(self):
        """The daemon's file of the Container Device Interface; none: no file."""
        file = self.daemon.run / "cdi.json"
        return json.loads(file.read_text()) if file.exists() else None

    def cdi_names(self):
        return [device["name"] for device in (self.cdi() or {"devices": []})["devices"]]

    def step_cdi(self):
        """The same tenants by that file."""
        jsonschema.validate(self.cdi(), CDI_SCHEMA)
        expect(self.cdi_names() == ["pod-small-0", "pod-small-1"], f"devices: {self.cdi()}")
        self.talk(self.container(of_cdi(self.cdi(), "pod-small-0")), self.two)

    def step_watched_configuration(self):
        """A changed file comes into force, and the tenants of it appear."""
        before = self.daemon.config.read_text()
        self.daemon.config.write_text(before + '[[tenant]]\nname = "more"\naddresses = ["198.18.3.1"]\n')
        eventually(lambda: "more" in self.daemon.tenants(), "a changed configuration is not in force")
        expect("more" in self.cdi_names(), f"devices: {self.cdi_names()}")
        self.daemon.config.write_text(before)
        eventually(lambda: "more" not in self.daemon.tenants(), "a configuration that was changed back is not in force")
        expect(self.cdi_names() == ["pod-small-0", "pod-small-1"], f"devices: {self.cdi_names()}")

    def step_bad_requests(self):
        before = self.daemon.tenants()
        wrong = grpc.StatusCode.INVALID_ARGUMENT
        refused(wrong, ["there is no device 'pod-small-4'"], self.kubelet.allocate, SMALL, ["pod-small-4"])
        refused(wrong, ["there is no device 'pod-large-0'"], self.kubelet.allocate, SMALL, ["pod-large-0"])
        refused(wrong, ["there is no device '../../etc'"], self.kubelet.allocate, SMALL, ["../../etc"])
        refused(wrong, ["a container gets 1 device of it, not 2"], self.kubelet.allocate, SMALL,
                ["pod-small-2", "pod-small-3"])
        refused(wrong, ["not 0"], self.kubelet.allocate, SMALL, [])
        refused(wrong, ["not 0"], self.kubelet.allocate, SMALL, ["pod-small-2"], [])
        refused(grpc.StatusCode.FAILED_PRECONDITION, ["template", "absent"], self.kubelet.allocate, ABSENT,
                ["pod-absent-0"])
        expect(self.daemon.tenants() == before, f"tenants: {self.daemon.tenants()}")

    def step_quota(self):
        self.kubelet.run_pod("large", LARGE, "pod-large-0")
        before = self.daemon.tenants()
        refused(grpc.StatusCode.RESOURCE_EXHAUSTED, [LARGE, "500 more", "pcbs"], self.kubelet.allocate, LARGE,
                ["pod-large-1"])
        # Of two containers in a request the first would fit.
        refused(grpc.StatusCode.RESOURCE_EXHAUSTED, [SMALL, "75 more", "pcbs"], self.kubelet.allocate, SMALL,
                ["pod-small-2"], ["pod-small-3"])
        expect(self.daemon.tenants() == before, f"tenants: {self.daemon.tenants()}")
        expect(self.folders() == sorted(before), f"folders: {self.folders()}")

    def step_pod_ends(self):
        waiting = self.two.start("ibv_rc_pingpong", "-g", "0", "-p", "19777")
        eventually(lambda: self.daemon.ask("tenant", "show", "pod-small-1")["sessions"] == 1, "no session")
        del self.kubelet.pods["pod1"]
        time.sleep(LOOKS_S)
        expect(waiting.poll() is None and "pod-small-1" in self.daemon.tenants(), "removed while a program uses it")
        self.two.end()
        waiting.communicate(timeout=60)
        eventually(lambda: "pod-small-1" not in self.daemon.tenants(), "the tenant of a pod that ended stays")
        eventually(lambda: self.folders() == ["pod-large-0", "pod-small-0"], f"folders: {self.folders()}")

    def step_initializing_container(self):
        self.kubelet.allocate(SMALL, ["pod-small-2"])
        made = self.daemon.created()
        answer = self.kubelet.run_pod("pod2", SMALL, "pod-small-2")
        expect(self.daemon.created() == made, "made anew for the container after the initializing one")
        self.talk(self.container(answer), self.one)
        # The kubelet has given it to another pod before the plugin has seen that the first is gone.
        self.kubelet.run_pod("pod2", SMALL, "pod-small-2")
        expect(self.daemon.created() == made + 1, "another container has the tenant of the one before")
        del self.kubelet.pods["pod2"]
        eventually(lambda: "pod-small-2" not in self.daemon.tenants(), "the tenant of a pod that ended stays")
        # One that it never lists keeps its tenant as long as its program runs. (Time goes by in any case: twice
        # what may pass before a container is listed.)
        container = self.container(self.kubelet.allocate(SMALL, ["pod-small-2"])[0])
        waiting = container.start("ibv_rc_pingpong", "-g", "0", "-p", "19778")
        eventually(lambda: self.daemon.ask("tenant", "show", "pod-small-2")["sessions"] == 1, "no session")
        time.sleep(2 * GRACE_S)
        expect(waiting.poll() is None and "pod-small-2" in self.daemon.tenants(), "removed while a program uses it")
        container.end()
        waiting.communicate(timeout=60)
        eventually(lambda: "pod-small-2" not in self.daemon.tenants(), "the tenant of a pod that was never listed stays")
        # One that ran, and was not listed, and the next.
        code, output = self.container(self.kubelet.allocate(SMALL, ["pod-small-2"])[0]).run("ibv_devinfo")
        expect(code == 0 and "PORT_ACTIVE" in output, f"ibv_devinfo: {output}")
        made = self.daemon.created()
        self.kubelet.allocate(SMALL, ["pod-small-2"])
        expect(self.daemon.created() == made + 1, "another container has the tenant of the one before")
        eventually(lambda: "pod-small-2" not in self.daemon.tenants(), "the tenant of a pod that was never listed stays")

    def step_kubelet_restarts(self):
        watch = Watch(self.kubelet, SMALL)
        eventually(lambda: watch.devices, "no devices")
        self.kubelet.stop()
        self.kubelet.start()
        eventually(self.registered, "not registered again")
        eventually(lambda: watch.ended, "the former stream goes on")
        watch.close()
        again = Watch(self.kubelet, SMALL)
        eventually(lambda: len(again.devices) == 4, "no devices")
        again.close()
        # It does not know its pods yet.
        made, pods = self.daemon.created(), dict(self.kubelet.pods)
        self.kubelet.stop()
        self.kubelet.pods.clear()
        self.kubelet.start()
        eventually(self.registered, "not registered again")
        time.sleep(LOOKS_S)
        self.kubelet.pods.update(pods)
        expect(set(self.daemon.tenants()) == {"pod-small-0", "pod-large-0"}, f"tenants: {self.daemon.tenants()}")
        expect(self.daemon.created() == made, "made anew although the kubelet had only just begun")

    def step_kubelet_goes_in_a_call(self):
        self.daemon.freeze(signal.SIGSTOP)
        refused(grpc.StatusCode.DEADLINE_EXCEEDED, [], self.kubelet.allocate, SMALL, ["pod-small-3"], timeout=1)
        self.daemon.freeze(signal.SIGCONT)
        eventually(lambda: self.plugin.says("pod-small-3: made"), "not made")
        eventually(lambda: self.plugin.says("pod-small-3: removed, no container uses it"), "a tenant of no pod stays")
        expect("pod-small-3" not in self.daemon.tenants(), "removed, and there")

    def step_no_list_of_pods(self):
        before = self.plugin.times("does not list its pods")
        self.kubelet.stop(self.kubelet.pods_folder)
        del self.kubelet.pods["large"]
        eventually(lambda: self.plugin.times("does not list its pods") > before,
                   "nothing of a kubelet that does not answer")
        time.sleep(LOOKS_S)
        expect("pod-large-0" in self.daemon.tenants(), "removed without knowing")
        self.kubelet.pods["large"] = LARGE, "pod-large-0"
        self.kubelet.stop()
        self.kubelet.start()
        eventually(self.registered, "not registered again")

    def step_daemon_restarts(self):
        before = self.daemon.tenants()
        answer = self.kubelet.run_pod("pod1", SMALL, "pod-small-1")
        self.two = self.container(answer)
        for how in (signal.SIGTERM, signal.SIGKILL):
            watch = Watch(self.kubelet, SMALL)
            eventually(lambda: "Healthy" in watch.devices.values(), "unhealthy with a daemon")
            self.daemon.stop(how)
            expect((self.cdi() is None) == (how == signal.SIGTERM), f"after {how} there is: {self.cdi()}")
            eventually(lambda: set(watch.devices.values()) == {"Unhealthy"}, "healthy without a daemon")
            refused(grpc.StatusCode.UNAVAILABLE, ["softhcad does not answer"], self.kubelet.allocate, SMALL,
                    ["pod-small-3"])
            self.daemon.start()
            eventually(lambda: set(watch.devices.values()) == {"Healthy"}, "unhealthy with a daemon")
            watch.close()
            expect(before.items() <= self.daemon.tenants().items(), f"{before}, after it {self.daemon.tenants()}")
            # Containers that run all the time open the device again.
            self.talk(self.one, self.two)
        mark = self.daemon.run / "pod-small-0" / "in-a-pod"
        mark.unlink()
        eventually(mark.exists, "the folder of a container is not kept")
        self.daemon.stop()
        (self.daemon.state / "saved.json").unlink()
        self.daemon.start()
        eventually(lambda: set(self.daemon.tenants()) == {"pod-small-0", "pod-small-1", "pod-large-0"},
                   "tenants that the daemon has lost are not made anew")
        self.talk(self.one, self.two)

    def step_plugin_restarts(self):
        before = self.daemon.tenants()
        self.plugin.stop()
        expect(not list((self.folder / "kubelet/device-plugins").glob("softhca*")), "sockets stay")
        self.kubelet.registered.clear()
        # Its next look is after the test: room is found as it is asked for.
        self.plugin.start(interval="3600")
        eventually(self.registered, "not registered again")
        expect(self.daemon.tenants() == before, f"tenants: {self.daemon.tenants()}")
        self.talk(self.one, self.two)
        del self.kubelet.pods["large"]
        self.kubelet.run_pod("large2", LARGE, "pod-large-1")
        expect(set(self.daemon.tenants()) == {"pod-small-0", "pod-small-1", "pod-large-1"}, "the room of a pod that ended")
        self.plugin.stop()

    def step_all_end(self):
        self.plugin.start()
        self.kubelet.registered.clear()
        eventually(self.registered, "not registered again")
        self.kubelet.pods.clear()
        eventually(lambda: not self.daemon.tenants() and not self.folders(),
                   f"what is left: {self.daemon.tenants()} {self.folders()}")
        self.plugin.stop()
        self.daemon.stop()
        expect(not self.plugin.says("Traceback"), self.plugin.log.read_text())

    def run(self):
        for name, step in vars(Test).items():
            if name.startswith("step_"):
                began = time.monotonic()
                step(self)
                print(f"{name[len('step_'):].replace('_', ' ')}: {time.monotonic() - began:.1f} s", flush=True)

    def end(self):
        self.kubelet.stop()
        for container in self.containers:
            container.end()
        for each in (self.plugin, self.daemon):
            if getattr(each, "process", None) and each.process.poll() is None:
                each.process.kill()
                each.process.wait()


def main():
    test = Test(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    try:
        test.run()
    except BaseException:
        print(test.plugin.log.read_text()[-8000:], file=sys.stderr)
        raise
    finally:
        test.end()


main()

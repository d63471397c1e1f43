"""A container as a runtime would make it of what a device plugin answers: namespaces of its own, with the
mounts and the environment of the answer and nothing else of the daemon. Needs root."""
import shlex
import subprocess
import types

USER = 65534  # nobody


def of_cdi(specification, name):
    """What a file of the Container Device Interface gives a container with one of its devices, in the form
    of an answer."""
    device = next(each for each in specification["devices"] if each["name"] == name)
    edits = specification["containerEdits"], device["containerEdits"]
    return types.SimpleNamespace(
        envs=dict(variable.split("=", 1) for each in edits for variable in each.get("env", [])),
        mounts=[types.SimpleNamespace(host_path=mount["hostPath"], container_path=mount["containerPath"],
                                      read_only="ro" in mount["options"])
                for each in edits for mount in each["mounts"]])


def mount_script(mounts):
    lines = ["set -e", "mount -t tmpfs tmpfs /mnt"]
    for number, mount in enumerate(mounts):
        host, kept = shlex.quote(mount.host_path), f"/mnt/{number}"
        lines.append(f"if [ -d {host} ]; then mkdir {kept}; else touch {kept}; fi; mount --bind {host} {kept}")
    # What the host has there is not to be seen.
    lines += ["mount -t tmpfs tmpfs /run", "mount -t tmpfs tmpfs /opt"]
    for number, mount in enumerate(mounts):
        inside, kept = shlex.quote(mount.container_path), f"/mnt/{number}"
        lines.append(f"mkdir -p $(dirname {inside}); if [ -d {kept} ]; then mkdir {inside}; else touch {inside}; fi")
        lines.append(f"mount --move {kept} {inside}")
        if mount.read_only:
            lines.append(f"mount -o remount,bind,ro {inside}")
    return "\n".join([*lines, "umount /mnt", "echo ready", "exec sleep infinity"])


class Container:
    def __init__(self, answer):
        self._environment = dict(answer.envs)
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc",
             "--ipc", "--uts", "sh", "-c", mount_script(answer.mounts)], stdout=subprocess.PIPE, text=True)
        if self._holder.stdout.readline() != "ready\n":
            raise RuntimeError("no container")
        with open(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children", encoding="ascii") as children:
            self._init = children.read().split()[0]

    def start(self, *command, root=False):
        """Runs a program in it, by default as nobody."""
        drop = [] if root else ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
        enter = ["nsenter", "--target", self._init, "--mount", "--pid", "--ipc", "--uts", "--", *drop]
        environment = ["env", "-i", "PATH=/usr/bin:/bin", *(f"{k}={v}" for k, v in self._environment.items())]
        return subprocess.Popen([*enter, *environment, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def run(self, *command, root=False):
        """Exit code and output."""
        process = self.start(*command, root=root)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def end(self):
        self._holder.kill()
        self._holder.wait()

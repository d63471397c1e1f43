"""A fake kubelet with the paths of a node: gives two pods a tenant each when the device plugin has
registered. Run by tests/containers/run.

usage: node.py FOLDER    writes options of podman for the two, FOLDER/server and FOLDER/client, and FOLDER/ready;
                         lists them until there is FOLDER/end"""
import pathlib
import sys
import time

from fake_kubelet import FakeKubelet

KUBELET = pathlib.Path("/var/lib/kubelet")


def wait(condition):
    while not condition():
        time.sleep(0.05)


def options(answer):
    return "".join(f"{line}\n" for line in (
        *(f"--env={name}={value}" for name, value in answer.envs.items()),
        *(f"--volume={mount.host_path}:{mount.container_path}:{'ro' if mount.read_only else 'rw'}"
          for mount in answer.mounts)))


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in ("device-plugins", "pod-resources"):
        (KUBELET / name).mkdir(parents=True, mode=0o750)
    kubelet = FakeKubelet(KUBELET)
    kubelet.start()
    wait(lambda: "softhca.io/small" in kubelet.registered)
    for number, name in enumerate(("server", "client")):
        (folder / name).write_text(options(kubelet.run_pod(name, "softhca.io/small", f"pod-small-{number}")))
    (folder / "ready").touch()
    wait((folder / "end").exists)
    kubelet.pods.clear()
    wait(lambda: False)  # until it is ended


main()

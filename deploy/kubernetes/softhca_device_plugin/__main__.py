"""The device plugin: registers a resource for each template, and looks after tenants and kubelet."""
import argparse
import logging
import os
import pathlib
import re
import signal
import sys
import threading
import time

import grpc

import podresources_pb2 as pods_api
import podresources_pb2_grpc as pods_grpc

from .admin import AdminSocket, Refused, Unreachable
from .once import Once
from .resource import CALL_S, DOMAIN, Resource
from .tenants import PREFIX, Tenants, name_of

# What Kubernetes lets stand behind the slash of a resource.
TEMPLATE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")
LONGEST_TENANT = 32

log = logging.getLogger("softhca.plugin")


def resource(text):
    """("small", 8) of "small=8"."""
    template, _, count = text.partition("=")
    if not TEMPLATE.fullmatch(template) or not re.fullmatch("[1-9][0-9]{0,3}", count):
        raise argparse.ArgumentTypeError(f"{text!r} is not TEMPLATE=COUNT, such as small=8; COUNT is 1 to 9999")
    if len(name_of(template, int(count) - 1)) > LONGEST_TENANT:
        raise argparse.ArgumentTypeError(f"{template!r} is too long: the names of its tenants have at most {LONGEST_TENANT} letters")
    return template, int(count)


def parse():
    parser = argparse.ArgumentParser(prog="softhca-device-plugin", description=__doc__)
    parser.add_argument("--resource", type=resource, action="append", required=True, metavar="TEMPLATE=COUNT",
                        help="offers COUNT devices softhca.io/TEMPLATE on this node; each is a tenant made of the template. "
                             "May be repeated")
    parser.add_argument("--runtime-dir", default="/run/softhca", metavar="DIR",
                        help="runtime directory of the daemon, as a path of the host (%(default)s)")
    parser.add_argument("--kubelet-dir", type=pathlib.Path, default="/var/lib/kubelet", metavar="DIR",
                        help="folder of the kubelet, with device-plugins/ and pod-resources/ (%(default)s)")
    parser.add_argument("--interval", type=float, default=1, metavar="SECONDS",
                        help="seconds between two checks of kubelet and daemon (%(default)s)")
    parser.add_argument("--grace", type=float, default=60, metavar="SECONDS",
                        help="seconds that the kubelet may take to list a container that was given a tenant (%(default)s)")
    options = parser.parse_args()
    templates = [template for template, _ in options.resource]
    if len(set(templates)) < len(templates):
        parser.error("a template is named twice; give one --resource for each template")
    options.runtime_dir = os.path.abspath(options.runtime_dir)
    options.kubelet_dir = options.kubelet_dir.absolute()
    if not (options.kubelet_dir / "device-plugins").is_dir():
        parser.error(f"there is no {options.kubelet_dir}/device-plugins; check that a kubelet runs on this node, or name its folder with --kubelet-dir")
    return options


class Plugin:
    def __init__(self, options):
        self._options = options
        self._daemon = AdminSocket(f"{options.runtime_dir}/admin.sock")
        self._tenants = Tenants(self._daemon, options.runtime_dir, options.grace)
        self._resources = [Resource(template, count, self._tenants, options.runtime_dir, self.reconcile)
                           for template, count in options.resource]
        self._once = Once(log)
        self._lister = None

    def look(self):
        try:
            self._daemon.call("status")
            healthy = True
            self._once.forget("daemon")
        except (Unreachable, Refused) as error:
            self._once.say("daemon", str(error))
            healthy = False
        for each in self._resources:
            each.set_health(healthy)
            each.keep_registered(self._options.kubelet_dir / "device-plugins")
        if healthy:
            self.reconcile()

    def reconcile(self):
        """Without the kubelet's list nobody knows who has ended: everything stays then."""
        try:
            as_of = time.monotonic()
            lister, self._lister = self._lister, self._identity_of_lister()
            self._tenants.reconcile(self._in_use(), as_of, lister != self._lister)
            self._once.forget("kubelet")
        except grpc.RpcError as error:
            self._once.say("kubelet", f"does not list its pods: {error.details()}")
        except (Unreachable, Refused, OSError) as error:
            self._once.say("daemon", str(error))

    def stop(self):
        for each in self._resources:
            each.stop()

    @property
    def _lister_socket(self):
        return self._options.kubelet_dir / "pod-resources" / "kubelet.sock"

    def _identity_of_lister(self):
        """A kubelet that has begun anew has made its socket anew."""
        try:
            status = self._lister_socket.stat()
        except OSError:
            return None
        return status.st_ino, status.st_ctime_ns

    def _in_use(self):
        """By device, "namespace/pod/container". Resources that are not offered any more count, too."""
        with grpc.insecure_channel(f"unix://{self._lister_socket}") as channel:
            pods = pods_grpc.PodResourcesListerStub(channel).List(pods_api.ListPodResourcesRequest(), timeout=CALL_S)
        return {device: f"{pod.namespace}/{pod.name}/{container.name}"
                for pod in pods.pod_resources for container in pod.containers
                for devices in container.devices if devices.resource_name.startswith(f"{DOMAIN}/")
                for device in devices.device_ids if device.startswith(PREFIX)}


def main():
    options = parse()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    plugin = Plugin(options)
    while not stopping.is_set():
        plugin.look()
        stopping.wait(options.interval)
    plugin.stop()


if __name__ == "__main__":
    main()

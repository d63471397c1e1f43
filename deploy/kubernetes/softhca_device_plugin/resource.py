"""One resource, softhca.io/TEMPLATE: its devices are the tenants there may be of the template. Serves the
device plugin API of the kubelet on a socket of its own, and registers there."""
import concurrent.futures
import logging
import threading

import grpc

import deviceplugin_pb2 as api
import deviceplugin_pb2_grpc as api_grpc

from . import cdi
from .admin import NO_SUCH_THING, NOT_FREE, Refused, Unreachable
from .once import Once
from .tenants import name_of

DOMAIN = "softhca.io"
VERSION = "v1beta1"
CALL_S = 10

log = logging.getLogger("softhca.resource")


class Resource(api_grpc.DevicePluginServicer):
    def __init__(self, template, count, tenants, runtime_dir, make_room):
        """`runtime_dir`: of the daemon, as a path of the host. `make_room`: what to do before a second try
        where a tenant did not fit."""
        self.name = f"{DOMAIN}/{template}"
        self._devices = [name_of(template, number) for number in range(count)]
        self._tenants = tenants
        self._runtime_dir = runtime_dir
        self._make_room = make_room
        self._healthy = False
        self._changed = threading.Condition()
        self._once = Once(log)
        self._server = None
        self._stopped = True
        self._served_at = None   # (device, inode) of the socket
        self._registered = None  # of the kubelet's

    # What the kubelet calls.

    def GetDevicePluginOptions(self, request, context):
        return api.DevicePluginOptions()

    def ListAndWatch(self, request, context):
        def wake():
            with self._changed:
                self._changed.notify_all()

        context.add_callback(wake)
        said = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or not context.is_active() or self._healthy != said)
                if self._stopped or not context.is_active():
                    return
                said = self._healthy
            health = "Healthy" if said else "Unhealthy"
            yield api.ListAndWatchResponse(devices=[api.Device(ID=name, health=health) for name in self._devices])

    def Allocate(self, request, context):
        for container in request.container_requests:
            self._check(container.devices_ids, context)
        given = []
        try:
            responses = []
            for container in request.container_requests:
                name = container.devices_ids[0]
                self._give(name)
                given.append(name)
                responses.append(self._response(name))
            return api.AllocateResponse(container_responses=responses)
        except (Refused, Unreachable, OSError, cdi.NotThere) as error:
            self._take_back(given)
            self._abort(context, *self._reason(error))

    def _check(self, devices, context):
        for device in devices:
            if device not in self._devices:
                self._abort(context, grpc.StatusCode.INVALID_ARGUMENT, f"there is no device {device!r}")
        if len(devices) != 1:
            self._abort(context, grpc.StatusCode.INVALID_ARGUMENT,
                        f"a container gets 1 device of it, not {len(devices)}: its programs belong to one tenant")

    def _give(self, name):
        try:
            self._tenants.give(name)
        except Refused as error:
            if error.code != NOT_FREE:
                raise
            # A pod may have ended since the last look.
            self._make_room()
            self._tenants.give(name)

    def _take_back(self, names):
        for name in names:
            try:
                self._tenants.take_back(name)
            except (Refused, Unreachable, OSError) as error:
                log.warning("%s: tenant %s is not removed; the next check tries again: %s", self.name, name, error)

    def _response(self, name):
        edits = cdi.edits_of(name, self._runtime_dir)
        return api.ContainerAllocateResponse(
            envs=edits.environment,
            mounts=[api.Mount(container_path=mount.container_path, host_path=mount.host_path, read_only=True)
                    for mount in edits.mounts])

    @staticmethod
    def _reason(error):
        if isinstance(error, Unreachable):
            return grpc.StatusCode.UNAVAILABLE, str(error)
        if isinstance(error, Refused) and error.code == NOT_FREE:
            return grpc.StatusCode.RESOURCE_EXHAUSTED, f"the daemon has no room for a tenant: {error}"
        if isinstance(error, Refused) and error.code == NO_SUCH_THING:
            return grpc.StatusCode.FAILED_PRECONDITION, f"the daemon's configuration lacks the template: {error}"
        return grpc.StatusCode.FAILED_PRECONDITION, str(error)

    def _abort(self, context, code, text):
        log.warning("%s: refused: %s", self.name, text)
        context.abort(code, f"{self.name}: {text}")

    # What the plugin's own loop calls.

    def set_health(self, healthy):
        with self._changed:
            if healthy != self._healthy:
                log.info("%s: %s", self.name, "healthy" if healthy else "unhealthy")
            self._healthy = healthy
            self._changed.notify_all()

    def keep_registered(self, folder):
        """Serves and registers, if the kubelet does not know of it: it has started, and emptied the folder."""
        kubelet = identity(folder / "kubelet.sock")
        if kubelet is None or (kubelet == self._registered and identity(self._socket(folder)) == self._served_at):
            return
        self.stop()
        try:
            self._serve(folder)
        except (OSError, RuntimeError) as error:
            self._once.say(self.name, f"cannot serve in {folder}: {error}")
            return
        request = api.RegisterRequest(version=VERSION, endpoint=self._socket(folder).name, resource_name=self.name,
                                      options=api.DevicePluginOptions())
        try:
            with grpc.insecure_channel(f"unix://{folder / 'kubelet.sock'}") as channel:
                api_grpc.RegistrationStub(channel).Register(request, timeout=CALL_S)
        except grpc.RpcError as error:
            self._once.say(self.name, f"the kubelet does not register it: {error.details()}")
            return
        self._registered = kubelet
        self._once.forget(self.name)
        log.info("%s: registered, %d devices", self.name, len(self._devices))

    def stop(self):
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._server is not None:
            self._server.stop(grace=None).wait()
        self._server = self._registered = self._served_at = None

    def _serve(self, folder):
        path = self._socket(folder)
        path.unlink(missing_ok=True)
        self._stopped = False
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=8))
        api_grpc.add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{path}")
        self._server.start()
        self._served_at = identity(path)

    def _socket(self, folder):
        return folder / (self.name.replace("/", "_") + ".sock")


def identity(path):
    """Tells a file from one of the same name before or after it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns

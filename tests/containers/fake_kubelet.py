"""A kubelet as far as a device plugin sees it: takes registrations, lists pods with their devices, and
calls the plugins that have registered."""
import concurrent.futures
import threading

import grpc

import deviceplugin_pb2 as api
import deviceplugin_pb2_grpc as api_grpc
import podresources_pb2 as pods_api
import podresources_pb2_grpc as pods_grpc


class FakeKubelet(api_grpc.RegistrationServicer, pods_grpc.PodResourcesListerServicer):
    def __init__(self, folder):
        self.plugins_folder = folder / "device-plugins"
        self.pods_folder = folder / "pod-resources"
        self.pods = {}  # by name: (resource, device)
        self.registered = {}  # by resource: path of the plugin's socket
        self.refuse = ""  # why registrations are refused
        self._servers = []
        self._lock = threading.Lock()

    def start(self):
        """As a kubelet does that starts: what lies in its folder of plugins goes."""
        self.registered = {}
        for path in self.plugins_folder.iterdir():
            path.unlink()
        self._serve(self.pods_folder, pods_grpc.add_PodResourcesListerServicer_to_server)
        self._serve(self.plugins_folder, api_grpc.add_RegistrationServicer_to_server)

    def stop(self, folder=None):
        """All of it, or what it serves in one folder."""
        for server, path in self._servers:
            if folder in (None, path.parent):
                server.stop(grace=None).wait()
                path.unlink(missing_ok=True)
        self._servers = [each for each in self._servers if folder not in (None, each[1].parent)]

    def _serve(self, folder, add):
        path = folder / "kubelet.sock"
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
        add(self, server)
        server.add_insecure_port(f"unix://{path}")
        server.start()
        self._servers.append((server, path))

    # What plugins call.

    def Register(self, request, context):
        if request.version != "v1beta1":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"version {request.version}")
        if self.refuse:
            context.abort(grpc.StatusCode.INTERNAL, self.refuse)
        path = self.plugins_folder / request.endpoint
        # It is called back before it has its answer.
        with grpc.insecure_channel(f"unix://{path}") as channel:
            api_grpc.DevicePluginStub(channel).GetDevicePluginOptions(api.Empty(), timeout=10)
        with self._lock:
            self.registered[request.resource_name] = path
        return api.Empty()

    def List(self, request, context):
        return pods_api.ListPodResourcesResponse(pod_resources=[
            pods_api.PodResources(name=pod, namespace="default", containers=[
                pods_api.ContainerResources(name="main", devices=[
                    pods_api.ContainerDevices(resource_name=resource, device_ids=[device])])])
            for pod, (resource, device) in dict(self.pods).items()])

    # What it calls.

    def channel(self, resource):
        return grpc.insecure_channel(f"unix://{self.registered[resource]}")

    def allocate(self, resource, *containers, timeout=60):
        """The answers for containers, each a list of devices."""
        with self.channel(resource) as channel:
            request = api.AllocateRequest(container_requests=[
                api.ContainerAllocateRequest(devices_ids=devices) for devices in containers])
            return api_grpc.DevicePluginStub(channel).Allocate(request, timeout=timeout).container_responses

    def run_pod(self, pod, resource, device):
        """Admits a pod with one container, and lists it from then on."""
        answer = self.allocate(resource, [device])[0]
        self.pods[pod] = resource, device
        return answer


class Watch:
    """Follows the devices of a resource."""

    def __init__(self, kubelet, resource):
        self.devices = {}
        self.ended = False
        self._channel = kubelet.channel(resource)
        self._stream = api_grpc.DevicePluginStub(self._channel).ListAndWatch(api.Empty())
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self):
        try:
            for answer in self._stream:
                self.devices = {device.ID: device.health for device in answer.devices}
        except grpc.RpcError:
            pass
        self.ended = True

    def close(self):
        self._stream.cancel()
        self._channel.close()

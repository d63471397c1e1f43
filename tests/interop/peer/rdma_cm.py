"""librdmacm as the connection checks need it: identifiers without queue pairs, and events."""

import ctypes
import os
import socket
import struct

from channel import expect

TCP = 0x106
RESOLVE_MS = 10000
EVENTS = ["ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE",
          "CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL",
          "MULTICAST_JOIN", "MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT"]


class Parameters(ctypes.Structure):
    """struct rdma_conn_param"""

    _fields_ = [("private_data", ctypes.c_void_p), ("private_data_len", ctypes.c_uint8),
                ("responder_resources", ctypes.c_uint8), ("initiator_depth", ctypes.c_uint8),
                ("flow_control", ctypes.c_uint8), ("retry_count", ctypes.c_uint8),
                ("rnr_retry_count", ctypes.c_uint8), ("srq", ctypes.c_uint8), ("qp_num", ctypes.c_uint32)]


class RawEvent(ctypes.Structure):
    """struct rdma_cm_event; of the union only what connections have"""

    _fields_ = [("id", ctypes.c_void_p), ("listen_id", ctypes.c_void_p), ("event", ctypes.c_int),
                ("status", ctypes.c_int), ("conn", Parameters)]


def load():
    library = ctypes.CDLL("librdmacm.so.1", use_errno=True)
    library.rdma_create_event_channel.restype = ctypes.c_void_p
    pointer, number = ctypes.c_void_p, ctypes.c_int
    for name, arguments in {
            "create_id": [pointer, pointer, pointer, number], "bind_addr": [pointer, pointer],
            "listen": [pointer, number], "resolve_addr": [pointer, pointer, pointer, number],
            "resolve_route": [pointer, number], "connect": [pointer, pointer], "accept": [pointer, pointer],
            "establish": [pointer], "reject": [pointer, pointer, ctypes.c_uint8], "disconnect": [pointer],
            "get_cm_event": [pointer, pointer], "ack_cm_event": [pointer], "destroy_id": [pointer]}.items():
        getattr(library, "rdma_" + name).argtypes = arguments
    return library


def socket_address(address, port):
    """struct sockaddr_in or sockaddr_in6"""
    if ":" in address:
        return struct.pack("=H", socket.AF_INET6) + struct.pack(">HI", port, 0) + socket.inet_pton(
            socket.AF_INET6, address) + bytes(4)
    return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(address) + bytes(8)


class Event:
    def __init__(self, raw):
        self.name, self.status, self.id = EVENTS[raw.event], raw.status, raw.id
        parameters = raw.conn
        self.private_data = ctypes.string_at(parameters.private_data, parameters.private_data_len)
        self.resources, self.depth = parameters.responder_resources, parameters.initiator_depth
        self.retries, self.rnr_retries = parameters.retry_count, parameters.rnr_retry_count


class Connections:
    """An event channel and what is done with identifiers on it."""

    def __init__(self):
        self.library = load()
        self.channel = self.library.rdma_create_event_channel()
        if not self.channel:
            raise SystemExit("no event channel")

    def call(self, name, *arguments):
        if getattr(self.library, "rdma_" + name)(*arguments):
            raise SystemExit(f"rdma_{name}: {os.strerror(ctypes.get_errno())}")

    def make(self):
        identifier = ctypes.c_void_p()
        self.call("create_id", self.channel, ctypes.byref(identifier), None, TCP)
        return identifier.value

    def listen(self, address, port):
        identifier = self.make()
        self.call("bind_addr", identifier, socket_address(address, port))
        self.call("listen", identifier, 0)
        return identifier

    def resolve(self, address, port):
        identifier = self.make()
        self.call("resolve_addr", identifier, None, socket_address(address, port), RESOLVE_MS)
        self.wait_for("ADDR_RESOLVED")
        self.call("resolve_route", identifier, RESOLVE_MS)
        self.wait_for("ROUTE_RESOLVED")
        return identifier

    def with_parameters(self, name, identifier, private_data, **others):
        """connect or accept"""
        kept = ctypes.create_string_buffer(private_data, len(private_data))
        parameters = Parameters(ctypes.cast(kept, ctypes.c_void_p).value, len(private_data), **others)
        self.call(name, identifier, ctypes.byref(parameters))

    def wait(self):
        raw = ctypes.POINTER(RawEvent)()
        self.call("get_cm_event", self.channel, ctypes.byref(raw))
        event = Event(raw.contents)
        self.call("ack_cm_event", raw)
        print(event.name, event.status, flush=True)
        return event

    def wait_for(self, name, status=0):
        event = self.wait()
        expect("event", (event.name, event.status), (name, status))
        return event

"""A client of softhcad's admin socket (docs/admin-socket.md)."""
import json
import socket

NOT_FREE = 1
NO_SUCH_THING = 2
LONGEST_ANSWER = 4 << 20


class Unreachable(Exception):
    """No daemon answers."""


class Refused(Exception):
    """The daemon does not do what was asked."""

    def __init__(self, error):
        super().__init__(error.get("message", "refused"))
        self.code = error.get("code")
        data = error.get("data")
        self.resource = data.get("resource") if isinstance(data, dict) else None


class AdminSocket:
    def __init__(self, path, timeout_s=10):
        self._path = path
        self._timeout_s = timeout_s

    def call(self, method, **parameters):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        try:
            answer = json.loads(self._exchange(json.dumps(request).encode() + b"\n"))
        except (OSError, ValueError) as error:
            raise Unreachable(f"softhcad does not answer at {self._path}: {error}") from error
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def _exchange(self, request):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(self._timeout_s)
            connection.connect(self._path)
            connection.sendall(request)
            answer = bytearray()
            while not answer.endswith(b"\n"):
                piece = connection.recv(1 << 16)
                if not piece:
                    raise OSError("the connection ended")
                answer += piece
                if len(answer) > LONGEST_ANSWER:
                    raise OSError("the answer is too long")
            return answer

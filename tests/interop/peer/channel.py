"""What two ends tell each other, and the data they check."""

import json
import random
import socket

PATIENCE = 60  # seconds


def pattern(seed, size):
    return random.Random(seed).randbytes(size)


def expect(what, found, wanted):
    if found != wanted:
        if isinstance(found, bytes) and len(found) == len(wanted):
            at = next(i for i in range(len(found)) if found[i] != wanted[i])
            raise SystemExit(f"{what}: byte {at} of {len(found)} is the first that differs")
        raise SystemExit(f"{what}: {found!r} instead of {wanted!r}")


class Channel:
    """JSON lines over TCP."""

    def __init__(self, options):
        if options.role == "serve":
            listener = socket.create_server(("", options.port))
            connection, _ = listener.accept()
        else:
            connection = socket.create_connection((options.host, options.port), timeout=PATIENCE)
        connection.settimeout(2 * PATIENCE)
        self.file_in, self.file_out = connection.makefile("r"), connection.makefile("w")

    def tell(self, value):
        self.file_out.write(json.dumps(value) + "\n")
        self.file_out.flush()

    def hear(self):
        line = self.file_in.readline()
        if not line:
            raise SystemExit("the other end is gone")
        return json.loads(line)

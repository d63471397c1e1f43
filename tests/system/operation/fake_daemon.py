"""A socket with prepared answers in place of the daemon's admin socket."""
import json
import os
import socket
import threading


def serve(path, answers):
    """Makes the socket. Its connection gets these answers to its requests, and is closed then."""
    if os.path.exists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def answer():
        with listener, listener.accept()[0] as connection:
            requests = connection.makefile()
            for text in answers:
                if requests.readline():
                    connection.sendall(text.encode() + b"\n")
            requests.readline()

    threading.Thread(target=answer, daemon=True).start()
    return path


def reply(result, number=1):
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result})

#!/usr/bin/env python3
"""Checks that every source file keeps to its layer.

  - A layer includes only the layers named for it below, and
    names nothing of any other: what comes by a header of a third layer is used all the same.
  - Project headers are included by their path from the root, and exist.
  - Only daemon/port/dpdk names DPDK (rte_).
  - Only daemon/tenant_memory names the structures that lie in tenant memory.
  - Below daemon/engine nothing reads a clock.
  - What the control thread owns of a tenant is not named in daemon/engine.
  - Control code reaches the engine only by daemon/engine/requests and daemon/engine/view.hpp.
  - daemon/device and daemon/services name no socket, pidfd or passed descriptor: a process reaches
    them by a front end.

Usage: check_layers.py [ROOT]     exit code 1 and one line per violation
       check_layers.py --self-test
"""

import pathlib
import re
import sys
import tempfile

# Folders below daemon/ that are a layer each, with those that it may include.
LAYERS = {
    "base": (),
    "live_records": ("base",),
    "roce/wire": ("base",),
    "roce/neighbour": ("base", "roce/wire"),
    "tenant_memory": ("base", "abi"),
    "qos/pools": ("base",),
    "qos/collect": ("base", "qos/pools", "abi"),
    "qos/schedule": ("base", "qos/pools", "qos/collect"),
    "roce/transport": ("base", "roce/wire"),
    "qos/receive": ("base", "tenant_memory"),
    "qos/gsa": ("base",),
    "roce/cm": ("base", "live_records", "roce/wire"),
    "roce/rdma_cm": ("base", "live_records", "roce/wire", "roce/cm"),
    "roce/performance": ("base", "roce/wire"),
    "port": ("base",),
    "keeper": ("base",),
    "configuration": ("abi", "base", "roce/wire", "roce/transport", "qos/pools", "qos/schedule",
                      "qos/receive"),
}
# Folders of which each may include those before it, and all layers above.
ENGINE = ("records", "turns", "addresses", "memory", "events", "receive", "ports", "diagnostics",
          "commands", "packets", "queue_pairs", "datagrams", "", "requests")
CONTROL = ("control_thread", "device/peer", "device/adapter", "services", "device/objects",
           "device/session", "frontend/unix/sockets", "frontend/unix/device_tree", "operate/admin",
           "frontend/unix/server", "operate/reload")


def in_daemon(name):
    return name if name == "abi" else f"daemon/{name}".rstrip("/")


LOWER = {in_daemon(name): {in_daemon(lower) for lower in lowers}
         for name, lowers in LAYERS.items()}
LOWER["abi"] = set()
ENGINE_FOLDERS = [in_daemon("engine/" + folder) for folder in ENGINE]
CONTROL_FOLDERS = [in_daemon(folder) for folder in CONTROL]
COUNTERS = "daemon/counters"
for folder in [*ENGINE_FOLDERS, COUNTERS, *CONTROL_FOLDERS]:
    LOWER[folder] = set(LOWER)
# Those whose figures it shows.
METRICS = "daemon/operate/metrics"
LOWER[METRICS] = {*ENGINE_FOLDERS, COUNTERS} | {in_daemon(name) for name in LAYERS} - {
    "daemon/tenant_memory", "daemon/qos/receive", "daemon/roce/neighbour"}
LOWER["daemon"] = set(LOWER)  # adapter.cpp, the composition root
LOWER["libverbs-provider"] = {"abi"}
# Of the daemon they have the base, which is headers only.
LOWER["guest/channel"] = {"abi", "daemon/base"}
LOWER["guest/relay"] = {"abi", "daemon/base", "guest/channel"}
LOWER["guest/agent"] = LOWER["guest/relay"] | {"daemon/tenant_memory"}  # the memory proxy
LOWER["cli"] = {"abi", "guest/channel", "guest/relay"}

# Namespaces by the folders that they belong to. Those of daemon/base and daemon/qos/pools have none.
NAMESPACES = {
    "abi": "abi", "wire": "daemon/roce/wire", "neighbour": "daemon/roce/neighbour",
    "shm": "daemon/tenant_memory", "memory": "daemon/tenant_memory",
    "collect": "daemon/qos/collect", "schedule": "daemon/qos/schedule",
    "transport": "daemon/roce/transport", "receive": "daemon/qos/receive", "port": "daemon/port",
    "configuration": "daemon/configuration", "engine": "daemon/engine", "counters": COUNTERS,
    "metrics": METRICS, "records": "daemon/live_records",
}
NAMES = re.compile(r"(?<![\w:])(?:softhca::)?(" + "|".join(NAMESPACES) + r")::(?=\w)")

SOURCES = {".hpp", ".cpp", ".h", ".c"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
DPDK = re.compile(r"\brte_\w+")
# Their size may be asked anywhere.
TENANT_MEMORY = re.compile(
    r"(?<!sizeof\(abi::)\b(SessionHeader|VcbPage|ReceiveRingHeader|CompletionRingHeader)\b")
CLOCK = re.compile(
    r"\b(clock_gettime|gettimeofday|steady_clock|system_clock|high_resolution_clock|__rdtsc)\b")
# Of a tenant or level, what the control thread owns (daemon/engine/records/tenant_control.hpp).
OF_CONTROL = re.compile(r"(\.|->)control(\.|->)")
WHOLE_ENGINE = re.compile(r'"daemon/engine/engine\.hpp"|\bengine::Engine\b')
# How processes come in, which is a front end's.
OF_FRONTEND = re.compile(
    r"<sys/(?:socket|un)\.h>|\b(?:socketpair|sendmsg|recvmsg|SCM_RIGHTS|SO_PEER\w+|SOCK_\w+)\b"
    r"|\b\w*pidfd\w*|\bPeerSocket\b|/passed_descriptors\.hpp")
NO_FRONTEND = re.compile(r"daemon/(device|services)(/|$)")
MAY_READ_CLOCK = {*ENGINE_FOLDERS, *CONTROL_FOLDERS, METRICS, "daemon", "daemon/keeper"}


def layer_of(path):
    """The layer of a path relative to the root, or None when it belongs to none."""
    parts = path.split("/")[:-1]
    if parts == ["daemon"]:
        return "daemon"
    for count in range(len(parts), 0, -1):
        layer = "/".join(parts[:count])
        if layer in LOWER and layer != "daemon":
            return layer
    return None


def code_of(text):
    """The lines of a file without comments; string literals stay, as includes are such."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    return [re.sub(r"//.*", "", line) for line in text.split("\n")]


def check_include(root, layer, target):
    if not (root / target).is_file():
        return f'includes "{target}", which is no file; write the path from the root'
    other = layer_of(target)
    if other == layer or other in LOWER[layer]:
        return None
    allowed = ", ".join(sorted(LOWER[layer])) or "nothing"
    return f'includes "{target}"; {layer} may include {allowed}'


def check_names(layer, line):
    for found in NAMES.finditer(line):
        other = NAMESPACES[found.group(1)]
        if not layer.startswith(other) and not any(
                lower.startswith(other) for lower in LOWER[layer]):
            yield f"names {found.group()}, which is of {other}; {layer} may not include that"


def check_line(layer, path, line):
    yield from check_names(layer, line)
    if layer.startswith("daemon"):
        if (found := DPDK.search(line)) and not path.startswith("daemon/port/dpdk/"):
            yield f"names {found.group()}; only daemon/port/dpdk may name DPDK"
        if (found := TENANT_MEMORY.search(line)) and layer != "daemon/tenant_memory":
            yield f"names {found.group()}; only daemon/tenant_memory touches tenant memory"
        if (found := OF_CONTROL.search(line)) and layer in ENGINE_FOLDERS:
            yield f"names {found.group()}; that of a tenant is the control thread's"
        if WHOLE_ENGINE.search(line) and layer in [*CONTROL_FOLDERS, METRICS]:
            yield "reaches into the engine; ask it by a request, or read engine::EngineView"
        if (found := OF_FRONTEND.search(line)) and NO_FRONTEND.match(layer):
            yield f"names {found.group()}; that is a front end's, reach the process by a Peer"
        if (found := CLOCK.search(line)) and layer not in MAY_READ_CLOCK:
            yield f"reads a clock ({found.group()}); time is a parameter below daemon/engine"


def check_file(root, path):
    layer = layer_of(path)
    if layer not in LOWER:
        yield f"{path}:1: {layer} is no layer; name it in tools/check_layers.py"
        return
    text = (root / path).read_text(encoding="utf-8")
    for number, line in enumerate(code_of(text), 1):
        if found := INCLUDE.match(line):
            if problem := check_include(root, layer, found.group(1)):
                yield f"{path}:{number}: {problem}"
        for problem in check_line(layer, path, line):
            yield f"{path}:{number}: {problem}"


def check_tree(root):
    problems = []
    files = 0
    for top in ("abi", "daemon", "libverbs-provider", "guest", "cli"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix in SOURCES and file.is_file():
                files += 1
                problems += check_file(root, file.relative_to(root).as_posix())
    return files, problems


def self_test():
    """Every rule must refuse what it forbids and let pass what it allows."""
    cases = [
        # path, text, part of the expected complaint (None: clean)
        ("daemon/roce/wire/a.hpp", '#include "daemon/base/b.hpp"\n', None),
        ("daemon/roce/wire/a.hpp", '#include "daemon/tenant_memory/s.hpp"\n',
         "may include daemon/base"),
        ("daemon/base/a.hpp", '#include "abi/x.hpp"\n', "may include nothing"),
        ("daemon/qos/schedule/a.hpp", '#include "abi/x.hpp"\n', "may include"),
        ("daemon/operate/metrics/a.cpp", '#include "daemon/tenant_memory/s.hpp"\n', "may include"),
        ("daemon/engine/a.cpp", '#include "daemon/tenant_memory/s.hpp"\n', None),
        ("daemon/engine/a.cpp", '#include "daemon/device/session/c.hpp"\n', "may include"),
        ("daemon/engine/a.cpp", '#include "daemon/engine/turns/t.hpp"\n', None),
        ("daemon/engine/packets/a.cpp", '#include "daemon/engine/turns/t.hpp"\n', None),
        ("daemon/engine/records/a.cpp", '#include "daemon/engine/turns/t.hpp"\n', "may include"),
        ("daemon/adapter.cpp", '#include "daemon/device/session/c.hpp"\n', None),
        ("daemon/operate/admin/a.cpp", '# include "cli/x.hpp"\n', "may include"),
        ("daemon/operate/admin/a.cpp", '#include "daemon/device/session/c.hpp"\n', None),
        ("daemon/control_thread/a.cpp", '#include "daemon/device/session/c.hpp"\n',
         "may include"),
        ("daemon/device/session/a.cpp", '#include "daemon/frontend/unix/sockets/u.hpp"\n',
         "may include"),
        ("daemon/services/a.cpp", '#include "daemon/frontend/unix/sockets/u.hpp"\n',
         "may include"),
        ("daemon/frontend/unix/server/a.cpp", '#include "daemon/device/session/c.hpp"\n', None),
        ("daemon/device/peer/a.hpp", '#include "daemon/device/session/c.hpp"\n', "may include"),
        ("daemon/device/objects/a.cpp", "#include <sys/socket.h>\n", "a front end's"),
        ("daemon/services/a.cpp", "#include <sys/socket.h>\n", "a front end's"),
        ("daemon/device/session/a.cpp", "::socketpair(AF_UNIX, type, 0, ends);\n",
         "a front end's"),
        ("daemon/services/a.cpp", "::sendmsg(socket, &message, 0);\n", "a front end's"),
        ("daemon/device/adapter/a.cpp", "header->cmsg_type = SCM_RIGHTS;\n", "a front end's"),
        ("daemon/device/peer/a.hpp", "UniqueFd pidfd_;\n", "a front end's"),
        ("daemon/device/peer/a.hpp", "UniqueFd peer_pidfd(int socket);\n", "a front end's"),
        ("daemon/device/objects/a.cpp", "make(SOCK_SEQPACKET, ours);\n", "a front end's"),
        ("daemon/device/objects/a.cpp", "// not by socketpair\n", None),
        ("daemon/device/adapter/a.cpp", "if (level.socket) f();\n", None),
        ("daemon/frontend/unix/sockets/a.cpp", "#include <sys/socket.h>\n", None),
        ("daemon/control_thread/a.cpp", "::socketpair(AF_UNIX, type, 0, ends);\n", None),
        ("daemon/operate/a.cpp", "int x;\n", "is no layer"),
        ("libverbs-provider/a.cpp", '#include "daemon/base/b.hpp"\n', "may include abi"),
        ("libverbs-provider/a.cpp", '#include "abi/x.hpp"\n', None),
        ("cli/a.cpp", '#include "abi/x.hpp"\n', None),
        ("cli/a.cpp", '#include "daemon/base/b.hpp"\n', "may include abi"),
        ("guest/agent/a.cpp", '#include "guest/channel/f.hpp"\n', None),
        ("guest/agent/a.cpp", '#include "daemon/base/b.hpp"\n', None),
        ("guest/relay/a.cpp", '#include "daemon/engine/engine.hpp"\n', "may include abi"),
        ("guest/channel/a.cpp", '#include "guest/agent/a.cpp"\n', "may include abi"),
        ("daemon/base/a.cpp", '#include "b.hpp"\n', "which is no file"),
        ("daemon/base/a.cpp", '// #include "daemon/tenant_memory/s.hpp"\n', None),
        ("daemon/base/a.cpp", '/*\n#include "daemon/tenant_memory/s.hpp"\n*/\n', None),
        ("daemon/port/a.cpp", "rte_eth_rx_burst();\n", "only daemon/port/dpdk"),
        ("daemon/port/dpdk/a.cpp", "rte_eth_rx_burst();\n", None),
        ("daemon/engine/a.cpp", "#include <rte_mbuf.h>\n", "only daemon/port/dpdk"),
        ("daemon/engine/a.cpp", "abi::VcbPage* page;\n", "only daemon/tenant_memory"),
        ("daemon/engine/turns/a.cpp", "tenant->control.leaving = true;\n", "control thread's"),
        ("daemon/device/session/a.cpp", "tenant.control.leaving = true;\n", None),
        ("daemon/device/session/a.cpp", "void f(engine::Engine& engine);\n", "by a request"),
        ("daemon/operate/admin/a.cpp", '#include "daemon/engine/engine.hpp"\n', "by a request"),
        ("daemon/operate/metrics/a.cpp", "const engine::EngineView& view;\n", None),
        ("daemon/adapter.cpp", "engine::Engine engine;\n", None),
        ("daemon/tenant_memory/a.cpp", "abi::VcbPage* page;\n", None),
        ("daemon/device/session/a.cpp", "n = sizeof(abi::VcbPage);\n", None),
        ("daemon/roce/transport/reliable/a.cpp", "std::chrono::steady_clock::now();\n",
         "reads a clock"),
        ("daemon/engine/a.cpp", "std::chrono::steady_clock::now();\n", None),
        ("daemon/base/a.cpp", "// not from steady_clock\n", None),
        ("daemon/extra/a.cpp", "int x;\n", "is no layer"),
        ("daemon/roce/wire/a.cpp", "engine::Tenant* tenant;\n", "is of daemon/engine"),
        ("daemon/roce/wire/a.cpp", "softhca::engine::Tenant* tenant;\n", "is of daemon/engine"),
        ("daemon/roce/wire/a.cpp", "std::engine::Tenant* tenant;  // engine::Tenant\n", None),
        ("daemon/roce/wire/a.cpp", "wire::Psn psn;\n", None),
        ("daemon/engine/a.cpp", "wire::Psn psn;\n", None),
        ("libverbs-provider/a.cpp", "abi::Vcb vcb;\n", None),
    ]
    present = ("daemon/base/b.hpp", "daemon/engine/engine.hpp", "daemon/tenant_memory/s.hpp", "daemon/device/session/c.hpp",
               "daemon/engine/turns/t.hpp", "daemon/frontend/unix/sockets/u.hpp", "abi/x.hpp",
               "cli/x.hpp", "guest/channel/f.hpp", "guest/agent/a.cpp")
    failures = 0
    for path, text, expected in cases:
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for other in present:
                (root / other).parent.mkdir(parents=True, exist_ok=True)
                (root / other).write_text("")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
            _, problems = check_tree(root)
        right = not problems if expected is None else (
            len(problems) == 1 and problems[0].startswith(path + ":") and expected in problems[0])
        if not right:
            failures += 1
            print(f"{path} {text!r}: expected {expected!r}, got {problems}")
    print(f"{len(cases) - failures} of {len(cases)} cases right")
    return failures != 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    files, problems = check_tree(root)
    if not files:
        problems.append(f"{root}: no source files")
    for problem in problems:
        print(problem)
    print(f"{files} files, {len(problems)} violations")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())

"""Checks what softhcactl prints in a terminal of 80 columns, as JSON and as YAML.
usage: ctl_output.py SOFTHCACTL RUNTIME_DIR SANDBOX_DIR"""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import yaml

from fake_daemon import reply, serve

ctl, run, sandbox = sys.argv[1:]
failures = []


def expect(true, what):
    if not true:
        failures.append(what)


def in_terminal(*arguments, columns=80, ends=True, **environment):
    """What the command prints in a terminal, as lines."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update({"TERM": "xterm", **environment})
        # The size is there before the program asks for it.
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execv(ctl, [ctl, "--runtime-dir", run, *arguments])
    text = b""
    while ends or text.count(b"\x1b[H") < 3:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the program has ended
            break
        if not part:
            break
        text += part
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    expect(code == 0 if ends else code < 0, f"{arguments}: exit code {code}")
    return text.decode().replace("\r", "").split("\n")


def plain(line):
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line)


def output(*arguments, code=0, directory=None):
    ended = subprocess.run([ctl, "--runtime-dir", directory or run, *arguments], capture_output=True, text=True,
                           timeout=60)
    expect(ended.returncode == code, f"{arguments}: exit code {ended.returncode}: {ended.stderr}")
    return ended


def replayed(command, document):
    """The YAML that the command prints when the daemon replies with this document."""
    path = serve(sandbox + "/replay", [reply(document)])
    text = subprocess.run([ctl, "--socket", path, *command, "-o", "yaml"], capture_output=True, text=True,
                          timeout=60).stdout
    return yaml.safe_load(text)


qpn = str(json.loads(output("qps", "-o", "json").stdout)["qps"][0]["qpn"])
SHOWN = [("status",), ("tenants",), ("tenant", "show", "a"), ("qps",), ("qp", "show", qpn), ("srqs",), ("connections",),
         ("listeners",), ("gsa",), ("revisions",), ("diff",), ("fault", "list")]
OTHERS = [("events",), ("explain", "b", "-i", "0.1"), ("top", "--once", "-i", "0.1"),
          ("set", "--dry-run", "a", "pcbs=100", "weight=7", "b", "execution_credits=32")]

for command in SHOWN + OTHERS:
    for more in (), ("--bytes",):
        lines = in_terminal(*command, *more)
        for line in lines:
            expect(len(plain(line)) <= 80, f"{command} {more}: {len(plain(line))} columns: {plain(line)}")
        expect(not any("not shown" in line for line in lines) or more, f"{command}: a column is left out")
    expect(len(output(*command, "-o", "wide").stdout) > 0, f"{command} -o wide")
    document = json.loads(output(*command, "-o", "json").stdout)
    expect(yaml.safe_load(output(*command, "-o", "yaml").stdout).keys() == document.keys(), f"{command} -o yaml")
    if command in SHOWN:
        expect(replayed(command, document) == document, f"{command}: YAML is not what JSON is")

# --- any value that JSON can have
hostile = {"words": ["", "no", "Null", "~", "12", "1e3", "0x1f", "1:30", "a: b", "#", "- a", " a ", "a\nb\t\"\\'", "\x7f\x85",
                     "\u2028\ufeff\U0001f600ä", "{", "[", "*x", "&x", "!x", "%", "@", "`", "=", "<<", "2026-11-28", "on"],
           "": {"yes": 1, "1": [[], [[{}]], [{"a": [1, {"b": None}]}]]}, "a: b": -1, "numbers": [1e-7, 1.5e300, -0.5, 2**63, 0]}
expect(replayed(("tenants",), hostile) == hostile, f"hostile strings: {replayed(('tenants',), hostile)}")

# --- colours: in a terminal only, and not when they are unwanted
expect("\x1b[1m" in in_terminal("tenants")[0], "no colours in a terminal")
expect("\x1b[" not in "".join(in_terminal("tenants", NO_COLOR="1")), "colours with NO_COLOR")
expect("\x1b[" not in "".join(in_terminal("tenants", TERM="dumb")), "colours in a dumb terminal")
expect("\x1b[" not in "".join(in_terminal("tenants", "--color", "never")), "colours with --color never")
expect("\x1b[" not in output("tenants").stdout, "colours in a pipe")
expect("\x1b[1m" in output("tenants", "--color", "always").stdout, "no colours with --color always")

# --- a narrow terminal
narrow = [plain(line) for line in in_terminal("connections", columns=50)]
expect(all(len(line) <= 50 for line in narrow) and any("not shown: " in line for line in narrow), f"narrow: {narrow}")

# --- again and again
watched = in_terminal("qps", "--watch", "0.05", ends=False)
expect(sum("QPN" in line for line in watched) >= 2, f"--watch: {watched}")
with subprocess.Popen([ctl, "--runtime-dir", run, "tenants", "--watch", "0.05", "-o", "json"], stdout=subprocess.PIPE,
                      text=True) as follower:
    expect(len([json.loads(follower.stdout.readline()) for _ in range(3)]) == 3, "--watch -o json")
    follower.terminate()

# --- filters
pid = json.loads(output("qps", "--tenant", "b", "-o", "json").stdout)["qps"][0]["pid"]
of_process = json.loads(output("qps", "--pid", str(pid), "--state", "rts", "-o", "json").stdout)["qps"]
expect(of_process and all(qp["pid"] == pid and qp["state"] == "RTS" for qp in of_process), f"filter: {of_process}")
expect(json.loads(output("qps", "--peer", "192.0.2.1", "-o", "json").stdout) == {"qps": []}, "no such peer")
expect(json.loads(output("events", "--pid", "1", "-o", "json").stdout)["events"] == [], "no such process")

# --- numbers
expect(re.search(r"^registered_bytes +[0-9.]+ GiB ", output("tenant", "show", "a").stdout, re.M), "units")
expect(re.search(r"^registered_bytes +[0-9]{9,} ", output("tenant", "show", "a", "--bytes").stdout, re.M), "--bytes")

# --- wrong words, at every level
for words, text in ((("tenat",), 'unknown command "tenat"; did you mean tenant?'),
                    (("tenant", "shwo", "a"), 'tenant: unknown command "shwo"; did you mean show?'),
                    (("qps", "--stat", "RTS"), "qps: unknown option --stat; did you mean --state?"),
                    (("qps", "--state", "RST"), 'unknown value "RST"; did you mean RTS'),
                    (("-o", "jsn", "qps"), 'unknown value "jsn"; did you mean json?'),
                    (("help", "tenant", "crate"), 'unknown command "crate"; did you mean create?'),
                    (("status", "more"), 'status: takes no further argument: "more"'),
                    (("tenant", "show"), "usage: softhcactl tenant show [OPTION...] NAME"),
                    (("tenant",), "tenant: a command is missing")):
    expect(text in output(*words, code=2).stderr, f"{words}: {output(*words, code=2).stderr}")
for words in (), ("nonsense",):
    said = output(*words, code=2).stderr
    expect(all(f"\n  {name} " in said for name in ("status", "qps", "set", "fault", "help")), f"{words}: {said}")
expect("no such tenant: bb; did you mean b?" in output("tenant", "show", "bb", code=1).stderr, output("tenant", "show", "bb", code=1).stderr)
expect("did you mean pcbs" in output("set", "a", "pcb=3", code=1).stderr, "a wrong key")

# --- help
expect(output("help").stdout == output("--help").stdout, "help")
expect(output("help", "tenant", "show").stdout == output("tenant", "show", "--help").stdout, "help of a command")

for failure in failures:
    print(failure)
sys.exit(bool(failures))

"""Runs softhcactl -o json in every way that ends: against the sandbox's daemon, without one, and
against others that are none. usage: ctl_json.py SOFTHCACTL SANDBOX_DIR"""
import json
import os
import shutil
import subprocess
import sys

import fake_daemon
from fake_daemon import reply

ctl, sandbox = sys.argv[1:]
run = sandbox + "/ab"
failures = []


def check(code, *arguments):
    """The document, of which there has to be one."""
    ended = subprocess.run([ctl, "-o", "json", *arguments], capture_output=True, text=True, timeout=60)
    what = f"{' '.join(arguments)}: exit code {ended.returncode}, {ended.stdout!r}, {ended.stderr!r}"
    try:
        document = json.loads(ended.stdout)
    except ValueError as error:
        failures.append(f"{what}: {error}")
        return {}
    if ended.returncode != code:
        failures.append(f"{what}: not {code}")
    if ("error" in document) != (code != 0) or ended.stdout.count("\n") != 1:
        failures.append(what)
    return document


def expect(true, what):
    if not true:
        failures.append(what)


def real(code, *arguments):
    return check(code, "--runtime-dir", run, *arguments)


# --- what is done
COMMANDS = [("fault", "add", "drop", "--tenant", "a", "--every", "1000"), ("fault", "list"),
            ("fault", "remove", "--all"), ("status",), ("tenants",), ("tenant", "show", "a"), ("qps",), ("qps", "--tenant", "b"),
            ("srqs",), ("top", "--once", "--interval", "0.05"), ("set", "a", "pcbs=2000"),
            ("reload", "--dry-run"), ("reload",), ("events",), ("events", "--after", "1000000"),
            ("events", "--tenant", "nobody")]
for command in COMMANDS:
    real(0, *command)
expect([e["kind"] for e in real(0, "events").get("events", [])][-2:] == ["set", "reload"], "events")

# --- what the daemon refuses
real(1, "tenant", "show", "nobody")
real(1, "set", "nobody", "pcbs=1")
real(1, "fault", "add", "drop", "--tenant", "nobody", "--every", "2")
real(1, "fault", "remove", "7")
real(1, "set", "a", "nonsense=1")
real(1, "set", "a", "pcbs=1M")
shutil.copy(run + ".toml", run + ".good")
with open(run + ".toml", "a") as file:
    file.write('[device]\nname = "other0"\n')
for arguments, reasons in ((("reload",), "reasons"), (("reload", "--dry-run"), "refusals")):
    refused = real(1, *arguments)
    expect(any("device: name" in line for line in refused.get("data", {}).get(reasons, [])), f"why: {refused}")
expect(refused.get("data", {}).get("accepted") is False, f"a dry run: {refused}")
with open(run + ".toml", "a") as file:
    file.write("bogus = 1\n")
for arguments in ("reload",), ("reload", "--dry-run"):
    expect(len(real(1, *arguments).get("data", {}).get("problems", [])) == 1, "problems")
shutil.copy(run + ".good", run + ".toml")

# --- wrong command lines
for arguments in ((), ("nonsense",), ("status", "more"), ("tenant",), ("tenant", "show"), ("fault",), ("fault", "add"), ("set",),
                  ("set", "a"), ("set", "pcbs=1"), ("set", "a", "pcbs=many"), ("top", "--interval"),
                  ("top", "--interval", "0"), ("top", "--once", "--count", "3"), ("--nonsense",),
                  ("events", "--after", "x")):
    real(2, *arguments)
check(2, "--socket", "/" + 200 * "x", "status")

# --- nobody there, or somebody else
check(3, "--socket", sandbox + "/none", "status")
check(3, "--runtime-dir", sandbox + "/none", "status")
real(3, "--as", "nobody", "tenant", "show", "nobody")


def serve(answers):
    return fake_daemon.serve(f"{sandbox}/not-a-daemon", answers)


for answers in ([], ["this is not JSON"], ["[]"], ["{}"], [reply({}, 7)], ['{"error": 3}'],
                ['{"error": {"message": 3}}']):
    check(3, "--socket", serve(answers), "status")
check(1, "--socket", serve(['{"error": {}}']), "status")
for result in ({}, 3, None):
    for command in "qps", "srqs", "events", "top":
        check(3, "--socket", serve([reply(result), reply(result, 2)]), command,
              *(("--once", "--interval", "0.05") if command == "top" else ()))
page = reply({"qps": [{"qpn": 2}], "next": 2})
check(3, "--socket", serve([page]), "qps")
check(3, "--socket", serve([reply({"events": [{"number": 1}], "last": 1})]), "events")

for failure in failures:
    print(failure)
sys.exit(bool(failures))

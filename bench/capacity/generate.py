#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures this host with `softhcactl measure`, and writes the figures of docs/capacity.md.

Usage: generate.py [--runs N] [--seconds S]   measures N times (3) for S seconds (60); the best of each figure counts
       generate.py --check FILE               exit code 1 if the document has other rows than figures of FILE, an output
                                              of `softhcactl -o json measure`, would have; the figures may differ

$SOFTHCA_BUILD is the build folder; default: build. An idle host has better figures.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCUMENT = ROOT / "docs" / "capacity.md"
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n)(.*?)(<!-- end -->)", re.S)
# Title of a column, number of tenants, memory.
SIZES = (("CI runner: 2 cores, 4 GB", 4, "4G"), ("shared: 16 cores, 64 GB", 16, "64G"),
         ("large: 64 cores, 512 GB", 100, "512G"))
FIGURE = re.compile(r"\d[\d.]*(?: (?:[KMGT]iB|B|[kM])(?:/s)?\b|/s)?")


def three_digits(value):
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def scaled(value, base, units):
    unit = 0
    while value >= base - 0.5 and unit + 1 < len(units):
        value /= base
        unit += 1
    text = f"{value:g}" if value == round(value) else three_digits(value)
    return f"{text} {units[unit]}".strip()


def in_bytes(value):
    return scaled(round(value), 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def per_second(value):
    return scaled(round(value), 1000, ("", "k", "M")) + "/s"


def table(*rows):
    widths = len(rows[0])
    lines = [rows[0], ["---"] * widths, *rows[1:]]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def engine(found):
    rows = []
    for place, what in (("local", "within a daemon"), ("wire", "two daemons, UDP on loopback")):
        for rate in found[place]:
            rows.append([f"{in_bytes(rate['bytes'])}, {what}", per_second(rate["messages_per_second"]),
                         in_bytes(rate["bytes_per_second"]) + "/s", f"{rate['of_memcpy']:.2f}"])
    together = found["together"]
    rows.append([f"64 B, {len(together)} tenants at once", per_second(sum(together)), in_bytes(64 * sum(together)) + "/s",
                 "-"])
    latency = found["latency_us"]
    return (table(["writes", "messages", "bytes", "of memcpy"], *rows) +
            f"\nA write of 64 B, one at a time, takes {latency['median']:.1f} µs one way, 99 % at most {latency['p99']:.1f} µs. The host: "
            f"{found['host']['cores']:.0f} cores, load average {found['host']['load']:.1f}.\n")


def memory(found):
    of = found["memory"]
    return table(
        ["for each", "daemon", "queues"],
        ["tenant", in_bytes(of["tenant_bytes"]), "-"],
        ["session (a device that a program has open)", in_bytes(of["session_bytes"]), "-"],
        [f"connected queue pair, {of['queue_pair_depth']:.0f} sends and receives", in_bytes(of["queue_pair_bytes"]),
         in_bytes(of["queue_pair_queue_bytes"])],
        ["entry of a completion queue", "-", in_bytes(of["completion_entry_bytes"])],
        ["registered GiB (page tables)", in_bytes(of["registered_gib_bytes"]), "-"])


def settings_of(found):
    """The keys of the proposal; those of other sections than [pools] with their section."""
    settings = {}
    for section, keys in tomllib.loads(found["configuration"]).items():
        if section != "daemon":  # whether a core is isolated is a matter of this host
            settings |= {key if section == "pools" else f"{section}.{key}": str(value) for key, value in keys.items()}
    return settings


def sizes(found):
    proposals = [settings_of(each) for each in found]
    keys = {}  # by their values: such as are equal have one row
    for key in proposals[0]:
        keys.setdefault(tuple(proposal[key] for proposal in proposals), []).append(f"`{key}`")
    rows = [[", ".join(names), *values] for values, names in keys.items()]
    rows.append(["daemon, idle; with all in use", *(f"{in_bytes(each['memory']['daemon_bytes'])}; "
                                                   f"{in_bytes(each['memory']['most_bytes'])}" for each in found)])
    rows.append(["**each tenant**, `share`", *(f"`\"{each['share']}\"`" for each in found)])
    units = {"small_writes": ("writes of 64 B, local", per_second),
             "large_writes": ("writes of 1 MiB, local", lambda value: in_bytes(value) + "/s"),
             "wire_writes": ("writes of 1 MiB, wire", lambda value: in_bytes(value) + "/s"),
             "minimum_rate": ("minimum rate", lambda value: in_bytes(value) + "/s"),
             "messages_in_progress": ("messages in progress", str), "sessions": ("sessions", str),
             "queue_pairs": ("queue pairs", str), "memory_regions": ("memory regions", str),
             "registered_bytes": ("registered memory", in_bytes)}
    for key, (what, text) in units.items():
        rows.append([what, *(text(int(each["promise"][key]["each"])) for each in found)])
    return table(["", *(size[0] for size in SIZES)], *rows)


def document_with(found, text):
    """The document with the figures of an output for each size."""
    blocks = {"engine": engine(found[0]), "memory": memory(found[0]), "sizes": sizes(found)}
    used = [match.group(2) for match in BLOCK.finditer(text)]
    if sorted(used) != sorted(blocks):
        sys.exit(f"{DOCUMENT.name} has the blocks {used}, expected {list(blocks)}")
    return BLOCK.sub(lambda match: f"{match.group(1)}\n{blocks[match.group(2)]}\n{match.group(4)}", text)


def form(text):
    return [FIGURE.sub("#", line) for match in BLOCK.finditer(text) for line in match.group(3).splitlines()
            # Which keys are equal depends on the memory.
            if not line.startswith("| `")]


def keys(text):
    return sorted(key for match in BLOCK.finditer(text) for line in match.group(3).splitlines()
                  if line.startswith("| `") for key in re.findall(r"`([\w.]+)`", line))


def check(file):
    found = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    text = DOCUMENT.read_text(encoding="utf-8")
    expected = document_with([found] * len(SIZES), text)
    if form(text) == form(expected) and keys(text) == keys(expected):
        return 0
    print(f"{DOCUMENT.name} is not as `softhcactl measure` would have it; run bench/capacity/generate.py")
    for has, wants in zip([*form(text), *keys(text)], [*form(expected), *keys(expected)]):
        if has != wants:
            print(f"  has:     {has}\n  expected: {wants}")
    return 1


def best_of(runs):
    """One output with the best figures of several."""
    best = runs[0]
    for run in runs[1:]:
        for place in ("local", "wire"):
            best[place] = [max(pair, key=lambda rate: rate["messages_per_second"])
                           for pair in zip(best[place], run[place])]
        best["together"] = max(best["together"], run["together"], key=sum)
        best["latency_us"] = min(best["latency_us"], run["latency_us"], key=lambda latency: latency["median"])
    best["host"]["load"] = min(run["host"]["load"] for run in runs)
    return best


def generate(count, seconds):
    build = pathlib.Path(os.environ.get("SOFTHCA_BUILD", ROOT / "build"))

    def measure(*arguments):
        command = [build / "cli" / "softhcactl", "-o", "json", "measure", *arguments]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    best = best_of([measure("--seconds", str(seconds)) for _ in range(count)])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(best, file)
        file.flush()
        found = [measure("--from", file.name, "--tenants", str(tenants), "--memory", size)
                 for _, tenants, size in SIZES]
    found[0]["host"] = best["host"]
    DOCUMENT.write_text(document_with(found, DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description="Writes the figures of docs/capacity.md.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--check", metavar="FILE")
    options = parser.parse_args()
    if options.check:
        return check(options.check)
    generate(options.runs, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

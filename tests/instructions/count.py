#!/usr/bin/env python3
"""Counts the instructions that the engine executes for a command, under callgrind, in virtual time.

usage: count.py [--write] PROGRAM APPROVED      PROGRAM: tests/instructions/instructions of the build
       count.py --profile CASE PROGRAM          prints the functions of a case with what they and those that
                                                they call execute, for a command

A case fails if it takes 3 % more than APPROVED says. --write writes what was counted there.

Exit codes: 1, a case failed; 77, valgrind, or the compiler that APPROVED names, is not there.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ALLOWED = 1.03
MEASURED = "softhca::engine::poll_measured*"


def callgrind(program, case, output=os.devnull):
    """Returns the commands of a case, and the instructions that they took."""
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}", f"--toggle-collect={MEASURED}", program, case],
        capture_output=True, text=True,
    )  # fmt: skip
    commands = re.search(r"^(\d+) commands$", done.stdout, re.M)
    collected = re.search(r"Collected : (\d+)$", done.stderr, re.M)
    if done.returncode != 0 or not commands or not collected:
        sys.exit(f"{case}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return int(commands[1]), int(collected[1])


def profile(program, case):
    with tempfile.NamedTemporaryFile() as output:
        commands, _ = callgrind(program, case, output.name)
        lines = subprocess.run(
            ["callgrind_annotate", "--inclusive=yes", "--threshold=99.9", output.name], capture_output=True, text=True
        ).stdout
    for line in lines.splitlines():
        if found := re.match(r" *([\d,]+) \( *[\d.]+%\)  \S*?:(.*?)(?: \[.*)?$", line):
            print(f"{int(found[1].replace(',', '')) / commands:7.0f}  {found[2]}")


def read(file):
    """Returns the compiler and the figures."""
    lines = [line.strip().split(maxsplit=1) for line in open(file) if not line.startswith("#")]
    return lines[0][1], {case: int(figure) for figure, case in lines[1:]}


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--profile"]:
        return profile(arguments[2], arguments[1])
    write = arguments[:1] == ["--write"]
    program, approved = arguments[-2:]
    compiler, expected = read(approved)
    if not shutil.which("valgrind"):
        print("valgrind is not installed")
        return 77
    built_by = subprocess.run([program, "compiler"], capture_output=True, text=True).stdout.strip()
    if built_by != compiler and not write:
        print(f"built by {built_by}; the figures are those of {compiler}")
        return 77
    cases = subprocess.run([program, "cases"], capture_output=True, text=True, check=True).stdout.split()
    counted, failed = {}, False
    for case in cases:
        commands, instructions = callgrind(program, case)
        counted[case] = round(instructions / commands)
        allowed = expected.get(case, 0) * ALLOWED
        failed = failed or counted[case] > allowed
        print(f"{case}: {counted[case]} instructions, approved {expected.get(case)}"
              f"{': too many' if counted[case] > allowed else ''}")  # fmt: skip
    if write:
        head = [line for line in open(approved) if line.startswith("#")]
        with open(approved, "w") as file:
            file.writelines(head)
            print("compiler", built_by, file=file)
            for case, figure in counted.items():
                print(f"{figure:8} {case}", file=file)
        return 0
    if failed:
        print("make the path of commands as short as it was, or approve the figures: "
              "tests/instructions/count.py --write build/tests/instructions/instructions "
              "tests/instructions/instructions.approved")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

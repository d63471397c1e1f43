#!/usr/bin/env python3
"""Writes docs/cli.md from what the programs say with --help.

Usage: generate_cli_reference.py [BUILD]            default: build
       generate_cli_reference.py --check [BUILD]    exit code 1 if docs/cli.md differs
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ["cli/softhca-run", "cli/softhcactl", "daemon/softhcad", "libverbs-provider/datagrams/softhca-ping"]
HEAD = """# Command line

What each program says with `--help`; made by `tools/generate_cli_reference.py`. The manual pages say more:
softhca-run(1), softhcactl(1), softhcad(8), softhca-ping(1). Examples are in [first ten minutes](first-steps.md),
[tenants and quotas](tenants.md) and [trouble](trouble.md).
"""


def said(program, *words):
    """The help of a command; without the path of the program, and spaces at the ends of lines."""
    text = subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True).stdout
    lines = [line.rstrip() for line in text.replace(str(program), program.name).splitlines()]
    return "\n".join(lines).strip()


def subcommands(text):
    part = re.search(r"^Subcommands:\n((?:  .*\n?)+)", text, re.MULTILINE)
    return re.findall(r"^  (\S+)", part.group(1), re.MULTILINE) if part else []


def sections(program, *words):
    text = said(program, *words)
    footer = text.rfind("\n\nExit codes:") if words else -1  # said once, with the program
    yield (" ".join([program.name, *words]), text[:footer] if footer > 0 else text)
    for name in subcommands(text):
        yield from sections(program, *words, name)


def reference(build):
    parts = [HEAD]
    for path in PROGRAMS:
        for number, (title, text) in enumerate(sections(build / path)):
            parts.append(f"{'###' if number else '##'} {title}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def main():
    words = sys.argv[1:]
    check = words[:1] == ["--check"]
    build = pathlib.Path((words[check:] or [ROOT / "build"])[0]).resolve()
    document = ROOT / "docs" / "cli.md"
    wanted = reference(build)
    if check and document.read_text(encoding="utf-8") != wanted:
        print("docs/cli.md is not what the programs say: tools/generate_cli_reference.py")
        return 1
    if not check:
        document.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs the commands of a first minute with softhca on a terminal, and draws what they print.

usage: record_demo.py PICTURE            runs them in the current folder, and writes the picture (SVG)
       record_demo.py --check PICTURE    exit code 1 if they print something else than the picture shows, times and
                                         other numbers aside
"""

import fcntl
import html
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios
import textwrap

from run_document import first_difference

COLUMNS, LINE, CHARACTER, MARGIN = 100, 18, 7.85, 16
COMMANDS = [
    "gcc -o rc_pingpong examples/rc_pingpong.c -libverbs",
    "softhca-run --daemon ibv_devinfo | grep -E 'hca_id|state|link_layer'",
    "# two programs, of two tenants of a private daemon",
    "softhca-run --daemon sh -c '\n"
    "  $SOFTHCA_A ./rc_pingpong >/dev/null &\n"
    "  $SOFTHCA_B ./rc_pingpong 127.0.0.1'",
    "# on two hosts, with a link that loses packets",
    "softhca-run --daemon --hosts 2 --loss 5% sh -c '\n"
    "  $SOFTHCA_A ./rc_pingpong -n 100 >/dev/null &\n"
    "  $SOFTHCA_B ./rc_pingpong -n 100 127.0.0.1\n"
    "  $SOFTHCA_B softhcactl fault list'",
    "# a failure, and what the daemon says about it",
    "softhca-run --daemon sh -c '\n"
    "  softhcactl fault add drop --tenant b --every 1\n"
    "  $SOFTHCA_A ./rc_pingpong >/dev/null 2>&1 &\n"
    "  $SOFTHCA_B ./rc_pingpong 127.0.0.1\n"
    "  softhcactl events | grep -o \"queue pair .*\"'",
]


def run(command):
    """What a command prints on a terminal."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    process = subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
                               env={**os.environ, "NO_COLOR": "1", "TERM": "dumb"})
    os.close(terminal)
    printed = b""
    try:
        while part := os.read(controller, 65536):
            printed += part
    except OSError:  # EIO: the last process that had the terminal has ended
        pass
    os.close(controller)
    process.wait()
    return printed.decode().replace("\r\n", "\n").expandtabs().rstrip("\n")


def session():
    """(class, line) of each line of the terminal."""
    lines = []
    for command in COMMANDS:
        first, *rest = command.split("\n")
        if lines and not lines[-1][1].startswith("$ #"):
            lines.append(("output", ""))
        lines.append(("comment" if first.startswith("#") else "command", f"$ {first}"))
        lines += [("command", line) for line in rest]
        if not first.startswith("#"):
            lines += [("output", line) for line in run(command).splitlines()]
    return lines


def drawing(lines):
    """The picture: one text for each line, of one tspan for each row that the line takes."""
    row, texts = 0, []
    for kind, line in lines:
        spans = []
        for part in textwrap.wrap(line, COLUMNS, drop_whitespace=False, replace_whitespace=False) or [""]:
            row += 1
            spans.append(f'<tspan x="{MARGIN}" y="{MARGIN + LINE * row - 5}">{html.escape(part, False)}</tspan>')
        texts.append(f'  <text class="{kind}">{"".join(spans)}</text>')
    width, height, texts = round(COLUMNS * CHARACTER) + 2 * MARGIN, row * LINE + 2 * MARGIN, "\n".join(texts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            'font-family="monospace" font-size="13">\n'
            "  <title>The first minute: a program on one host, on two, and with a failure</title>\n"
            "  <style>\n"
            "    text { white-space: pre } .command { fill: #fff; font-weight: bold } .comment { fill: #8fd19e }\n"
            "    .output { fill: #c9ced6 }\n"
            "  </style>\n"
            f'  <rect width="{width}" height="{height}" rx="8" fill="#1b1f27"/>\n{texts}\n</svg>\n')


def shown(picture):
    return [html.unescape(re.sub(r"</?tspan[^>]*>", "", line))
            for line in re.findall(r'<text class="\w+">(.*)</text>', picture)]


def main():
    check = sys.argv[1] == "--check"
    picture = pathlib.Path(sys.argv[-1])
    lines = session()
    if not check:
        picture.write_text(drawing(lines), encoding="utf-8")
        return 0
    printed = "\n".join(line for _, line in lines)
    wrong = first_difference("\n".join(shown(picture.read_text(encoding="utf-8"))), printed)
    if wrong is not None:
        print(f"not printed: {wrong}\nbut:\n{printed}")
    return 0 if wrong is None else 1


if __name__ == "__main__":
    sys.exit(main())

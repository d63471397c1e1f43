#!/usr/bin/env python3
"""Draws docs/drawings/benchmark.svg: figures of docs/performance.md beside those of TCP and of Soft-RoCE (rxe).

Usage: draw_benchmark.py [ROOT]            writes the drawing
       draw_benchmark.py --check [ROOT]    exit code 1 if the drawing has other figures than the document
"""

import html
import pathlib
import re
import sys

LEFT, BAR, WIDTH, LINE = 210, 430, 760, 18  # where bars begin, the longest one, the whole; height of a bar
STYLE = """  <style>
    .paper { fill: #fff } .text { fill: #222 } .value { fill: #222; font-size: 12px } .strong { font-weight: bold }
    .softhca { fill: #3f6fc4 } .TCP { fill: #9aa0a8 } .rxe { fill: #d08a2e }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #1e2129 } .text, .value { fill: #e6e6e6 } .softhca { fill: #6f9cf0 } .TCP { fill: #767c86 }
      .rxe { fill: #d9983f }
    }
  </style>
"""


def rows(document):
    """The cells of each line of a table, by the first one."""
    found = {}
    for line in document.splitlines():
        if line.startswith("| "):
            first, *cells = [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
            found[first] = cells
    return found


def pair(cell):
    """softhca's figure and the one beside it, as in "17.95, 17.67: 1.02 (0.95-1.11)"."""
    return [float(figure) for figure in re.match(r"([\d.]+), ([\d.]+):", cell).groups()]


def panels(table):
    """Title of each panel, and its groups of bars: label, [(program, figure)]."""
    beside_tcp = []
    for column, mtu in enumerate((9000, 1500)):
        for size in ("64 KiB", "1 MiB"):
            figures = pair(table[f"ib_write_bw {size} / TCP"][column])
            beside_tcp.append((f"{size}, MTU {mtu}", list(zip(("softhca", "TCP"), figures))))
    latency = pair(table["UCX tag_lat 8 B, rc_v / tcp"][0])
    softhca, rxe = table["two tenants of one daemon, in the guest"], table["rxe and itself, in the guest"]
    assert softhca[0] == rxe[0], "different numbers of connections"
    connects = [(what, [("softhca", float(softhca[column])), ("rxe", float(rxe[column]))])
                for column, what in ((1, "connect"), (2, "disconnect"))]
    return [("Bandwidth of writes between two hosts, Gb/s: more is better", beside_tcp),
            ("Latency of 8 bytes between two hosts (UCX), µs: less is better",
             [("MTU 9000", list(zip(("softhca", "TCP"), latency)))]),
            (f"{softhca[0]} connections of rdma_cm in an emulated guest, ms: less is better", connects)]


def drawing(document):
    parts, y = [], 8
    for title, groups in panels(rows(document)):
        y += 24
        parts.append(f'  <text class="text strong" x="16" y="{y}">{html.escape(title)}</text>')
        y += 10
        longest = max(figure for _, bars in groups for _, figure in bars)
        for label, bars in groups:
            parts.append(f'  <text class="text" x="{LEFT - 10}" y="{y + LINE * len(bars) // 2 + 5}" '
                         f'text-anchor="end">{label}</text>')
            for program, figure in bars:
                length = max(1, round(BAR * figure / longest))
                parts.append(f'  <rect class="{program}" x="{LEFT}" y="{y}" width="{length}" height="{LINE - 3}"/>')
                parts.append(f'  <text class="value" x="{LEFT + length + 6}" y="{y + 12}">{program} {figure:g}</text>')
                y += LINE
            y += 8
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 4}" width="{WIDTH}" '
            'font-family="sans-serif" font-size="14">\n'
            '  <title>Bandwidth and latency beside TCP, connects beside Soft-RoCE</title>\n'
            f'{STYLE}  <rect class="paper" width="{WIDTH}" height="{y + 4}"/>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    check = sys.argv[1:2] == ["--check"]
    root = pathlib.Path(sys.argv[1 + check] if len(sys.argv) > 1 + check else ".")
    picture = root / "docs" / "drawings" / "benchmark.svg"
    text = drawing((root / "docs" / "performance.md").read_text(encoding="utf-8"))
    if not check:
        picture.write_text(text, encoding="utf-8")
    elif picture.read_text(encoding="utf-8") != text:
        print("docs/drawings/benchmark.svg differs from docs/performance.md; run tools/draw_benchmark.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

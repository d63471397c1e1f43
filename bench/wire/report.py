#!/usr/bin/env python3
"""Tables and picture of the bench of the wire: report.py DIRECTORY SVG-FILE MTU...

Files in DIRECTORY are named after their MTU and hold lines "WHAT FIGURE", one for each turn."""
import collections
import pathlib
import statistics
import sys

# Figure, compared figure, name of the ratio, its goal, and whether the figures are times (less is better).
ROWS = [
    ('write-64k', 'tcp-1', '`ib_write_bw` 64 KiB / TCP', {9000: 0.8, 1500: 0.7}, False),
    ('write-1m', 'tcp-1', '`ib_write_bw` 1 MiB / TCP', {9000: 0.8, 1500: 0.7}, False),
    ('write-64k-16', 'tcp-16', '`ib_write_bw` 64 KiB / TCP, 16 connections', {}, False),
    ('write-cold', 'tcp-16', '`ib_write_bw` 8 MiB of 16 connections, cold memory / TCP', {}, False),
    ('write-64k-ipv6', 'write-64k', '`ib_write_bw` over IPv6 / over IPv4', {}, False),
    ('socket-64k', 'write-64k', '`ib_write_bw` 64 KiB, ports on UDP sockets / on packet sockets',
     {9000: 0.8, 1500: 0.8}, False),
    ('socket-1m', 'write-1m', '`ib_write_bw` 1 MiB, ports on UDP sockets / on packet sockets',
     {9000: 0.8, 1500: 0.8}, False),
    ('write-64k', 'port', '`ib_write_bw` 64 KiB / bare port', {}, False),
    ('ucx-rc-4096', 'ucx-tcp-4096', 'UCX tag_bw 4 KiB, rc_v / tcp', {9000: 1, 1500: 1}, False),
    ('ucx-rc-65536', 'ucx-tcp-65536', 'UCX tag_bw 64 KiB, rc_v / tcp', {9000: 1, 1500: 1}, False),
    ('ucx-rc-1048576', 'ucx-tcp-1048576', 'UCX tag_bw 1 MiB, rc_v / tcp', {9000: 1, 1500: 1},
     False),
    ('ucx-ud-65536', 'ucx-tcp-65536', 'UCX tag_bw 64 KiB, ud_v / tcp', {9000: 0.5, 1500: 0.5},
     False),
    ('ucx-lat-rc', 'ucx-lat-tcp', 'UCX tag_lat 8 B, rc_v / tcp', {9000: 1, 1500: 1}, True),
]


def read(path):
    """{what: [figure of each turn]}"""
    figures = collections.defaultdict(list)
    for line in path.read_text().splitlines():
        what, _, figure = line.partition(' ')
        if figure:
            figures[what].append(float(figure))
    return figures


def ratios(figures):
    """(name, ours, theirs, ratio, least, greatest, bars by MTU); ours, theirs and ratio are medians.

    Ratios are above 1 where softhca is better."""
    for what, beside, name, bars, is_time in ROWS:
        if not figures[what] or not figures[beside]:
            continue
        ours, theirs = statistics.median(figures[what]), statistics.median(figures[beside])
        each = [b / a if is_time else a / b for a, b in zip(figures[what], figures[beside])]
        yield name, ours, theirs, statistics.median(each), min(each), max(each), bars


def print_table(mtu, figures):
    print(f'\nMTU {mtu}, {len(figures["write-64k"])} turns:\n')
    print('| what | softhca | beside it | ratio (median, least to greatest) | bar |')
    print('| --- | --- | --- | --- | --- |')
    for name, ours, theirs, ratio, least, greatest, bars in ratios(figures):
        bar = f'{bars[mtu]:g}' + ('' if ratio >= bars[mtu] else ', short') if mtu in bars else ''
        print(f'| {name} | {ours:.2f} | {theirs:.2f} | {ratio:.2f} ({least:.2f} to {greatest:.2f}) '
              f'| {bar} |')
    rate = statistics.median(figures['rate-8'])
    print(f'| writes of 8 bytes, million/s | {rate:.2f} | | | 1.5{"" if rate >= 1.5 else ", short"} |')


def draw(path, measured):
    """Bars of the ratios, a line at 1."""
    rows = {name: None for figures in measured.values() for name, *_ in ratios(figures)}
    height, left, unit = 18, 420, 260
    group = height * len(measured) + 10
    colours = ['#3465a4', '#c17d11', '#75507b']
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + 2 * unit}" '
             f'height="{group * len(rows) + 40}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>']
    for i, name in enumerate(rows):
        top = 30 + i * group
        text = name.replace('`', '')
        parts.append(f'<text x="{left - 8}" y="{top + group / 2}" text-anchor="end">{text}</text>')
        for j, (mtu, figures) in enumerate(measured.items()):
            for other, _, _, ratio, *_ in ratios(figures):
                if other != name:
                    continue
                width = min(ratio, 1.8) * unit
                y = top + j * height
                parts.append(f'<rect x="{left}" y="{y}" width="{width:.0f}" height="{height - 3}" '
                             f'fill="{colours[j % len(colours)]}"/>')
                parts.append(f'<text x="{left + width + 4:.0f}" y="{y + 12}">{ratio:.2f}</text>')
    parts.append(f'<line x1="{left + unit}" y1="24" x2="{left + unit}" '
                 f'y2="{group * len(rows) + 30}" stroke="black" stroke-dasharray="4"/>')
    for j, mtu in enumerate(measured):
        parts.append(f'<text x="{left + j * 110}" y="16" fill="{colours[j % len(colours)]}">'
                     f'MTU {mtu}</text>')
    parts.append('</svg>')
    path.write_text('\n'.join(parts) + '\n')


def main():
    directory, svg, *mtus = sys.argv[1:]
    measured = {int(mtu): read(pathlib.Path(directory, mtu)) for mtu in mtus}
    for mtu, figures in measured.items():
        print_table(mtu, figures)
    if svg:
        draw(pathlib.Path(svg), measured)


main()

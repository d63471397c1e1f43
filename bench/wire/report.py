#!/usr/bin/env python3
"""Tables and picture of the bench of the wire: report.py DIRECTORY SVG-FILE MTU...

Files in DIRECTORY are named after their MTU and hold lines "WHAT FIGURE", one for each turn."""
import collections
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from figures import compare, draw, read

# Figure, compared figure, name of the ratio, its goal, and whether the figures are times (less is better).
ROWS = [
    ('write-64k', 'tcp-1', '`ib_write_bw` 64 KiB / TCP', {9000: 0.8, 1500: 0.7}, False),
    ('write-1m', 'tcp-1', '`ib_write_bw` 1 MiB / TCP', {9000: 0.8, 1500: 0.7}, False),
    ('write-64k-16', 'tcp-16', '`ib_write_bw` 64 KiB / TCP, 16 connections', {}, False),
    ('write-cold', 'tcp-16', '`ib_write_bw` 8 MiB of 16 connections, cold memory / TCP', {}, False),
    ('write-64k-ipv6', 'write-64k', '`ib_write_bw` over IPv6 / over IPv4', {}, False),
    ('udp-64k', 'write-64k', '`ib_write_bw` 64 KiB, ports on UDP sockets / on packet sockets',
     {9000: 0.8, 1500: 0.8}, False),
    ('udp-1m', 'write-1m', '`ib_write_bw` 1 MiB, ports on UDP sockets / on packet sockets',
     {9000: 0.8, 1500: 0.8}, False),
    ('dpdk-64k', 'write-64k', '`ib_write_bw` 64 KiB, ports on a memif / on packet sockets', {9000: 1}, False),
    ('dpdk-1m', 'write-1m', '`ib_write_bw` 1 MiB, ports on a memif / on packet sockets', {9000: 1}, False),
    ('dpdk-rate-64', 'rate-64', '`ib_write_bw -q 8` 64 B, ports on a memif / on packet sockets', {9000: 1.5}, False),
    ('dpdk-64k', 'dpdk-port', '`ib_write_bw` 64 KiB / bare port, memif', {9000: 0.9}, False),
    ('dpdk-1m', 'dpdk-port', '`ib_write_bw` 1 MiB / bare port, memif', {9000: 0.9}, False),
    ('vhost-64k', 'write-64k', '`ib_write_bw` 64 KiB, ports on vhost-user / on packet sockets', {}, False),
    ('vhost-1m', 'write-1m', '`ib_write_bw` 1 MiB, ports on vhost-user / on packet sockets', {}, False),
    ('vhost-rate-64', 'rate-64', '`ib_write_bw -q 8` 64 B, ports on vhost-user / on packet sockets', {}, False),
    ('vhost-64k', 'vhost-port', '`ib_write_bw` 64 KiB / bare port, vhost-user', {9000: 0.9}, False),
    ('vhost-1m', 'vhost-port', '`ib_write_bw` 1 MiB / bare port, vhost-user', {9000: 0.9}, False),
    ('iface-64k', 'write-64k', '`ib_write_bw` 64 KiB, ports on `iface=` / on packet sockets', {}, False),
    ('iface-1m', 'write-1m', '`ib_write_bw` 1 MiB, ports on `iface=` / on packet sockets', {}, False),
    ('iface-rate-64', 'rate-64', '`ib_write_bw -q 8` 64 B, ports on `iface=` / on packet sockets', {}, False),
    ('iface-64k', 'iface-port', '`ib_write_bw` 64 KiB / bare port, `iface=`', {9000: 0.9}, False),
    ('iface-1m', 'iface-port', '`ib_write_bw` 1 MiB / bare port, `iface=`', {9000: 0.9}, False),
    ('write-64k', 'port', '`ib_write_bw` 64 KiB / bare port, packet sockets', {}, False),
    ('ucx-rc-4096', 'ucx-tcp-4096', 'UCX tag_bw 4 KiB, rc_v / tcp', {9000: 1, 1500: 1}, False),
    ('ucx-rc-65536', 'ucx-tcp-65536', 'UCX tag_bw 64 KiB, rc_v / tcp', {9000: 1, 1500: 1}, False),
    ('ucx-rc-1048576', 'ucx-tcp-1048576', 'UCX tag_bw 1 MiB, rc_v / tcp', {9000: 1, 1500: 1},
     False),
    ('ucx-ud-65536', 'ucx-tcp-65536', 'UCX tag_bw 64 KiB, ud_v / tcp', {9000: 0.5, 1500: 0.5},
     False),
    ('ucx-lat-rc', 'ucx-lat-tcp', 'UCX tag_lat 8 B, rc_v / tcp', {9000: 1, 1500: 1}, True),
]


def ratios(figures):
    """(name, ours, theirs, ratio, least, greatest, bars by MTU); ours, theirs and ratio are medians.

    Ratios are above 1 where softhca is better."""
    for what, beside, name, bars, is_time in ROWS:
        if not figures[what] or not figures[beside]:
            continue
        yield name, *compare(figures[what], figures[beside], is_time), bars


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


def main():
    directory, svg, *mtus = sys.argv[1:]
    measured = {int(mtu): read(pathlib.Path(directory, mtu)) for mtu in mtus}
    for mtu, figures in measured.items():
        print_table(mtu, figures)
    if svg:
        groups = collections.defaultdict(dict)
        for mtu, figures in measured.items():
            for name, _, _, ratio, *_ in ratios(figures):
                groups[name][f'MTU {mtu}'] = ratio
        draw(pathlib.Path(svg), groups)


main()

#!/usr/bin/env python3
"""Tables and picture of the bench of latencies: report.py DIRECTORY SVG-FILE PLACEMENT...

A file PLACEMENT-HOSTS in DIRECTORY has lines "WHAT FIGURE", one for each turn."""
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from figures import compare, draw, read

WHERE = {1: 'one host', 2: 'two hosts'}
# Figure, name of the program.
POLLING = [(program, f'`{program}`') for program in ('ib_send_lat', 'ib_write_lat', 'ib_read_lat')] + [
    ('ucx', 'UCX tag_lat, rc_v'), ('ucx-tcp', 'UCX tag_lat, tcp, for comparison')]
# A bar of the picture is cut above so many times the median figure.
LONGEST = 4
# Figure, compared figure, name of the ratio.
BESIDE_TCP = [('ucx', 'ucx-tcp', 'UCX tag_lat 8 B, rc_v / tcp')] + [
    (f'echo-{size}-{in_flight}', f'echo-{size}-{in_flight}-tcp',
     f'echo of {text}, {in_flight} in flight, verbs / TCP')
    for in_flight in (1, 16) for size, text in ((64, '64 B'), (4096, '4 KiB'), (65536, '64 KiB'))]


def main():
    directory, svg, *placements = sys.argv[1:]
    measured = {(placement, hosts): read(pathlib.Path(directory, f'{placement}-{hosts}'))
                for hosts in WHERE for placement in placements}
    turns = len(next(iter(measured.values()))['ucx'])

    print(f'8 bytes, polling, typical and 99th percentile in us, {turns} turns:\n')
    print('| program | where |', ' | '.join(placements), '|')
    print('| --- | --- |' + ' --- |' * len(placements))
    typical = {}
    for what, name in POLLING:
        for hosts, where in WHERE.items():
            cells = []
            bars = typical.setdefault(f'{name}, {where}', {})
            for placement in placements:
                figures = measured[placement, hosts]
                figure = bars[f'{placement}, us'] = statistics.median(figures[what])
                high = figures.get(f'{what}-99')
                cells.append(f'{figure:.1f}' + (f'; {statistics.median(high):.0f}' if high else ''))
            print(f'| {name} | {where} |', ' | '.join(cells), '|')
    if svg:
        median = statistics.median(figure for bars in typical.values() for figure in bars.values())
        draw(pathlib.Path(svg), typical, longest=LONGEST * median, line=None, digits=1)

    print('\nBeside TCP, us for a message: softhca, TCP: ratio (least to greatest);')
    print('with one in flight the median from a message to its echo:\n')
    print('| what | where |', ' | '.join(placements), '|')
    print('| --- | --- |' + ' --- |' * len(placements))
    for what, beside, name in BESIDE_TCP:
        for hosts, where in WHERE.items():
            cells = []
            for placement in placements:
                figures = measured[placement, hosts]
                ours, theirs, ratio, least, most = compare(figures[what], figures[beside], True)
                cells.append(f'{ours:.1f}, {theirs:.1f}: {ratio:.2f} ({least:.2f} to {most:.2f})')
            print(f'| {name} | {where} |', ' | '.join(cells), '|')


main()

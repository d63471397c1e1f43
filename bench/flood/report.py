#!/usr/bin/env python3
"""Table of a flood from the lines of phase.sh: report.py NAME. Figures are medians of the rounds."""
import collections
import statistics
import sys

figures = collections.defaultdict(list)
for line in sys.stdin:
    phase, measure, p50, p99 = line.split()
    figures[phase, measure].append((float(p50), float(p99)))


def median(phase, measure, which):
    return statistics.median(pair[which] for pair in figures[phase, measure])


print(f'{sys.argv[1]}: {median("here", "sent", 0):.0f} a second, '
      f'{100 * max(median("here", "sent", 1), 0):.2f} % lost')
for measure, unit in (('connect', 'ms'), ('write', 'us')):
    for which, name in enumerate(('p50', 'p99')):
        quiet, elsewhere, here = (median(p, measure, which) for p in ('quiet', 'elsewhere', 'here'))
        print(f'  {measure:8} {name} {quiet:9.3f} alone {elsewhere:9.3f} elsewhere {here:9.3f} here {unit}  '
              f'ratio {here / quiet:5.2f} to alone, {here / elsewhere:5.2f} to elsewhere')

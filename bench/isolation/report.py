#!/usr/bin/env python3
"""Table of the isolation bench from the files of its phases: report.py DIRECTORY SCENARIO..."""
import pathlib
import re
import sys

LINE = re.compile(r'softhca_(\w+?)(?:\{(.*)\})? (\S+)$')


class Phase:
    """Figures of one phase."""

    def __init__(self, path):
        lines = [line.split() for line in path.read_text().splitlines()]
        self.figures = [line for line in lines if line and line[0] == 'write']
        self.samples = []
        for line in path.with_name(path.name + '.samples').read_text().splitlines():
            if line.startswith('sample '):
                self.samples.append({'time': float(line.split()[1])})
            elif match := LINE.match(line):
                name, labels, value = match.groups()
                labels = dict(re.findall(r'(\w+)="([^"]*)"', labels or ''))
                key = (name, labels.get('tenant'), labels.get('quantile'))
                self.samples[-1][key] = float(value)
        self.samples = [s for s in self.samples if len(s) > 1]

    def engine_p99(self):
        """Engine time, for anybody, during a command: that of 99 % is within so many us."""
        return self.samples[-1]['command_engine_seconds', 'a', '0.99'] * 1e6

    def steady(self):
        """First and last sample between which the victim was at it all the time."""
        key = ('local_messages_total', 'a', None)
        rising = [i for i in range(1, len(self.samples))
                  if self.samples[i][key] > self.samples[i - 1][key]]
        if len(rising) < 4:
            raise ValueError('too few samples')
        # The victim may have been absent for part of the first and of the last interval.
        return self.samples[rising[0]], self.samples[rising[-1] - 1]

    def rate(self, name, tenant=None):
        """A second, in the steady part; of all tenants together when none is named."""
        first, last = self.steady()
        keys = [k for k in last if k[0] == name and tenant in (None, k[1])]
        return sum(last[k] - first[k] for k in keys) / (last['time'] - first['time'])

    def share(self, tenant):
        return self.rate('engine_seconds_total', tenant) / self.rate('engine_seconds_total')


def row(scenario, what, alone, contended, ratio, target, less, clock=''):
    met = ratio <= target if less else ratio >= target
    print(f'{scenario:14} {what:34} {alone:>12} {contended:>12} {ratio:7.3f} '
          f'{"<=" if less else ">="} {target:4.2f} {"met" if met else "SHORT":6} {clock}')


def latency(scenario, alone, contended):
    """By the clock; beside it, the engine time that others add."""
    (p50, p99), (contended_p50, contended_p99) = ((float(x) for x in p.figures[0][2:4])
                                                  for p in (alone, contended))
    row(scenario, 'latency 16 B: p99 by the clock', f'{p99:.1f} us', f'{contended_p99:.1f} us',
        contended_p99 / p99, 1.25 if scenario.startswith(('hog', 'reached')) else 2, True,
        f'p50 {p50:.1f} -> {contended_p50:.1f} us; engine time during 99 % of the commands '
        f'{alone.engine_p99():.2f} -> {contended.engine_p99():.2f} us')


def rate(scenario, alone, contended):
    """Guaranteed is half the engine, or all the victim asks for if that is less."""
    demand = alone.rate('engine_seconds_total', 'a')
    share = contended.share('a')
    messages = [float(p.figures[0][3]) for p in (alone, contended)]
    row(scenario, 'rate 64 B, 8 QPs: share of engine', f'{demand:.3f}', f'{share:.3f}',
        share / min(0.5, demand), 0.95, False,
        f'{messages[0]:.2f} -> {messages[1]:.2f} million/s, {messages[1] / messages[0]:.2f}')


def own_rate(scenario, alone, contended):
    """Queue pairs of the same tenant that cannot go on are not to cost much."""
    messages = [float(p.figures[0][3]) for p in (alone, contended)]
    row(scenario, 'rate 64 B, 8 QPs: million/s', f'{messages[0]:.2f}', f'{messages[1]:.2f}',
        messages[1] / messages[0], 0.9, False)


def bandwidth(scenario, alone, contended):
    """Somebody who asks for next to nothing is not to cost much."""
    figures = [float(p.figures[0][4]) for p in (alone, contended)]
    row(scenario, 'rate 1 MiB: GB/s by the clock', f'{figures[0]:.1f}', f'{figures[1]:.1f}',
        figures[1] / figures[0], 0.9, False)


def equals(phase):
    shares = [phase.share('a'), phase.share('b')]
    jain = sum(shares) ** 2 / (2 * sum(s * s for s in shares))
    row('equals', '1 against 64 QPs: shares; Jain', f'{shares[0]:.3f}', f'{shares[1]:.3f}', jain,
        0.99, False)


def main():
    directory, scenarios = pathlib.Path(sys.argv[1]), sys.argv[2:]

    def attempt(body, *phases):
        try:
            body(*(Phase(directory / p) for p in phases))
        except (OSError, ValueError, IndexError, KeyError) as error:
            print(f'{phases[-1]}: no figures: {error!r}')

    print(f'{"scenario":14} {"what":34} {"alone":>12} {"contended":>12} {"ratio":>7} {"target":7} '
          f'{"":6} by the clock')
    for scenario in scenarios:
        if scenario == 'equals':
            attempt(equals, 'equals-qps64')
            continue
        if scenario == 'rare':
            attempt(lambda *p: bandwidth('rare', *p), 'bandwidth-alone', 'bandwidth-rare')
            continue
        for victim, body in (('latency', latency), ('rate', rate)):
            alone = 'port' if scenario == 'neighbours' else 'alone'
            names = [f'{victim}-{alone}', f'{victim}-{scenario}']
            if not (directory / names[1]).exists():
                continue
            body = own_rate if scenario.startswith('stalled') else body
            attempt(lambda *p, s=scenario, b=body: b(s, *p), *names)


main()

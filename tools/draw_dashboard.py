#!/usr/bin/env python3
"""Draws a Grafana dashboard as an HTML page, with the values that a Prometheus has: what it shows can be
seen where there is no Grafana. Panels have their places, titles, expressions, legends and units; "stat" and
"timeseries" are known. `chromium --headless --screenshot` makes a picture of the page.

usage: draw_dashboard.py DASHBOARD URL SECONDS PAGE [ROW...]
   the last SECONDS; only the panels of these rows, by title, unless none is named
   prints the size of the page in pixels, as chromium's --window-size takes it"""
import datetime
import html
import json
import math
import re
import sys
import time
import urllib.parse
import urllib.request

COLUMN, LINE, GAP = 56, 34, 6  # pixels of Grafana's grid
COLOURS = ['#3465a4', '#c17d11', '#4e9a06', '#75507b', '#cc0000', '#06989a', '#8f5902', '#555753']
STEPS = 60  # of a graph
BASES = {'Bps': (1024, 'B/s'), 'bytes': (1024, 'B'), 'ops': (1000, '/s'), 'pps': (1000, '/s'), 's': (1000, 's'),
         'short': (1000, '')}


def ask(url, path, **parameters):
    query = urllib.parse.urlencode(parameters)
    with urllib.request.urlopen(f'{url}/api/v1/{path}?{query}', timeout=10) as answer:
        return json.load(answer)['data']['result']


def readable(value, unit):
    if not math.isfinite(value):
        return '-'
    if unit == 'percentunit':
        return f'{100 * value:.3g} %'
    if unit == 'dateTimeFromNow':
        return f'{datetime.timedelta(seconds=round(time.time() - value / 1000))} ago'
    base, suffix = BASES.get(unit, (1000, f' {unit}'))
    if value == 0:
        return f'0{suffix and " " + suffix}'
    power = max(-3, min(4, math.floor(math.log(abs(value), base))))
    if power < 0 and unit != 's':
        power = 0
    prefix = 'n µ m'.split()[power + 3] if power < 0 else ['', 'k', 'M', 'G', 'T'][power]
    return f'{value / base ** power:.3g} {prefix}{suffix}'.rstrip()


def legend(form, labels):
    return re.sub(r'\{\{(\w+)\}\}', lambda match: labels.get(match[1], ''), form) if form else ''


def unit_of(panel):
    return panel.get('fieldConfig', {}).get('defaults', {}).get('unit', 'short')


def stat(panel, results, width, height):
    """The last value of each series; text where the values are labels."""
    unit, lines = unit_of(panel), []
    for form, series in results:
        for one in series[:2]:
            text = legend(form, one['metric'])
            value = readable(float(one['value'][1]), unit)
            shown = text if panel.get('options', {}).get('textMode') == 'name' else value
            small = '' if shown == text else text
            lines.append(f'<b>{html.escape(shown)}</b> <small>{html.escape(small)}</small>')
    return '<div class="stat">' + '<br>'.join(lines or ['-']) + '</div>'


def graph(panel, results, width, height):
    unit = unit_of(panel)
    series = [(legend(form, one['metric']), [(float(t), float(v)) for t, v in one['values']])
              for form, found in results for one in found]
    series = [(name, [p for p in points if math.isfinite(p[1])]) for name, points in series]
    series = sorted((s for s in series if s[1]), key=lambda s: -s[1][-1][1])
    top = max((v for _, points in series for _, v in points), default=0) or 1
    left, bottom, plot_height = 62, 14, height - 96
    first = min((points[0][0] for _, points in series), default=0)
    last = max((points[-1][0] for _, points in series), default=1)
    across = (width - left - 12) / max(last - first, 1)
    parts = []
    for k in range(3):
        y = 8 + plot_height * k / 2
        parts.append(f'<line x1="{left}" x2="{width - 12}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>'
                     f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{readable(top * (2 - k) / 2, unit)}</text>')
    for t, anchor in ((first, 'start'), (last, 'end')):
        clock = datetime.datetime.fromtimestamp(t).strftime('%H:%M:%S')
        parts.append(f'<text x="{left + (t - first) * across:.0f}" y="{plot_height + 8 + bottom}" '
                     f'text-anchor="{anchor}">{clock}</text>')
    for k, (_, points) in enumerate(series):
        line = ' '.join(f'{left + (t - first) * across:.1f},{8 + plot_height * (1 - v / top):.1f}' for t, v in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke-width="1.5" stroke="{COLOURS[k % len(COLOURS)]}"/>')
    names = ''.join(f'<span style="color:{COLOURS[k % len(COLOURS)]}">&#9644;</span> {html.escape(name)} &nbsp;'
                    for k, (name, _) in enumerate(series[:6]))
    if len(series) > 6:
        names += f'and {len(series) - 6} more'
    return (f'<svg width="{width}" height="{plot_height + 26}" font-size="10">{"".join(parts)}</svg>'
            f'<div class="legend">{names}</div>')


def wanted(panels, rows):
    """Those below a row that is named, moved up over those that are not."""
    kept, row, shift, skipped_from = [], None, 0, None
    for panel in sorted(panels, key=lambda p: (p['gridPos']['y'], p['gridPos']['x'])):
        if panel['type'] == 'row':
            row = panel['title']
            if rows and skipped_from is not None and row in rows:
                shift += panel['gridPos']['y'] - skipped_from
                skipped_from = None
            if rows and row not in rows and skipped_from is None:
                skipped_from = panel['gridPos']['y']
        if not rows or row in rows:
            kept.append((panel, panel['gridPos']['y'] - shift))
    return kept


def main():
    dashboard, url, seconds, page, *rows = sys.argv[1:]
    seconds, now = int(seconds), time.time()
    variables = {'$instance': '.+', '$tenant': '.+', '$__rate_interval': '10s'}
    parts, bottom = [], 0
    with open(dashboard) as file:
        panels = json.load(file)['panels']
    for panel, y in wanted(panels, rows):
        place = panel['gridPos']
        width, height = place['w'] * COLUMN - GAP, place['h'] * LINE - GAP
        bottom = max(bottom, (y + place['h']) * LINE)
        body = ''
        if panel['type'] != 'row':
            results = []
            for target in panel['targets']:
                query = target['expr']
                for variable, value in variables.items():
                    query = query.replace(variable, value)
                found = (ask(url, 'query', query=query) if panel['type'] == 'stat' else
                         ask(url, 'query_range', query=query, start=now - seconds, end=now,
                             step=max(1, seconds // STEPS)))
                results.append((target.get('legendFormat', ''), found))
            draw = {'stat': stat, 'timeseries': graph}[panel['type']]
            body = draw(panel, results, width, height)
        parts.append(f'<div class="{panel["type"]}" style="left:{place["x"] * COLUMN}px;top:{y * LINE}px;'
                     f'width:{width}px;height:{height}px"><h4>{html.escape(panel["title"])}</h4>{body}</div>')
    margin = 8
    style = (f'body{{margin:{margin}px;background:#f4f5f5;font-family:sans-serif}}#all{{position:relative;'
             f'width:{24 * COLUMN}px;height:{bottom}px}}#all>div{{position:absolute;background:#fff;'
             'border:1px solid #ddd;overflow:hidden;box-sizing:border-box}#all>div.row{background:none;border:none}'
             'h4{margin:4px 8px;font-size:12px;font-weight:600}.row h4{font-size:15px}'
             'div.stat>div.stat{text-align:center;font-size:18px;padding-top:10px}small{font-size:11px;color:#555}'
             '.legend{font-size:10px;padding:0 8px;line-height:14px}')
    with open(page, 'w') as file:
        file.write(f'<!doctype html><meta charset="utf-8"><title>softhca</title><style>{style}</style>'
                   f'<div id="all">{"".join(parts)}</div>\n')
    print(f'{24 * COLUMN + 2 * margin},{bottom + 2 * margin}')


main()

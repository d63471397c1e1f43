"""Figures of measurements in files of lines "WHAT FIGURE", one for each turn."""
import collections
import statistics


def read(path):
    """{what: [figure of each turn]}"""
    figures = collections.defaultdict(list)
    for line in path.read_text().splitlines():
        what, _, figure = line.partition(' ')
        if figure:
            figures[what].append(float(figure))
    return figures


def compare(ours, theirs, is_time):
    """(ours, theirs, ratio, least, greatest) of the figures of the same turns; the first three are medians.

    Ratios are above 1 where the first are better."""
    each = [b / a if is_time else a / b for a, b in zip(ours, theirs)]
    return (statistics.median(ours), statistics.median(theirs), statistics.median(each), min(each),
            max(each))


def draw(path, groups, longest=1.8, line=1, digits=2):
    """Draws bars of ratios, with a line at 1, or of other figures: {row: {series: figure}}.

    Bars above the longest are cut, and have an arrow before their figure. `line`: None: without."""
    series = list(dict.fromkeys(name for row in groups.values() for name in row))
    height, left, full = 18, 420, 468
    group = height * len(series) + 10
    colours = ['#3465a4', '#c17d11', '#75507b', '#4e9a06', '#a40000', '#555753']
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + full + 72}" '
             f'height="{group * len(groups) + 40}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>']
    for i, (name, figures) in enumerate(groups.items()):
        top = 30 + i * group
        text = name.replace('`', '')
        parts.append(f'<text x="{left - 8}" y="{top + group / 2}" text-anchor="end">{text}</text>')
        for j, which in enumerate(series):
            if which not in figures:
                continue
            width = min(figures[which] / longest, 1) * full
            arrow = '→ ' if figures[which] > longest else ''
            y = top + j * height
            parts.append(f'<rect x="{left}" y="{y}" width="{width:.0f}" height="{height - 3}" '
                         f'fill="{colours[j % len(colours)]}"/>')
            parts.append(f'<text x="{left + width + 4:.0f}" y="{y + 12}">'
                         f'{arrow}{figures[which]:.{digits}f}</text>')
    if line is not None:
        x = left + line / longest * full
        parts.append(f'<line x1="{x:.0f}" y1="24" x2="{x:.0f}" '
                     f'y2="{group * len(groups) + 30}" stroke="black" stroke-dasharray="4"/>')
    for j, which in enumerate(series):
        parts.append(f'<text x="{left + j * 110}" y="16" fill="{colours[j % len(colours)]}">'
                     f'{which}</text>')
    parts.append('</svg>')
    path.write_text('\n'.join(parts) + '\n', encoding='utf-8')

#!/usr/bin/env python3
"""Adds executions to the table of a document: add_executions.py DOCUMENT. Lines "TARGET NUMBER" of standard
input; the row of each target is "| `TARGET` | NUMBER |", with commas between thousands."""
import re
import sys

with open(sys.argv[1]) as file:
    text = file.read()
for line in sys.stdin:
    target, number = line.split()
    row = re.compile(rf'^\| `{re.escape(target)}` \| ([\d,]+) \|$', re.MULTILINE)
    text, found = row.subn(lambda m: f'| `{target}` | {int(m[1].replace(",", "")) + int(number):,} |', text)
    if found != 1:
        sys.exit(f'add_executions: {target}: {found} rows in {sys.argv[1]}')
with open(sys.argv[1], 'w') as file:
    file.write(text)

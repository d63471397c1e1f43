#!/bin/bash
# Measures what a message costs the engine when both tenants are virtual machines, and when they are processes, in
# turns. The machines' agents run on the host, so no emulator slows the programs down.
# Prints a table for docs/performance.md: the engine's seconds for the tenants, divided by messages.
# Needs root, a built tree, and the packages of `tools/install-packages test`.
#
# usage: bench/guest/run.sh [--turns N] [--seconds N]
#   5 turns of 2 seconds for each measurement, unless it says otherwise
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
turns=5 seconds=2
while (($#)); do
  case $1 in
    --turns) turns=${2:?--turns needs a number}; shift 2 ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
    *) echo "unknown argument $1" >&2; exit 2 ;;
  esac
done
cd "$here/../.."
export SOFTHCA_BUILD=${SOFTHCA_BUILD:-$PWD/build}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/softhca-bench-guest.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
for ((turn = 1; turn <= turns; ++turn)); do
  echo "turn $turn of $turns" >&2
  for machines in '' --machines; do
    # shellcheck disable=SC2086  # a word, or none
    tools/sandbox --hosts 1 $machines "$here/phase.sh" "$seconds" "$tmp/${machines:---processes}" >&2
  done
done
python3 - "$tmp" <<'PYTHON'
import pathlib
import statistics
import sys

sys.path.insert(0, 'bench')
from figures import read

processes, machines = (read(pathlib.Path(sys.argv[1], kind)) for kind in ('--processes', '--machines'))
print('| program | processes, ns | machines, ns | ratio |\n| --- | --- | --- | --- |')
for what in processes:
    a, b = (statistics.median(figures[what]) for figures in (processes, machines))
    print(f'| `{what.replace("+", " ")}` | {a:.0f} | {b:.0f} | {b / a:.2f} |')
PYTHON

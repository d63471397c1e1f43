#!/bin/bash
# Measures latencies for each placement of programs and daemons on two cores: programs that poll (perftest, UCX)
# and programs that sleep until a message arrives, beside TCP, through one daemon and between two on a veth
# pair. Each figure is the median of several turns; each turn measures everything once.
# Prints tables for docs/performance.md, and draws the typical latencies of programs that poll on request.
# Needs root, an otherwise idle machine, a built tree with -Dbench=true, and the packages of
# `tools/install-packages test bench`.
#
# usage: bench/latency/run.sh [--turns N] [--svg FILE] [PLACEMENT...]
#   free      where the scheduler puts them
#   apart     no program on the core of its daemon
#   together  one daemon: all on one core; two daemons: each host on a core of its own
#   5 turns of all placements unless it says otherwise
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
turns=5 svg=''
while (($#)); do
  case $1 in
    --turns) turns=${2:?--turns needs a number}; shift 2 ;;
    --svg) svg=$(realpath "${2:?--svg needs a file}"); shift 2 ;;
    free | apart | together) break ;;
    *) echo "unknown argument $1" >&2; exit 2 ;;
  esac
done
placements=("$@")
((${#placements[@]})) || placements=(free apart together)
cd "$here/../.."
export SOFTHCA_BUILD=${SOFTHCA_BUILD:-$PWD/build}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/softhca-latency.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
for ((turn = 1; turn <= turns; ++turn)); do
  for placement in "${placements[@]}"; do
    echo "turn $turn of $turns, $placement" >&2
    for hosts in 1 2; do
      tools/sandbox --hosts $hosts "$here/phase.sh" "$placement" "$hosts" "$tmp/$placement-$hosts" >&2
    done
  done
done
python3 "$here/report.py" "$tmp" "$svg" "${placements[@]}"

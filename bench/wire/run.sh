#!/bin/bash
# Measures softhca between two machines, beside the alternatives of a program: TCP by iperf3, UCX over
# either, and the bare port. All use one link (a veth pair between two network namespaces) in one run.
# Each figure is the median of several turns; each turn measures everything once.
# Prints tables for docs/performance.md, and draws the ratios on request.
# Needs root, a built tree with -Dbench=true, and the packages of `tools/install-packages test bench`.
#
# usage: bench/wire/run.sh [--turns N] [--seconds N] [--svg FILE] [MTU...]
#   5 turns of 2 seconds for each measurement, MTU 9000 and 1500, unless it says otherwise
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
turns=5 seconds=2 svg=''
while (($#)); do
  case $1 in
    --turns) turns=${2:?--turns needs a number}; shift 2 ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
    --svg) svg=$(realpath "${2:?--svg needs a file}"); shift 2 ;;
    [0-9]*) break ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
  esac
done
mtus=("$@")
((${#mtus[@]})) || mtus=(9000 1500)
cd "$here/../.."
export SOFTHCA_BUILD=${SOFTHCA_BUILD:-$PWD/build}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/softhca-wire.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
for mtu in "${mtus[@]}"; do
  for ((turn = 1; turn <= turns; ++turn)); do
    echo "MTU $mtu, turn $turn of $turns" >&2
    tools/sandbox --hosts 2 --mtu "$mtu" "$here/phase.sh" "$seconds" "$tmp/$mtu" >&2
    for kind in udp dpdk vhost iface; do
      tools/sandbox --hosts 2 --mtu "$mtu" --port $kind "$here/phase.sh" "$seconds" "$tmp/$mtu" $kind >&2
    done
  done
done
python3 "$here/report.py" "$tmp" "$svg" "${mtus[@]}"

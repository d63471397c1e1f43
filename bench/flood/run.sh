#!/bin/bash
# Measures what a flood of management datagrams from one host costs others, in the sandbox (root): the
# connects of another host, and the latency of a tenant's own writes. Each is measured alone, with the
# same flood on another link (because the flood also needs a processor), and with it on this link.
#
# usage: bench/flood/run.sh [ROUNDS]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
export SOFTHCA_BUILD=${SOFTHCA_BUILD:-$PWD/build}
out=$(mktemp "${TMPDIR:-/tmp}/softhca-flood.XXXXXX")
trap 'rm -f "$out"' EXIT

for flood in "7 0 connects to nobody" "7 01061b58 connects to the listener" "4 0 questions to the performance agent"; do
  read -r class service what <<<"$flood"
  tools/sandbox --hosts 3 "$here/phase.sh" "$class" "$service" "${1:-3}" >"$out"
  python3 "$here/report.py" "$what" <"$out"
done

#!/bin/bash
# Measures how much a tenant that uses all it can get affects another, in the sandbox: a victim (tenant
# a) alone, then beside each kind of aggressor, and the ratio of both. Each phase has its own daemon.
# docs/performance.md explains the columns.
#
# usage: bench/isolation/run.sh [SCENARIO...]
#   hog hogs16 hogs16-weight doorbells churn rnr overrun stalled1 stalled64 stalled4096 garbage
#   neighbours process-memory reached-memory rare equals
# neighbours needs network namespaces, reached-memory PID namespaces.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
export SOFTHCA_BUILD=${SOFTHCA_BUILD:-$PWD/build}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/softhca-isolation.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
scenarios=("${@:-hog}")
(($#)) || scenarios=(hog hogs16 hogs16-weight doorbells churn rnr overrun stalled1 stalled64
  stalled4096 garbage neighbours process-memory reached-memory rare equals)

phase() {  # VICTIM AGGRESSOR
  local sandbox=(--tenants 2)
  case $2 in
    hogs16) sandbox=(--tenants 17) ;;
    hogs16-weight) sandbox=(--tenants 17 --weight 16) ;;
    port | neighbours) sandbox=(--hosts 2) ;;
  esac
  echo "phase: $1, $2" >&2
  tools/sandbox "${sandbox[@]}" "$here/phase.sh" "$1" "$2" "$tmp/$1-$2" || echo "phase: $1, $2: failed" >&2
}

for victim in latency rate; do
  phase $victim alone
  [[ " ${scenarios[*]} " != *" neighbours "* ]] || phase $victim port
  for scenario in "${scenarios[@]}"; do
    [[ $scenario != @(equals|rare) ]] || continue
    [[ $victim-$scenario != @(rate-hogs16*|latency-stalled*) ]] || continue
    phase $victim "$scenario"
  done
done
[[ ! " ${scenarios[*]} " == *" rare "* ]] || { phase bandwidth alone; phase bandwidth rare; }
[[ ! " ${scenarios[*]} " == *" equals "* ]] || phase equals qps64
python3 "$here/report.py" "$tmp" "${scenarios[@]}"

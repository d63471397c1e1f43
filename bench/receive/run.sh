#!/bin/bash
# Measures the cost of a queue pair on a shared receive queue for the daemon, and the service of the
# others while one sends without end: a real daemon and one program, over loopback. Needs no root.
#
# usage: bench/receive/run.sh [QUEUE-PAIRS [BUFFERS]]     (64000, 4096)
set -euo pipefail
cd "$(dirname "$0")/../.."
export SOFTHCA_BUILD=${SOFTHCA_BUILD:-$PWD/build}
script=$(mktemp "${TMPDIR:-/tmp}/softhca-bench.XXXXXX")
trap 'rm -f "$script"' EXIT

cat >"$script" <<'END'
"$SOFTHCA_BUILD/cli/softhca-run" --runtime-dir "$SANDBOX_DIR/ab" --tenant scale -- \
  "$SOFTHCA_BUILD/bench/receive/softhca-srq-scale" "$DEV" "$GID" "$1" "$2" "$PID_A" || failed=1
curl -s "$METRICS_A" | grep '^softhca_srq_.*scale' || :
exit ${failed:-0}
END
tools/sandbox --config-extra bench/receive/scale.toml "$script" "${1:-64000}" "${2:-4096}"

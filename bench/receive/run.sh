#!/bin/bash
# How much a queue pair on a shared receive queue costs the daemon, and how the others fare while
# one sends without end: a real daemon and one program, over loopback. Needs no root.
#
# usage: bench/receive/run.sh [QUEUE-PAIRS [BUFFERS]]     (64000, 4096)
set -euo pipefail
cd "$(dirname "$0")/../.."
export SOFTHCA_BUILD=${SOFTHCA_BUILD:-$PWD/build}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/softhca-bench.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

# A tenant of its own, whose limits let it have them all.
cat >"$tmp/extra" <<'END'
[[tenant]]
name = "scale"
addresses = ["198.18.0.3"]
queue_pairs = 65536
srq = { limit = 64, kind = "hard", on_exceed = "drop-message", watermark = 256 }

END
cat >"$tmp/script" <<'END'
sed 's/--tenant a --/--tenant scale --/' "$SANDBOX_DIR/as-a" >"$SANDBOX_DIR/as-scale"
bash "$SANDBOX_DIR/as-scale" "$SOFTHCA_BUILD/bench/receive/softhca-srq-scale" $DEV $GID "$1" "$2" $PID_A || failed=1
curl -s "$METRICS_A" | grep '^softhca_srq_.*scale' || :
exit ${failed:-0}
END
tools/sandbox --config-extra "$tmp/extra" "$tmp/script" "${1:-64000}" "${2:-4096}"

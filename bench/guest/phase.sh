#!/bin/bash
# One turn of the bench of machines, for tools/sandbox: appends lines "PROGRAM NANOSECONDS" to a file.
#
# usage: phase.sh SECONDS FILE
set -euo pipefail
seconds=$1 out=$2
port=18800

. "$(dirname "$0")/../lib.sh"

sum() {  # METRIC
  curl -fsS "$METRICS_A" | awk -v name="softhca_$1{" 'index($0, name) == 1 && /tenant="[ab]"/ { sum += $2 } END { printf "%.9f", sum }'
}
measure() {  # PROGRAM ARGUMENT...
  local server client time messages words
  port=$((port + 1))
  local program=("$@" -d "$DEV" -x 0 -p $port -F -D $((seconds + 1)))
  $A "${program[@]}" >/dev/null & server=$!
  listening $port
  $B "${program[@]}" "$A_IP" >/dev/null & client=$!
  sleep 0.5
  time=$(sum engine_seconds_total) messages=$(sum local_messages_total)
  sleep "$seconds"
  time=$(awk -v a="$time" -v b="$(sum engine_seconds_total)" -v c="$messages" -v d="$(sum local_messages_total)" \
    'BEGIN { print 1e9 * (b - a) / (d - c) }')
  words=$*
  figure "${words// /+}" "$time"
  wait $client $server
}
measure ib_write_bw -s 64
measure ib_write_bw -s 4096
measure ib_write_bw -s 65536
measure ib_send_bw -s 64
measure ib_read_bw -s 4096

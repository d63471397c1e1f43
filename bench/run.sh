#!/bin/bash
# Measures the goals of the daemon on an otherwise idle machine with two cores, in the sandbox (root).
# Prints the figures, and whether they meet the goals. Each comparison is measured in one run.
#
#   local write of 1 MiB       half the rate of memcpy
#   local writes of 64 bytes   2 million a second
#   write over a veth pair     half the rate of the same ports alone (path MTU 4096)
#   idle daemon                2 % of a core, 150 MB
set -euo pipefail
cd "$(dirname "$0")/.."
export SOFTHCA_BUILD=${SOFTHCA_BUILD:-$PWD/build}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/softhca-bench.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

cat >"$tmp/lib" <<'END'
bench=$SOFTHCA_BUILD/bench/verbs/softhca-bench
port_rate=$SOFTHCA_BUILD/bench/port/softhca-port-rate

bar() {  # WHAT MEASURED WANTED UNIT [less]
  awk -v what="$1" -v measured="$2" -v wanted="$3" -v unit="$4" -v less="${5:-}" 'BEGIN {
    met = less ? measured <= wanted : measured >= wanted
    printf "%-34s %10.3f %-12s %s %8.3f: %s\n", what, measured, unit, less ? "at most " : "at least",
           wanted, met ? "met" : "SHORT"
  }'
}

# Runs the benchmark between A and B; the lines of figures stay in $SANDBOX_DIR/figures.
measure() {  # ARGUMENT...
  $A "$bench" -d $DEV -g $GID --server & local server=$!
  $B "$bench" -d $DEV -g $GID --client $A_IP --measure rate --seconds 2 "$@" |
    tee -a /dev/stderr >$SANDBOX_DIR/figures
  wait $server
}

# Prints the largest value of a column among the figures.
best() { awk -v column="$1" '$1 == "write" && $column > most { most = $column } END { print most + 0 }' $SANDBOX_DIR/figures; }

idle() {  # WHAT PID
  local seconds=10 before after
  sleep 2
  before=$(awk '{ print $14 + $15 }' /proc/$2/stat)
  sleep $seconds
  after=$(awk '{ print $14 + $15 }' /proc/$2/stat)
  bar "$1: processor" "$(awk -v t=$((after - before)) -v s=$seconds -v hz=$(getconf CLK_TCK) 'BEGIN { print 100 * t / hz / s }')" 2 "% of a core" less
  bar "$1: memory" "$(awk '/^VmRSS/ { print $2 / 1000 }' /proc/$2/status)" 150 MB less
}
END

cat >"$tmp/local" <<'END'
. "$BENCH_LIB"
idle "idle daemon, loopback" $(pgrep -P $PID_A -x softhca-adapter)
measure --op write --size 1M --qps 1
bar "local write 1 MiB / memcpy" "$(best 7)" 0.5 "ratio"
measure --op write --size 64 --qps 1,8
bar "local writes of 64 bytes" "$(best 4)" 2 "million/s"
END

cat >"$tmp/wire" <<'END'
. "$BENCH_LIB"
idle "idle daemon, with a port" $(pgrep -P $PID_A -x softhca-adapter)
measure --op write --size 1M --qps 1,4 --mtu 4096
gbits=$(awk -v gb="$(best 5)" 'BEGIN { print gb * 8 }')
kill $PID_A $PID_B
while kill -0 $PID_A 2>/dev/null || kill -0 $PID_B 2>/dev/null; do sleep 0.1; done
# The datagrams of a write of many packets: 4096 bytes of payload and 16 of BTH and ICRC.
$HOST_A "$port_rate" count interface=rdma0 4112 2 >$SANDBOX_DIR/count & counter=$!
sleep 2
$HOST_B "$port_rate" send interface=rdma0 4112 6
wait $counter
cat $SANDBOX_DIR/count
bar "write over veth / bare port" "$(awk -v ours=$gbits '{ print ours / ($4 * 4096 / 4112) }' $SANDBOX_DIR/count)" 0.5 ratio
END

export BENCH_LIB=$tmp/lib
tools/sandbox --hosts 1 "$tmp/local"
tools/sandbox --hosts 2 "$tmp/wire"

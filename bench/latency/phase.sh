#!/bin/bash
# One turn of the bench of latencies, for tools/sandbox: appends lines "WHAT FIGURE" to a file, all in us.
#
# usage: phase.sh PLACEMENT HOSTS FILE
set -euo pipefail
placement=$1 hosts=$2 out=$3
port=18700

. "$(dirname "$0")/../lib.sh"

pin() {  # CORE PID: a daemon, with the adapter
  local pid
  for pid in "$2" $(pgrep -P "$2"); do taskset -a -p -c "$1" "$pid" >/dev/null; done
}
on_cores() {  # CORE-OF-A CORE-OF-B: the programs
  A="taskset -c $1 $A" HOST_A="taskset -c $1 $HOST_A"
  B="taskset -c $2 $B" HOST_B="taskset -c $2 $HOST_B"
}
((hosts == 2)) || tcp_device=lo
case $placement-$hosts in
  apart-1) pin 0 "$PID_A"; on_cores 1 1 ;;
  apart-2) pin 0 "$PID_A"; pin 1 "$PID_B"; on_cores 1 0 ;;
  together-1) pin 0 "$PID_A"; on_cores 0 0 ;;
  together-2) pin 0 "$PID_A"; pin 1 "$PID_B"; on_cores 0 1 ;;
esac

# The figures of perftest's last line: column 5 is the typical latency, 8 the 99th percentile.
perftest() {  # PROGRAM
  local server typical high
  port=$((port + 1))
  local program=("$1" -d "$DEV" -x 0 -p $port -F -s 8 -n 10000)
  $A "${program[@]}" >/dev/null & server=$!
  listening $port
  read -r typical high < <($B "${program[@]}" "$A_IP" | awk '$1 == 8 { print $5, $8 }')
  figure "$1" "$typical"
  figure "$1-99" "$high"
  wait $server
}

# Programs that sleep until a message arrives, and the same over TCP.
echoes() {  # IN-FLIGHT
  local server
  port=$((port + 1))
  local program=("$SOFTHCA_BUILD/bench/verbs/softhca-bench" -d "$DEV" -p $port)
  $A "${program[@]}" --server & server=$!
  while read -r what figure; do figure "$what" "$figure"; done < <(
    $B "${program[@]}" --client "$A_IP" --measure echo --size 64,4K,64K --depth "$1" --iterations 4000 --json |
      python3 -c '
import json, sys
for line in sys.stdin:
    it = json.loads(line)
    what = "echo-%d-%d" % (it["bytes"], it["in_flight"])
    alone = it["in_flight"] == 1
    print(what, it["p50_us"] if alone else 1e6 / it["messages_per_second"])
    print(what + "-tcp", it["tcp_p50_us"] if alone else 1e6 / it["tcp_messages_per_second"])')
  wait $server
}

perftest ib_send_lat
perftest ib_write_lat
perftest ib_read_lat
ucx ucx rc_v tag_lat 8 20000
ucx ucx-tcp tcp tag_lat 8 20000
echoes 1
echoes 16

#!/bin/bash
# The rounds of the flood bench, for tools/sandbox --hosts 3. A's tenant measures the latency of its
# own short writes, and B the time to connect to A, while host C sends.
#
# usage: phase.sh CLASS SERVICE ROUNDS
# Prints lines: PHASE MEASURE P50 P99, and of a flood: PHASE sent A-SECOND LOST-PART
set -euo pipefail
class=$1 service=$2 rounds=$3
bench=$SOFTHCA_BUILD/bench/verbs/softhca-bench
flood=$SOFTHCA_BUILD/tests/system/isolation/mad-flood
storm=$SOFTHCA_BUILD/tests/system/rdma_cm/connections/connection-storm

# A link of C; its other end drops all packets.
$HOST_C ip link add spare0 type veth peer name spare1
$HOST_C ip link set spare0 up
$HOST_C ip link set spare1 up
mac() { "$1" cat "/sys/class/net/$2/address" 2>/dev/null || "$1" ip -o link show "$2" | sed 's/.*ether \([^ ]*\).*/\1/'; }
mac_a=$(mac "$HOST_A" rdma0) mac_spare=$(mac "$HOST_C" spare1)

$A "$storm" serve "$A_ADDR" 7000 "$SANDBOX_DIR/log" >/dev/null &
sleep 1

received() { curl -sf "$METRICS_A" | awk '/^softhca_port_frames_received_total/ { print $2 }'; }

measure() {  # PHASE
  $B "$storm" connect "$A_ADDR" 7000 1 200 1 "$SANDBOX_DIR/client-log" |
    sed -E "s/.*p50 ([0-9.]+) ms.*p99 ([0-9.]+) ms/$1 connect \1 \2/"
  $A "$bench" -d "$DEV" -g "$GID" -p 18700 --server &
  local server=$!
  $A "$bench" -d "$DEV" -g "$GID" -p 18700 --client "$A_IP" --measure completion --op write --size 16 \
    --iterations 10000 | awk -v phase="$1" '$1 == "write" { print phase, "write", $3, $4 }'
  wait $server
}

flooded() {  # PHASE INTERFACE MAC
  taskset -c $(($(nproc) - 1)) $HOST_C "$flood" "$2" "$C_IP" "$A_ADDR" "$3" "$class" "$service" 600 >"$SANDBOX_DIR/flood" &
  local pid=$! before
  before=$(received)
  sleep 1
  measure "$1"
  kill $pid
  wait $pid || true
  awk -v phase="$1" -v got=$(($(received) - before)) \
    '/^sent/ { print phase, "sent", $3, 1 - got / $2 }' "$SANDBOX_DIR/flood"
}

for ((i = 0; i < rounds; ++i)); do
  measure quiet
  flooded elsewhere spare0 "$mac_spare"
  flooded here rdma0 "$mac_a"
done

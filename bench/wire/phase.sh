#!/bin/bash
# One turn of the wire bench, for tools/sandbox with two hosts: appends lines "WHAT FIGURE" to a file,
# bandwidths in Gb/s, latencies in us, rates in million a second. B sends to A.
#
# usage: phase.sh SECONDS FILE [udp|dpdk|vhost|iface]
#   other ports, as tools/sandbox has them; only the measurements that are compared with those
set -euo pipefail
seconds=$1 out=$2 kind=${3:-packet}
port=18700

. "$(dirname "$0")/../lib.sh"

tcp() {  # CONNECTIONS
  local server
  port=$((port + 1))
  $HOST_A iperf3 -s -1 -p $port >/dev/null & server=$!
  listening $port
  figure "tcp-$1" "$($HOST_B iperf3 -c "$A_IP" -p $port -t "$seconds" -P "$1" -J |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 1e9)')"
  wait $server
}

# The figures of perftest's last line: column 4 is the average bandwidth in Gb/s, 5 million messages/s.
write_bw() {  # WHAT COLUMN GID ARGUMENT...
  local what=$1 column=$2 gid=$3 server
  shift 3
  port=$((port + 1))
  local program=(ib_write_bw -d "$DEV" -x "$gid" -p $port -F --report_gbits -D "$seconds" "$@")
  $A "${program[@]}" >/dev/null & server=$!
  listening $port
  figure "$what" "$($B "${program[@]}" "$A_IP" |
    awk -v column="$column" 'NF == 5 && $1 + 0 > 0 { value = $column } END { print value }')"
  wait $server
}

# The port alone; last, because it replaces the daemons.
bare_port() {  # WHAT RECEIVER SENDER: their devices
  local mtu datagram counter rate=$SOFTHCA_BUILD/bench/port/softhca-port-rate
  kill "$PID_A" "$PID_B"
  while kill -0 "$PID_A" 2>/dev/null || kill -0 "$PID_B" 2>/dev/null; do sleep 0.1; done
  mtu=$($HOST_A ip -o link show rdma0 | sed 's/.* mtu \([0-9]*\).*/\1/')
  datagram=$((mtu > 4200 ? 4112 : 1040))  # as of a write of many packets
  $HOST_A "$rate" count "$2" $datagram "$seconds" >"$SANDBOX_DIR/count" & counter=$!
  sleep 1
  $HOST_B "$rate" send "$3" $datagram "$((seconds + 2))" >/dev/null
  wait $counter
  figure "$1" "$(awk '{ print $4 }' "$SANDBOX_DIR/count")"
}

if [[ $kind != packet ]]; then
  write_bw "$kind-64k" 4 0 -s 65536
  write_bw "$kind-1m" 4 0 -s 1048576
  write_bw "$kind-rate-64" 5 0 -s 64 -q 8
  bare=$SANDBOX_DIR/bare
  case $kind in
    dpdk) bare_port dpdk-port "net_memif0,role=server,socket=$bare" "net_memif0,role=client,socket=$bare" ;;
    vhost) bare_port vhost-port "net_vhost0,iface=$bare" "net_virtio_user0,path=$bare,queues=1" ;;
    iface) bare_port iface-port iface=rdma0 iface=rdma0 ;;
  esac
  exit
fi
write_bw write-64k 4 0 -s 65536
tcp 1
write_bw write-1m 4 0 -s 1048576
write_bw write-64k-ipv6 4 1 -s 65536
write_bw write-64k-16 4 0 -s 65536 -q 16
tcp 16
write_bw write-cold 4 0 -s 8388608 -q 16 -t 4
write_bw rate-8 5 0 -s 8 -q 4
write_bw rate-64 5 0 -s 64 -q 8
for size in 4096 65536 1048576; do
  iterations=$((size < 65536 ? 100000 : size < 1048576 ? 20000 : 2000))
  ucx "ucx-rc-$size" rc_v tag_bw $size $iterations
  ucx "ucx-tcp-$size" tcp tag_bw $size $iterations
done
ucx ucx-ud-65536 ud_v tag_bw 65536 10000
ucx ucx-lat-rc rc_v tag_lat 8 50000
ucx ucx-lat-tcp tcp tag_lat 8 50000
bare_port port interface=rdma0 interface=rdma0

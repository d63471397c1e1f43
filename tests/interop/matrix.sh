# softhcad on the host against rxe in the guest.
# shellcheck shell=bash

declare -A rxe_device=([link]=rxe0 [vlan]=rxe1)
declare -A rxe_gid  # [link0], [link1], [vlan0], [vlan1]: index of the address of IPv4, IPv6

# Makes rxe0 on the guest's card, and rxe1 on the VLAN: by a macvlan, since rxe refuses the interface
# of a VLAN itself. What the guest receives can be made to go through ifb0, which may lose it.
prepare_rxe() {
  guest "set -e
ip addr add $guest_ip/24 dev eth0
ip -6 addr add $guest_ip6/64 dev eth0 nodad
ip link add link eth0 name eth0.$vlan type vlan id $vlan
ip link add link eth0.$vlan name vlan0 type macvlan mode bridge
ip addr add $vlan_guest_ip/24 dev vlan0
ip -6 addr add $vlan_guest_ip6/64 dev vlan0 nodad
ip link set eth0.$vlan up
ip link set vlan0 up
modprobe -a ib_uverbs rdma_rxe sch_netem ifb
rdma link add rxe0 type rxe netdev eth0
rdma link add rxe1 type rxe netdev vlan0
ip link add ifb0 type ifb
ip link set ifb0 up
for i in \$(seq 100); do [ \$(ls /sys/class/infiniband_verbs | grep -c uverbs) = 2 ] && break; sleep 0.1; done
# No udev makes the device files: devtmpfs does.
gid() { for i in \$(seq 100); do grep -l \$2 /sys/class/infiniband/\$1/ports/1/gids/* && break; sleep 0.1; done | head -n 1 | sed 's|.*/||'; }
echo GIDS \$(gid rxe0 ffff:0a09:0002) \$(gid rxe0 fd09:0000:0000:0000:0000:0000:0000:0002) \\
  \$(gid rxe1 ffff:0a09:0102) \$(gid rxe1 fd09:0001:0000:0000:0000:0000:0000:0002)" >"$dir/prepared" 2>&1
  local gids
  read -r -a gids < <(sed -n 's/^GIDS //p' "$dir/prepared")
  ((${#gids[@]} == 4)) || { cat "$dir/prepared"; return 1; }
  rxe_gid=([link0]=${gids[0]} [link1]=${gids[1]} [vlan0]=${gids[2]} [vlan1]=${gids[3]})
}

# Of the frames the guest receives: loses and repeats 1%, delays 1% past others.
guest_link_bad() {
  guest 'set -e
tc qdisc add dev eth0 ingress
tc filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb0
tc qdisc add dev ifb0 root netem limit 10000 loss 1% duplicate 1% delay 5ms reorder 99%'
}
guest_link_good() { guest 'tc qdisc del dev eth0 ingress && tc qdisc del dev ifb0 root'; }
# The same of those the host's daemon receives, of which it breaks some, too.
host_link_bad() {
  local fault
  for fault in drop:0.01 duplicate:0.01 corrupt:0.005 reorder:0.01; do
    "$build/cli/softhcactl" --runtime-dir "$dir/runtime" fault add "${fault%:*}" --port link --direction received \
      --probability "${fault#*:}" --for 86400 >/dev/null || return
  done
}

# All operations on all transports, both sides as requester; what was done goes into the table:
# COLUMN WHO-SERVES ARGUMENT-OF-wire...
contents() {
  local column=$1
  shift
  captured wire "$@" || return
  sed -n "s/^did \([A-Z]*\) \([0-9]*\) /$column|softhca|\1|\2|/p" "$dir/host.out" >>"$results"
  sed -n "s/^did \([A-Z]*\) \([0-9]*\) /$column|rxe|\1|\2|/p" "$dir/guest.out" >>"$results"
  cat "$dir/opcodes" >>"$wire_counts"
}

# One case for each path MTU and IP version: NAME [-V] ARGUMENT-OF-peer...; the sides take turns serving.
contents_cases() {
  local name=$1 tag=() path ip who=host
  shift
  [[ ${1:-} != -V ]] || { tag=(-V); shift; }
  for path in 1024 4096; do
    for ip in 4 6; do
      [[ -z $short || $path$ip == "$short_choice" ]] || continue
      LIMIT=240 check "contents, $name, MTU $path, IPv$ip" contents "$name|$path|IPv$ip" $who \
        $([[ $ip == 4 ]] || echo -6) "${tag[@]}" peer --mtu $path ${short:+--few} "$@"
      [[ $who == host ]] && who=guest || who=host
    done
  done
}

matrix_cases() {
  start_daemon link || die "the daemon does not start"
  short_choice=10244 contents_cases link
  check "contents, RC, errors, MTU 4096" captured wire host peer --transports rc --few --errors --mtu 4096
  check "contents by ibv_wr_*" captured wire guest peer --few --extended --mtu 2048
  check "congestion: rxe marks its packets and is told" congestion
  both_adapters_cases
  connection_cases
  stop_daemon
  start_daemon vlan || die "the daemon does not start"
  short_choice=40966 contents_cases VLAN -V
  stop_daemon
  start_daemon socket || die "the daemon does not start"
  socket_cases
  stop_daemon
  start_daemon interface || die "the daemon does not start"
  restart_cases
  stop_daemon
  guest_link_bad || die "the guest's link does not get bad"
  start_daemon link && host_link_bad || die "the daemon does not start"
  short_choice=10244 contents_cases 'link, bad' --lossy --few
  bad_link_connection_cases
  [[ -n $short ]] || bad_link_program_cases
  stop_daemon
  if [[ -z $short ]]; then
    start_daemon vlan && host_link_bad || die "the daemon does not start"
    contents_cases 'VLAN, bad' -V --lossy --few
    stop_daemon
  fi
  guest_link_good || die "the guest's link does not get good"
}

# UDP sockets of the host's kernel instead of a port that writes all headers: what rxe makes of them.
socket_cases() {
  check "UDP sockets: contents, MTU 4096" captured wire host peer --few --mtu 4096
  check "UDP sockets: contents, IPv6" captured wire guest -6 peer --few --mtu 1024
  check "UDP sockets: congestion, rxe marks its packets and is told" congestion
  check "UDP sockets: ib_write_bw" captured wire guest ib_write_bw -m 4096 -s 65536 -n 50
}

# Traffic class 3: "congestion experienced". softhca tells; rxe knows no CNP (opcode 129), and goes on.
congestion() {
  guest_extra='--traffic-class 3' captured wire guest peer --transports rc,uc --few --mtu 4096 &&
    has_opcode 129 sent && ! has_opcode 129 received
}

both() {  # NAME PROGRAM ARGUMENT...
  local name=$1
  shift
  check "$name, rxe serves" captured wire guest "$@"
  check "$name, softhca serves" captured wire host "$@"
}

program_cases() {
  local path
  start_daemon link || die "the daemon does not start"
  for path in 1024 4096; do
    both "ibv_rc_pingpong, MTU $path" ibv_rc_pingpong -c -m $path -s 10000 -n 100
    both "ibv_uc_pingpong, MTU $path" ibv_uc_pingpong -c -m $path -s 10000 -n 20 -r 100
    both "ib_send_bw, MTU $path" ib_send_bw -m $path -s 65536 -n 200
    both "ib_write_bw, MTU $path" ib_write_bw -m $path -s 65536 -n 200
    both "ib_read_bw, MTU $path" ib_read_bw -m $path -s 65536 -n 200
  done
  both "contents RC, MTU 256" peer --transports rc --few --mtu 256
  both "ibv_rc_pingpong, events" ibv_rc_pingpong -c -e -n 100
  both "ibv_srq_pingpong" ibv_srq_pingpong -c -n 100
  both "ibv_ud_pingpong" ibv_ud_pingpong -c -s 1024 -n 100
  both "ibv_ud_pingpong, IPv6" -6 ibv_ud_pingpong -c -s 1024 -n 100
  both "ib_send_lat UC" ib_send_lat -c UC -s 9001 -n 20
  both "ib_write_lat UC" ib_write_lat -c UC -s 9001 -n 20
  both "ib_send_lat UD, MTU 4096" ib_send_lat -c UD -m 4096 -s 4096 -n 100
  both "ib_send_lat, inline" ib_send_lat -I 64 -s 64 -n 100
  both "ib_write_lat" ib_write_lat -s 9001 -n 100
  both "ib_read_lat" ib_read_lat -s 9001 -n 100
  both "ib_atomic_lat, add" ib_atomic_lat -A FETCH_AND_ADD -n 100
  both "ib_atomic_lat, swap" ib_atomic_lat -A CMP_AND_SWAP -n 100
  both "ib_atomic_bw, add" ib_atomic_bw -A FETCH_AND_ADD -n 200
  both "ib_write_bw, both ways" ib_write_bw -b -s 65536 -n 100
  both "ib_write_bw, 8 queue pairs" ib_write_bw -q 8 -s 8192 -n 50
  stop_daemon
}

bad_link_program_cases() {
  local LIMIT=240
  both "bad link: ib_write_bw" ib_write_bw -m 4096 -s 65536 -n 50
  both "bad link: ib_read_bw" ib_read_bw -m 4096 -s 65536 -n 50
  both "bad link: ib_send_bw" ib_send_bw -m 4096 -s 65536 -n 50
  both "bad link: ib_atomic_bw" ib_atomic_bw -A FETCH_AND_ADD -n 200
}

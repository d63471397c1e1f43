# softhcad on the host against rxe in the guest.
# shellcheck shell=bash

# Makes rxe0 on the guest's card; sets rxe_gid4 and rxe_gid6, the indices of its addresses.
prepare_rxe() {
  guest "set -e
ip addr add $guest_ip/24 dev eth0
ip -6 addr add $guest_ip6/64 dev eth0 nodad
modprobe -a ib_uverbs rdma_cm rdma_ucm ib_umad rdma_rxe
rdma link add rxe0 type rxe netdev eth0
for i in \$(seq 50); do ls /dev/infiniband/uverbs* >/dev/null 2>&1 && break; sleep 0.1; done
sleep 1
cd /sys/class/infiniband/rxe0/ports/1/gids
grep -l ffff:0a09:0002 * | head -n 1
grep -l fd09:0000:0000:0000:0000:0000:0000:0002 * | head -n 1" >"$dir/gids" || { cat "$dir/gids"; return 1; }
  { read -r rxe_gid4; read -r rxe_gid6; } <"$dir/gids"
  [[ -n $rxe_gid4 && -n $rxe_gid6 ]]
}

matrix_cases() {
  local path
  for path in 1024 4096; do
    LIMIT=180 both "contents RC, MTU $path" peer --mtu $path
    LIMIT=180 both "contents UC, MTU $path" peer --transport uc --mtu $path
    both "ibv_rc_pingpong, MTU $path" ibv_rc_pingpong -c -m $path -s 10000 -n 100
    both "ibv_uc_pingpong, MTU $path" ibv_uc_pingpong -c -m $path -s 10000 -n 20 -r 100
    both "ib_send_lat RC, MTU $path" ib_send_lat -m $path -s 9001 -n 100
    both "ib_send_lat UC, MTU $path" ib_send_lat -c UC -m $path -s 9001 -n 20
    both "ib_write_lat RC, MTU $path" ib_write_lat -m $path -s 9001 -n 100
    both "ib_write_lat UC, MTU $path" ib_write_lat -c UC -m $path -s 9001 -n 20
    both "ib_read_lat, MTU $path" ib_read_lat -o 16 -m $path -s 9001 -n 100
    both "ib_write_bw, MTU $path" ib_write_bw -m $path -s 65536 -n 200
    both "ib_read_bw, MTU $path" ib_read_bw -o 16 -m $path -s 65536 -n 200
    both "ib_send_bw, MTU $path" ib_send_bw -m $path -s 65536 -n 200
  done
  LIMIT=180 both "contents RC, MTU 256" peer --mtu 256
  LIMIT=180 both "contents RC, IPv6" -6 peer --mtu 2048
  both "ibv_rc_pingpong, events" ibv_rc_pingpong -c -e -n 100
  both "ibv_srq_pingpong" ibv_srq_pingpong -c -n 100
  both "ibv_ud_pingpong" ibv_ud_pingpong -c -s 1024 -n 100
  both "ibv_ud_pingpong, IPv6" -6 ibv_ud_pingpong -c -s 1024 -n 100
  both "ib_send_lat UD" ib_send_lat -c UD -s 1024 -n 100
  both "ib_send_lat UD, MTU 4096" ib_send_lat -c UD -m 4096 -s 4096 -n 100
  both "ib_atomic_lat, add" ib_atomic_lat -o 16 -A FETCH_AND_ADD -n 100
  both "ib_atomic_lat, swap" ib_atomic_lat -o 16 -A CMP_AND_SWAP -n 100
  both "ib_atomic_bw, add" ib_atomic_bw -o 16 -A FETCH_AND_ADD -n 200
  both "ib_write_bw, both ways" ib_write_bw -b -s 65536 -n 100
  both "ib_send_lat, inline" ib_send_lat -I 64 -s 64 -n 100
  both "ib_write_bw, 8 queue pairs" ib_write_bw -q 8 -s 8192 -n 50
}

# The host's daemon loses, repeats and reorders one frame of a hundred that it receives.
bad_link_cases() {
  LIMIT=180 both "bad link: contents RC" peer --mtu 4096
  LIMIT=180 both "bad link: ib_write_bw" ib_write_bw -m 4096 -s 65536 -n 50
  LIMIT=180 both "bad link: ib_read_bw" ib_read_bw -o 16 -m 4096 -s 65536 -n 50
  LIMIT=180 both "bad link: ib_send_bw" ib_send_bw -m 4096 -s 65536 -n 50
  LIMIT=180 both "bad link: ib_atomic_bw" ib_atomic_bw -o 16 -A FETCH_AND_ADD -n 200
}

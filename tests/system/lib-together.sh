# Programs of all kinds at the same time, each again and again. Read inside the sandbox, after lib.sh and
# lib-connections.sh.
# shellcheck shell=bash

LIMIT=600
enough=$SANDBOX_DIR/enough gaps=$SANDBOX_DIR/gaps
fleet=() fleet_names=()
: >"$gaps"

# Runs a function until $enough exists, if its name matches a regular expression. It must end well each time.
again() {  # NAME REGEX
  [[ $1 =~ $2 ]] || return 0
  next_port=$((next_port + 1000))  # a program has fewer rounds
  mkdir "$SANDBOX_DIR/$1"
  (
    SANDBOX_DIR+=/$1
    until [[ -e $enough ]]; do
      "$1" || exit
      echo >>"$SANDBOX_DIR/rounds"
    done
  ) >"$SANDBOX_DIR/$1/output" 2>&1 &
  fleet+=($!)
  fleet_names+=("$1")
}

# A server as A and, once READY succeeds, a client as B: READY SERVER ARGUMENT... -- CLIENT ARGUMENT...
served() {
  local ready=$1 server=() pid
  shift
  while [[ $1 != -- ]]; do
    server+=("$1")
    shift
  done
  timeout "$LIMIT" $A "${server[@]}" >"$SANDBOX_DIR/server" 2>&1 &
  pid=$!
  eventually $ready "$next_port" || report "no server: ${server[*]}"
  timeout --foreground "$LIMIT" $B "${@:2}" >"$SANDBOX_DIR/client" 2>&1 || report "client of ${*:2}"
  wait "$pid" || report "server of ${server[*]}"
}
tcp_listens() { grep -qs "$(printf ':%04X 0*:0000 0A' "$1")" /proc/net/tcp /proc/net/tcp6; }
rdma_listens() { ctl listeners 2>/dev/null | grep -qw "$1"; }

write_bw() { pair ib_write_bw -s 65536 -q 4 -D 20; }
read_bw() { pair ib_read_bw -s 65536 -D 20; }
atomic_bw() { pair ib_atomic_bw -D 20; }
send_srq() { pair ib_send_bw -s 4096 --use-srq -q 2 -D 20; }
send_lat() {
  pair ib_send_lat -n 50000
  # Half of a round trip, in us; the second answer is the longest.
  awk '$1 ~ /^[0-9]+$/ && NF >= 8 { print 2 * $4 / 1000 }' "$SANDBOX_DIR/client" >>"$gaps"
}
stress() { $B "$SOFTHCA_BUILD/tests/system/verbs/stress/stress" $RANDOM 10 "$DEV" <<<''; }
ucx() {
  local mode=()
  ! ucx_perftest -h 2>&1 | grep -q -e '^ *-P <' || mode=(-P 0)
  export UCX_NET_DEVICES=$DEV:1 UCX_WARN_UNUSED_ENV_VARS=n UCX_TLS=rc_verbs,ud_verbs UCX_IB_GID_INDEX=0
  next_port=$((next_port + 1))
  served tcp_listens ucx_perftest "${mode[@]}" -p $next_port -- \
    ucx_perftest "${mode[@]}" "$A_IP" -p $next_port -t tag_bw -s 100000 -n 20000 -w 1
}
mpi() {
  # shellcheck source-path=SCRIPTDIR
  . "$SYSTEM_TESTS/lib-mpi.sh"
  job MPI --mca pml ucx --mca osc ucx -x UCX_TLS=rc_v,ud_v,self -x "UCX_NET_DEVICES=$DEV:1"
}
rsockets() {
  next_port=$((next_port + 1))
  served rdma_listens riostream -b "$A_ADDR" -p $next_port -S 30000 -C 3000 -I 2 -T v -- \
    riostream -s "$A_ADDR" -p $next_port -S 30000 -C 3000 -I 2 -T v
}
fio() {
  local job=(--ioengine=rdma --port=$((++next_port)) --bs=64k --size=512m)
  cd "$SANDBOX_DIR" || return
  served rdma_listens fio --name=server "${job[@]}" --rw=read --iodepth=16 -- \
    fio --name=client "${job[@]}" --rw=write --iodepth=8 --verb=write --hostname="$A_ADDR"
}

# Runs those that match while a function is called so many times: REGEX COUNT FUNCTION
together() {
  local i name pid failed=''
  # Open MPI's ranks meet by TCP at the loopback.
  for name in write_bw read_bw atomic_bw send_srq send_lat stress ucx rsockets fio \
    $([[ -d $SANDBOX_DIR/b ]] || echo mpi); do again $name "$1"; done
  ((${#fleet[@]})) || fail "no program matches $1"
  sleep 3  # they begin
  for ((i = 0; i < $2; ++i)); do
    "$3"
    for pid in "${fleet[@]}"; do kill -0 "$pid" 2>/dev/null || break 2; done
  done
  touch "$enough"
  for i in "${!fleet[@]}"; do
    name=${fleet_names[i]}
    wait "${fleet[i]}" || { failed+=" $name"; tail -n 50 "$SANDBOX_DIR/$name/output"; }
    echo "$name: $(cat "$SANDBOX_DIR/$name/rounds" 2>/dev/null | wc -l) times"
  done
  [[ ! -s $gaps ]] || echo "ib_send_lat: longest time without an answer $(sort -n "$gaps" | tail -n 1) ms"
  [[ -z $failed ]] || fail "$failed"
}

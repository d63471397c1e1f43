# Runs one program on both sides.
# shellcheck shell=bash

# Waits until somebody listens on a TCP port; a line for the shell of either side.
until_listening() {  # PORT
  printf 'end=$((SECONDS + %d)); ' $((limit / 2))
  printf "until grep -qs ':%04X 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; do" "$1"
  echo ' ((SECONDS < end)) || exit 1; sleep 0.1; done'
}

next_port=19000
# Fills `command`: PROGRAM DEVICE GID ADDRESS ARGUMENT...; ADDRESS is the server's, or empty.
# $peer: where the package of that name is. -u 17: perftest's own timeout, 67 ms, is less than the
# guest is silent for on a machine with other work.
compose() {
  local program=$1 device=$2 gid=$3 address=$4
  shift 4
  case $program in
    ibv_*) command="$program -d $device -g $gid -p $next_port $* $address" ;;
    ib_*) command="$program -d $device -x $gid -p $next_port -F -u 17 $* $address" ;;
    peer) command="/usr/bin/python3 -B $peer ${address:+call --host }${address:-serve} --device $device"
          command+=" --gid $gid --port $next_port $*" ;;
  esac
}

# A program on both sides: WHO-SERVES(host|guest) [-6] [-V] PROGRAM ARGUMENT... They meet over TCP on
# IPv4. -6: the RDMA is on IPv6; -V: on the VLAN. $host_extra, $guest_extra: arguments of one side;
# $guest_prefix: a program for the guest's to run under. Output of the two is in $dir/{host,guest}.out.
wire() {
  local who=$1 host_gid=0 where=link command server code=0
  shift
  [[ $1 != -6 ]] || { host_gid=1; shift; }
  [[ $1 != -V ]] || { where=vlan; shift; }
  local rxe=${rxe_device[$where]} rxe_gid=${rxe_gid[$where$host_gid]} program=$1
  local host_extra=${host_extra:-} guest_extra=${guest_extra:-}
  shift
  next_port=$((next_port + 1))
  # Where rxe differs: see docs/interoperability.md.
  if [[ $program == peer && $rxe == rxe* ]]; then
    host_extra+=' --long-send-status 11 --peer-ignores-window-ends' guest_extra+=' --invalidated-flag 4 --forgets-fenced'
  fi
  if [[ $who == host ]]; then
    peer=$here/peer compose "$program" softhca0 $host_gid '' "$@" $host_extra
    as_tenant $command >"$dir/host.out" 2>&1 &
    server=$!
    on_host bash -c "$(until_listening $next_port)" || { cat "$dir/host.out"; return 1; }
    peer=/root/peer compose "$program" "$rxe" "$rxe_gid" $host_ip "$@" $guest_extra
    guest "timeout $limit ${guest_prefix:-} $command" >"$dir/guest.out" 2>&1 || code=1
    wait $server || code=1
  else
    peer=/root/peer compose "$program" "$rxe" "$rxe_gid" '' "$@" $guest_extra
    guest_start "timeout $limit ${guest_prefix:-} $command"
    server=$guest_job
    guest "$(until_listening $next_port)" || { guest_wait "$server"; return 1; }
    peer=$here/peer compose "$program" softhca0 $host_gid $guest_ip "$@" $host_extra
    as_tenant $command >"$dir/host.out" 2>&1 || code=1
    guest_wait "$server" >"$dir/guest.out" 2>&1 || code=1
  fi
  tail -n 15 "$dir/host.out"
  echo "--- guest:"
  tail -n 15 "$dir/guest.out"
  kill -0 "$daemon" || { echo "the daemon is gone"; tail -n 20 "$dir/daemon.log"; return 1; }
  return $code
}

# Two hosts, each a network namespace with a daemon, joined by a link, and guests of host a.
#
# A side is a tenant: vm1 and vm2 are guests, c and e processes of host a, d one of host b. Programs of all sides meet over
# TCP on a bridge of its own. Side k is a guest beside host b that has Soft-RoCE of its kernel.
# shellcheck shell=bash disable=SC2154  # variables of the runner

declare -A space=([a]=softhca-guest-$$-a [b]=softhca-guest-$$-b)
declare -A host_of=([vm1]=a [vm2]=a [c]=a [d]=b [e]=a)
declare -A tcp=([vm1]=10.78.0.11 [vm2]=10.78.0.12 [c]=10.78.0.1 [d]=10.78.0.2 [e]=10.78.0.1 [k]=10.78.0.21)
declare -A address=([vm1]=10.77.0.11 [vm2]=10.77.0.12 [c]=10.77.0.1 [d]=10.77.0.2 [e]=10.77.0.13 [k]=10.77.0.21)
declare -A mac=([vm1]=52:54:00:00:01:01 [vm2]=52:54:00:00:01:02 [k]=52:54:00:00:01:21)
declare -A device=([k]=rxe0) gid=()  # by side, where they are not softhca0 and 0
declare -A daemon=()   # by host
declare -A folder=()   # by guest: the folder that it sees as /share
declare -A machine=()  # by guest: the process of softhca-run
declare -A job=()      # by side: what runs there
machines=0
. "$interop/guest/commands.sh"
. "$interop/programs.sh"

take_down() {
  trap '' INT TERM HUP
  local left host
  for host in a b; do
    mapfile -t left < <(ip netns pids "${space[$host]}" 2>/dev/null)
    ((${#left[@]} == 0)) || kill -TERM "${left[@]}" 2>/dev/null
  done
  for host in a b; do
    for ((i = 0; i < 100 && $(ip netns pids "${space[$host]}" 2>/dev/null | wc -l) > 0; ++i)); do sleep 0.05; done
    mapfile -t left < <(ip netns pids "${space[$host]}" 2>/dev/null)
    ((${#left[@]} == 0)) || kill -KILL "${left[@]}" 2>/dev/null
    ip netns del "${space[$host]}" 2>/dev/null
  done
  rm -rf "$dir"
}
trap take_down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Fills `enter`: what makes the words after it a program of a host. `ip netns exec` would mount a fresh /sys.
enter() { enter=(nsenter "--net=/run/netns/${space[$1]}" --); }
ctl() {  # HOST ARGUMENT...
  timeout 60 "$build/cli/softhcactl" --runtime-dir "$dir/$1" "${@:2}"
}

make_hosts() {
  local host vm link a=${space[a]} b=${space[b]}
  for host in "$a" "$b"; do
    ip netns add "$host" && ip -n "$host" link set lo up || return
    ip netns exec "$host" sysctl -qw net.ipv6.conf.{all,default}.accept_dad=0
  done
  # RDMA goes by rdma0 and the bridge `wire`, TCP by the bridge `meet`. Side k has one card for both.
  ip -n "$a" link add rdma0 mtu 9000 type veth peer name to-a mtu 9000 netns "$b" &&
    ip -n "$b" link add rdma0 mtu 9000 type veth peer name to-rdma0 mtu 9000 &&
    ip -n "$b" link add wire mtu 9000 type bridge && ip -n "$b" tuntap add dev k mode tap &&
    ip -n "$a" link add to-wire type veth peer name to-meet netns "$b" &&
    ip -n "$b" link set k mtu 9000 || return
  for link in to-a to-rdma0 k to-meet; do ip -n "$b" link set "$link" master wire up || return; done
  ip -n "$b" link set wire up && ip -n "$a" link add meet type bridge &&
    ip -n "$a" link add to-b type veth peer name meet netns "$b" &&
    ip -n "$a" link set to-b master meet up && ip -n "$a" link set to-wire master meet up || return
  for vm in vm1 vm2; do
    ip -n "$a" tuntap add dev $vm mode tap && ip -n "$a" link set $vm master meet up || return
  done
  for host in "$a" "$b"; do ip -n "$host" link set rdma0 up && ip -n "$host" link set meet up || return; done
  ip -n "$a" addr add "${address[c]}/24" dev rdma0 && ip -n "$b" addr add "${address[d]}/24" dev rdma0 &&
    ip -n "$a" addr add "${tcp[c]}/24" dev meet && ip -n "$b" addr add "${tcp[d]}/24" dev meet
}

# The configuration of a host.
configuration() {  # HOST
  local side addresses='' tenants=''
  for side in vm1 vm2 c d e; do
    [[ ${host_of[$side]} == "$1" ]] || continue
    addresses+=", \"${address[$side]}/24\""
    tenants+="[[tenant]]
name = \"$side\"
addresses = [\"${address[$side]}\"]
"
    [[ $side != vm* ]] || tenants+='guest_memory = 268435456
'
    [[ $side != vm1 ]] || tenants+='[[tenant.level]]
name = "day"
default = true
[[tenant.level]]
name = "night"
'
  done
  cat <<CONFIG
[metrics]
address = ""
[[port]]
name = "link"
interface = "rdma0"
addresses = [${addresses#, }]
$tenants
CONFIG
}

start_daemon() {  # HOST
  local enter
  configuration "$1" >"$dir/$1.toml"
  mkdir -p "$dir/$1"
  enter "$1"
  RUNTIME_DIRECTORY=$dir/$1 "${enter[@]}" "$build/daemon/softhcad" --config "$dir/$1.toml" >"$dir/$1.log" 2>&1 </dev/null &
  daemon[$1]=$!
  for ((i = 0; i < 200; ++i)); do
    grep -qs 'ready:' "$dir/$1.log" && return 0
    kill -0 "${daemon[$1]}" 2>/dev/null || break
    sleep 0.05
  done
  cat "$dir/$1.log"
  return 1
}

# The emulator of a guest, of which softhca-run is the parent.
emulator_of() { pgrep -P "${machine[$1]}" -x qemu-system-x86; }  # GUEST

# Boots a guest, and waits until programs find their device. Each boot has a folder of its own. What the guest's
# drivers tell the host is counted in $dir/GUEST.trace.
boot_vm() {  # GUEST
  local vm=$1 enter share_of
  machines=$((machines + 1))
  share_of=$dir/$vm-$machines
  mkdir -p "$share_of"
  folder[$vm]=$share_of
  enter a
  "${enter[@]}" "$build/cli/softhca-run" --runtime-dir "$dir/a" --guest "$vm" -- \
    "$interop/guest/boot" "$cache" "$vm" 1500 "$share_of" off "${mac[$vm]}" -m maxmem=8G \
    -object 'memory-backend-file,id=region,share=on,mem-path={region},size={bytes}' \
    -device virtio-pmem-pci,memdev=region -chardev 'socket,id=softhca,fd={channel}' \
    -device virtio-serial-pci -device virtserialport,chardev=softhca,name=softhca \
    -action reboot=reset -trace virtio_queue_notify -D "$dir/$vm.trace" >"$dir/$vm.log" 2>&1 </dev/null &
  machine[$vm]=$!
  share=$share_of guest_ready "${machine[$vm]}" && return
  tail -n 20 "$dir/$vm.log" "$share_of/console"
  return 1
}
# Boots side k, and gives it Soft-RoCE.
start_soft_roce() {
  local enter share=$dir/k
  mkdir -p "$share"
  folder[k]=$share
  enter b
  "${enter[@]}" "$interop/guest/boot" "$cache" k 9000 "$share" off "${mac[k]}" >"$dir/k.log" 2>&1 </dev/null &
  machine[k]=$!
  guest_ready "${machine[k]}" || { tail -n 20 "$dir/k.log" "$share/console"; return 1; }
  cp -r "$interop/peer" "$share/"
  guest "set -e
cp -r /share/peer /root/peer
ip addr add ${tcp[k]}/24 dev eth0
ip addr add ${address[k]}/24 dev eth0
modprobe -a ib_uverbs rdma_rxe
rdma link add rxe0 type rxe netdev eth0
for i in \$(seq 100); do [ -e /sys/class/infiniband_verbs/uverbs0 ] && break; sleep 0.1; done
for i in \$(seq 100); do grep -l $(printf '%02x%02x:%02x%02x' ${address[k]//./ }) /sys/class/infiniband/rxe0/ports/1/gids/* && exit; sleep 0.1; done
exit 1" >"$dir/k.out" 2>&1 || { cat "$dir/k.out"; return 1; }
  gid[k]=$(sed -n 's|.*/gids/||p' "$dir/k.out")
}
start_vm() {  # GUEST
  boot_vm "$1" && install_agent "$1" >"$dir/install.out" 2>&1 && return
  tail -n 30 "$dir/install.out"
  return 1
}

install_agent() {  # GUEST
  local share=${folder[$1]}
  install_in_guest && guest 'rm -f /etc/systemd/system/systemd-udevd{.service,-control.socket,-kernel.socket}
systemctl daemon-reload' && start_agent "$1"
}
# Has udev load the drivers and start the agent, as in a machine that boots with udev.
start_agent() {  # GUEST
  share=${folder[$1]} guest "set -e
ip addr add ${tcp[$1]}/24 dev eth0
systemctl start systemd-udevd
udevadm trigger --type=devices --action=add --subsystem-match={virtio,virtio-ports,nd,dax}
$(until_serving "$1")"
}
# A line for the shell of a guest, which shows the agent's log where it does not serve.
until_serving() {  # GUEST
  echo "end=\$((SECONDS + $((limit / 2)))); while ((SECONDS < end)); do
[ -S /run/softhca/$1/socket ] && [ \"\$(systemctl is-active softhca-guest)\" = active ] && exit 0; sleep 0.2; done
systemctl status --no-pager softhca-guest; journalctl --no-pager -n 30 -u softhca-guest; exit 1"
}

# Switches a guest off, and waits until its monitor has ended.
stop_vm() {  # GUEST
  local share=${folder[$1]}
  guest_start off
  wait "${machine[$1]}"
}

# Starts a line of shell on a side. In the line, $run makes the words after it a program of the tenant.
begin() {  # SIDE LINE
  local enter
  local as_tenant="softhca-run --tenant $1 --"
  if is_guest "$1"; then
    [[ $1 != k ]] || as_tenant=''
    share=${folder[$1]} guest_start "run='timeout $limit $as_tenant'; $2"
    job[$1]=$guest_job
  else
    enter "${host_of[$1]}"
    "${enter[@]}" bash -c "run='timeout --foreground $limit $build/cli/softhca-run --runtime-dir $dir/${host_of[$1]} \
--tenant $1 --'; $2" >"$dir/$1.out" 2>&1 </dev/null &
    job[$1]=$!
  fi
}
# Waits until it has ended, prints its output, returns its exit code.
end() {  # SIDE
  local code=0
  if is_guest "$1"; then
    share=${folder[$1]} guest_wait "${job[$1]}" >"$dir/$1.out" 2>&1 || code=$?
  else
    wait "${job[$1]}" || code=$?
  fi
  echo "--- $1:"
  tail -n 15 "$dir/$1.out"
  return $code
}
on() { begin "$@"; end "$1"; }

# Waits until a program of a side listens on a TCP port.
await_port() {  # SIDE PORT
  local enter
  if is_guest "$1"; then
    share=${folder[$1]} guest "$(until_listening "$2")"
  else
    enter "${host_of[$1]}"
    "${enter[@]}" bash -c "$(until_listening "$2")"
  fi
}

# A program on two sides: [-u] SERVER CLIENT PROGRAM ARGUMENT...; -u: as an ordinary user of the guests. The function
# $during, if there is one, runs beside it.
# shellcheck disable=SC2046  # words
pair() {
  local user='' server client program command code=0
  [[ $1 != -u ]] || { user=1; shift; }
  server=$1 client=$2 program=$3
  shift 3
  next_port=$((next_port + 1))
  peer=$(peer_on "$server") compose "$program" $(of_side "$server") '' "$@" $(differs "$server" "$client")
  begin "$server" "$(as_user "$server") \$run $command"
  await_port "$server" $next_port || { end "$server"; return 1; }
  peer=$(peer_on "$client") compose "$program" $(of_side "$client") "${tcp[$server]}" "$@" $(differs "$client" "$server")
  begin "$client" "$(as_user "$client") \$run $command"
  [[ -z ${during:-} ]] || $during || { echo "$during failed"; code=1; }
  end "$client" || code=1
  end "$server" || code=1
  daemons_live || code=1
  return $code
}
of_side() { echo "${device[$1]:-softhca0} ${gid[$1]:-0}"; }
# Where Soft-RoCE differs (docs/interoperability.md): SIDE OTHER-SIDE. Of $program.
differs() {
  [[ $program == peer ]] || return 0
  [[ $1 != k ]] || echo --invalidated-flag 4 --forgets-fenced
  [[ $2 != k ]] || echo --long-send-status 11 --peer-ignores-window-ends
}
is_guest() { [[ $1 == vm* || $1 == k ]]; }
as_user() { [[ -z $user || $1 != vm* ]] || echo 'setpriv --reuid 65534 --regid 65534 --clear-groups'; }
peer_on() { is_guest "$1" && echo /root/peer || echo "$interop/peer"; }
daemons_live() {
  kill -0 "${daemon[a]}" && kill -0 "${daemon[b]}" && return
  tail -n 20 "$dir"/{a,b}.log
  return 1
}

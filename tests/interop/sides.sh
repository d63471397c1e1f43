# The two sides: softhcad in a network namespace, and the guest at the other end of its tap.
# shellcheck shell=bash

mtu=9000 namespace=softhca-interop-$$ tap=rdma0 pci_tap=rdma1 vlan=100
host_mac='' guest_mac=52:54:00:00:00:02
# Of the link, and of its VLAN. On the VLAN only the daemons speak, not the host's kernel.
host_ip=10.9.0.1 guest_ip=10.9.0.2 host_ip6=fd09::1 guest_ip6=fd09::2
vlan_host_ip=10.9.1.1 vlan_guest_ip=10.9.1.2 vlan_host_ip6=fd09:1::1 vlan_guest_ip6=fd09:1::2
children=()
daemon=''
# shellcheck source-path=SCRIPTDIR
. "$here/guest/commands.sh"

take_down() {
  trap '' INT TERM HUP
  local left
  mapfile -t left < <(ip netns pids "$namespace" 2>/dev/null)
  ((${#left[@]} + ${#children[@]} == 0)) || kill -TERM "${left[@]}" "${children[@]}" 2>/dev/null
  for ((i = 0; i < 100 && $(ip netns pids "$namespace" 2>/dev/null | wc -l) > 0; ++i)); do sleep 0.05; done
  mapfile -t left < <(ip netns pids "$namespace" 2>/dev/null)
  ((${#left[@]} == 0)) || kill -KILL "${left[@]}" 2>/dev/null
  ip netns del "$namespace" 2>/dev/null
  rm -rf "$dir"
}
trap take_down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# `ip netns exec` would mount a fresh /sys over whatever stands in for device files there.
enter_host=(nsenter "--net=/run/netns/$namespace" --)
on_host() { "${enter_host[@]}" "$@"; }
# Fills `tenant`: what makes the words after it a program of the tenant's. Started in the background
# by itself, not by a function, that is what $! names.
tenant_words() {
  tenant=("${enter_host[@]}" timeout --foreground "$limit" "$build/cli/softhca-run"
          --runtime-dir "$dir/runtime" --tenant t --)
}
as_tenant() {
  local tenant
  tenant_words
  "${tenant[@]}" "$@"
}

make_link() {
  ip netns add "$namespace" || return
  on_host sysctl -qw net.ipv6.conf.{all,default}.accept_dad=0
  ip -n "$namespace" link set lo up
  ip -n "$namespace" tuntap add dev $tap mode tap &&
    ip -n "$namespace" addr add $host_ip/24 dev $tap &&
    ip -n "$namespace" addr add $host_ip6/64 dev $tap nodad &&
    ip -n "$namespace" link set $tap mtu $mtu up &&
    ip -n "$namespace" tuntap add dev $pci_tap mode tap &&
    ip -n "$namespace" link set $pci_tap mtu $mtu up &&
    # The programs' TCP connections do not wait for a guest that answers ARP late.
    ip -n "$namespace" neigh add $guest_ip lladdr $guest_mac dev $tap || return
  host_mac=$(ip -n "$namespace" -o link show $tap | sed 's/.*ether \([0-9a-f:]*\).*/\1/')
}

# The second card is behind the guest's IOMMU, for a driver in user space. It has rings of 256 entries:
# there, QEMU 7.2 writes an entry that crosses a page elsewhere.
start_guest() {
  local second=virtio-net-pci,netdev=pci,addr=10.0,mac=52:54:00:00:00:03,host_mtu=$mtu,romfile=
  "${enter_host[@]}" "$here/guest/boot" "$cache" $tap $mtu "$share" $offloads $guest_mac \
    -netdev "tap,id=pci,ifname=$pci_tap,script=no,downscript=no,vnet_hdr=off" \
    -device "$second,iommu_platform=on,disable-legacy=on,csum=off,gso=off,guest_csum=off" >"$dir/emulator.log" 2>&1 </dev/null &
  children+=($!)
  guest_ready "${children[-1]}" && return
  tail -n 20 "$dir/emulator.log" "$share/console"
  return 1
}

# The host's daemon, on the link, its VLAN, or the link by UDP sockets or the kernel's interface:
# link|vlan|socket|interface
start_daemon() {
  local where=$1 address=$host_ip address6=$host_ip6 port
  # Without qdisc_bypass=0 dumpcap would not see what is sent.
  port="device = \"iface=$tap,qdisc_bypass=0\""
  case $where in
    socket) port="socket = \"$address6\"
[[port]]
name = \"link4\"
socket = \"$address\"" ;;
    interface) port="interface = \"$tap\"" ;;&
    vlan) address=$vlan_host_ip address6=$vlan_host_ip6 port+="
vlan = $vlan" ;;&
    *) port+="
addresses = [\"$address/24\", \"$address6/64\"]" ;;
  esac
  cat >"$dir/host.toml" <<CONFIG
[metrics]
address = ""
[[port]]
name = "link"
$port
[[tenant]]
name = "t"
addresses = ["$address", "$address6"]
CONFIG
  mkdir -p "$dir/runtime"
  RUNTIME_DIRECTORY=$dir/runtime "${enter_host[@]}" "$build/daemon/softhcad" --config "$dir/host.toml" \
    >"$dir/daemon.log" 2>&1 </dev/null &
  daemon=$!
  children+=("$daemon")
  for ((i = 0; i < 200; ++i)); do
    [[ -S $dir/runtime/t/socket ]] && return 0
    sleep 0.05
  done
  cat "$dir/daemon.log"
  return 1
}

stop_daemon() {
  kill -TERM "$daemon"
  wait "$daemon"
}

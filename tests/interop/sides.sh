# The two sides: softhcad in a network namespace, and the guest at the other end of its tap.
# shellcheck shell=bash

mtu=9000 namespace=softhca-interop-$$ tap=rdma0 pci_tap=rdma1 vlan=100
host_mac='' guest_mac=52:54:00:00:00:02
# Of the link, and of its VLAN. On the VLAN only the daemons speak, not the host's kernel.
host_ip=10.9.0.1 guest_ip=10.9.0.2 host_ip6=fd09::1 guest_ip6=fd09::2
vlan_host_ip=10.9.1.1 vlan_guest_ip=10.9.1.2 vlan_host_ip6=fd09:1::1 vlan_guest_ip6=fd09:1::2
children=()
daemon=''

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

next_command=0
# Starts a line of shell in the guest; its number is in $guest_job.
guest_start() {
  guest_job=$next_command
  next_command=$((next_command + 1))
  echo "$*" >"$share/$guest_job.new"
  mv "$share/$guest_job.new" "$share/$guest_job.command"
}
# Waits for one, prints its output, returns its exit code.
guest_wait() {  # NUMBER
  local end=$((SECONDS + limit + 10))
  until [[ -e $share/$1.code ]] || ((SECONDS >= end)); do sleep 0.05; done
  cat "$share/$1.output" 2>/dev/null
  [[ -e $share/$1.code ]] || return 124
  return "$(<"$share/$1.code")"
}
guest() { guest_start "$@"; guest_wait "$guest_job"; }

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

start_guest() {
  "${enter_host[@]}" "$here/guest/boot" "$cache" $tap $pci_tap $mtu "$share" $offloads >"$dir/emulator.log" 2>&1 </dev/null &
  children+=($!)
  for ((i = 0; i < 1200; ++i)); do
    [[ -e $share/ready ]] && return 0
    kill -0 "${children[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 20 "$dir/emulator.log" "$share/console"
  return 1
}

# What `meson install` installs, with the libraries it needs and the guest does not have.
install_in_guest() {
  local to=$share/installed
  meson install -C "$build" --no-rebuild --strip --quiet --destdir "$to" >"$dir/install.log" 2>&1 ||
    { tail -n 20 "$dir/install.log"; return 1; }
  rm -rf "$to"/usr/local/share/doc
  mkdir -p "$to/usr/local/lib/needed"
  ldd "$to"/usr/local/sbin/* "$to"/usr/local/bin/* "$to"/usr/local/lib/*/{libibverbs,softhca}/*.so |
    awk '$3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/lib(c|m|dl|pthread|gcc_s|stdc\+\+|systemd|ibverbs|nl-[a-z0-9-]*)\.so' |
    xargs -I{} cp -L {} "$to/usr/local/lib/needed/"
  cp -r "$here/peer" "$share/"
  guest 'set -e
cp -a /share/installed/. /
echo /usr/local/lib/needed >/etc/ld.so.conf.d/needed.conf
ldconfig
cp -r /share/peer /root/peer
systemd-sysusers 2>/dev/null
systemctl daemon-reload'
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

# softhca on a stock kernel, as a unit of Debian's systemd: the whole of it runs in the guest.
# shellcheck shell=bash

# Shell lines for the guest: what the unit logged, where the case fails.
show_journal='trap "(exit \$?) || journalctl --no-pager -n 15 -u softhcad" EXIT
set -e'

stock_kernel_cases() {
  guest "cat >/root/env <<'END'
run() { t=\$1; shift; timeout $limit softhca-run --tenant \$t -- \"\$@\"; }
END
ip link add port0 type veth peer name port1 && ip link set port0 up && ip link set port1 up
mkdir -p /etc/softhca
cat >/etc/softhca/softhca.toml <<END
[metrics]
address = \"\"
[[port]]
name = \"port\"
interface = \"port0\"
addresses = [\"10.9.9.1/24\"]
[[tenant]]
name = \"a\"
addresses = [\"198.18.0.1\"]
[[tenant]]
name = \"b\"
addresses = [\"198.18.0.2\"]
socket = { group = \"games\" }
END" || die "no configuration in the guest"

  check "systemd: the unit starts, and says so when it serves" guest "$show_journal"'
[ "$(systemctl is-active softhcad)" = inactive ]
systemctl start softhcad
systemctl is-active softhcad
[ -S /run/softhca/a/socket ]
systemctl show -p Type,StatusText,User,NRestarts softhcad | tee /root/shown
grep -x Type=notify /root/shown && grep -x StatusText=serving /root/shown && grep -x NRestarts=0 /root/shown
[ "$(stat -c %U /proc/$(systemctl show --value -p MainPID softhcad))" = softhca ]'
  check "systemd: the unit lets the daemon do little else" guest 'cat >/root/allowed <<END
AmbientCapabilities=
CapabilityBoundingSet=~CAP_NET_(BIND_SERVICE|BROADCAST|RAW)
DeviceAllow=
IPAddressDeny=
NotifyAccess=
PrivateNetwork=
PrivateUsers=
ProcSubset=
ProtectProc=
RestrictAddressFamilies=~AF_(INET|INET6)
RestrictAddressFamilies=~AF_NETLINK
RestrictAddressFamilies=~AF_PACKET
RestrictAddressFamilies=~AF_UNIX
RootDirectory=/RootImage=
SystemCallFilter=~@resources
UMask=
END
systemd-analyze security --no-pager softhcad >/root/security || exit
tail -n 1 /root/security
awk "\$1 == \"✗\" { print \$2 }" /root/security | LC_ALL=C sort | diff /root/allowed -'
  check "systemd: the unit makes room for socket buffers" guest \
    '[ "$(sysctl -n net.core.rmem_max)" = 33554432 ] && [ "$(sysctl -n net.core.wmem_max)" = 4194304 ]'
  check "systemd: a tenant's group comes in, though the unit may give nothing away" guest \
    'as() { setpriv --reuid 65534 --regid "$1" --clear-groups softhca-run --tenant b true; }
as games && ! as users'
  check "stock kernel: the library's question loads ib_core" guest \
    'ibv_devinfo; lsmod | grep -w ib_core'
  check "stock kernel: no device without softhca-run" guest \
    '! SYSFS_PATH=/run/softhca/a/sysfs IBV_DRIVERS=/usr/local/lib/x86_64-linux-gnu/libibverbs/libsofthca ibv_devinfo'
  check "stock kernel: ibv_devinfo" guest \
    '. /root/env; run a ibv_devinfo -v | tee /root/devinfo; grep -q "hca_id:.*softhca0" /root/devinfo &&
     grep -q "GID.*::ffff:198.18.0.1, RoCE v2" /root/devinfo'
  check "stock kernel: ibv_rc_pingpong, events" guest "$(between_tenants 'ibv_rc_pingpong -c -e')"
  if [[ -z $short ]]; then
    check "stock kernel: ibv_rc_pingpong" guest "$(between_tenants 'ibv_rc_pingpong -c -n 100')"
    check "stock kernel: ibv_ud_pingpong, events" guest "$(between_tenants 'ibv_ud_pingpong -c -e')"
  fi
  check "systemd: reload" guest "$show_journal"'
pid=$(systemctl show --value -p MainPID softhcad)
sed -i "s/^name = \"b\"/&\nweight = 2/" /etc/softhca/softhca.toml
printf "%s\n" "[[tenant]]" "name = \"c\"" "addresses = [\"198.18.0.3\"]" >>/etc/softhca/softhca.toml
systemctl reload softhcad
for i in $(seq 300); do [ -S /run/softhca/c/socket ] && break; sleep 0.1; done
[ -S /run/softhca/c/socket ]
echo "[nonsense]" >>/etc/softhca/softhca.toml
# Whether systemctl says so as well is its affair: the status has to.
systemctl reload softhcad || true
for i in $(seq 300); do systemctl show -p StatusText softhcad | grep refused && break; sleep 0.1; done
systemctl show -p StatusText softhcad | grep "serving; the last reload was refused"
sed -i /nonsense/d /etc/softhca/softhca.toml
systemctl reload softhcad
for i in $(seq 300); do systemctl show -p StatusText softhcad | grep -x StatusText=serving && break; sleep 0.1; done
systemctl show -p StatusText softhcad | grep -x StatusText=serving
systemctl is-active softhcad
[ "$pid" = "$(systemctl show --value -p MainPID softhcad)" ]'
  check "systemd: stop, start again" guest "$show_journal"'
systemctl stop softhcad
systemctl show -p ActiveState,Result,ExecMainStatus softhcad | tee /root/shown
grep -x ActiveState=inactive /root/shown && grep -x Result=success /root/shown && grep -x ExecMainStatus=0 /root/shown
[ ! -e /run/softhca ]
systemctl start softhcad
systemctl is-active softhcad'
}

# Once the kernel has RDMA devices of its own, too. The daemon has run since before they came.
both_adapters_cases() {
  check "stock kernel: next to rxe, both are listed" guest '. /root/env
for i in $(seq 300); do run a ibv_devices >/root/devices; grep -qw rxe0 /root/devices && break; sleep 0.1; done
cat /root/devices; grep -w softhca0 /root/devices && grep -w rxe0 /root/devices && grep -w rxe1 /root/devices'
  check "stock kernel: next to rxe, both work at once" both_work
}

# A program under softhca-run uses rxe0 to the host, while two tenants of the guest's daemon talk.
both_work() {
  local beside code=0
  guest_start ". /root/env
n=0; until [ -e /root/enough ]; do
(
$(between_tenants 'ibv_rc_pingpong -c -e -d softhca0 -n 300')
) >/root/pingpong 2>&1 || { cat /root/pingpong; exit 1; }
n=\$((n + 1)); echo \$n >/root/rounds; done; rm /root/enough; echo \"\$n times\"; [ \$n -ge 2 ]"
  beside=$guest_job
  guest 'for i in $(seq 600); do [ -e /root/rounds ] && exit 0; sleep 0.1; done; exit 1' || code=1
  guest_prefix='softhca-run --tenant a --' captured wire host peer --transports rc,ud --few --mtu 4096 || code=1
  guest 'touch /root/enough'
  guest_wait "$beside" || code=1
  return $code
}

# Shell lines for the guest that run a program as client of b and server of a.
between_tenants() {
  printf '. /root/env
run a %s -g 0 -p 18900 & server=$!
for i in $(seq 200); do grep -qs ":49D4 0*:0000 0A" /proc/net/tcp /proc/net/tcp6 && break; sleep 0.1; done
run b %s -g 0 -p 18900 127.0.0.1 && wait $server' "$1" "$1"
}

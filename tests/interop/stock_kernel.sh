# softhca on a stock kernel: the whole of it runs in the guest.
# shellcheck shell=bash

stock_kernel_cases() {
  guest 'cp -r /share/softhca /opt/softhca
cat >/tmp/env <<END
export LD_LIBRARY_PATH=/opt/softhca/lib
run() { t=\$1; shift; timeout 60 /opt/softhca/cli/softhca-run --tenant \$t -- "\$@"; }
start_daemon() {
  mkdir -p /run/softhca
  setsid /opt/softhca/daemon/softhcad --config /tmp/guest.toml >/tmp/softhcad.log 2>&1 </dev/null &
  echo \$! >/tmp/pid
  for i in \$(seq 200); do
    [ -S /run/softhca/a/socket ] && [ -S /run/softhca/b/socket ] && return 0
    sleep 0.1
  done
  cat /tmp/softhcad.log
  return 1
}
END
cat >/tmp/guest.toml <<END
[metrics]
address = ""
[[tenant]]
name = "a"
addresses = ["198.18.0.1"]
[[tenant]]
name = "b"
addresses = ["198.18.0.2"]
END
. /tmp/env
start_daemon' || die "the daemon does not start in the guest"

  check "stock kernel: the library's question loads ib_core" guest \
    'ibv_devinfo; lsmod | grep -w ib_core'
  check "stock kernel: no device without softhca-run" guest \
    '. /tmp/env; ! SYSFS_PATH=/run/softhca/a/sysfs IBV_DRIVERS=/opt/softhca/libverbs-provider/libsofthca ibv_devinfo'
  check "stock kernel: ibv_devinfo" guest \
    '. /tmp/env; run a ibv_devinfo -v | tee /tmp/devinfo; grep -q "hca_id:.*softhca0" /tmp/devinfo &&
     grep -q "GID.*::ffff:198.18.0.1, RoCE v2" /tmp/devinfo'
  check "stock kernel: ibv_rc_pingpong" guest "$(between_tenants 'ibv_rc_pingpong -c -n 100')"
  check "stock kernel: ibv_rc_pingpong, events" guest "$(between_tenants 'ibv_rc_pingpong -c -e')"
  check "stock kernel: ibv_ud_pingpong, events" guest "$(between_tenants 'ibv_ud_pingpong -c -e')"
}

# Once the kernel has an RDMA device of its own, too. A daemon sees the devices there are when it starts.
both_adapters_cases() {
  guest '. /tmp/env
kill $(cat /tmp/pid)
for i in $(seq 100); do [ -e /run/softhca/a/socket ] || break; sleep 0.1; done
start_daemon' || die "the daemon does not start again in the guest"
  check "stock kernel: next to rxe, both are listed" guest \
    '. /tmp/env; run a ibv_devices | tee /tmp/devices; grep -w softhca0 /tmp/devices && grep -w rxe0 /tmp/devices'
  check "stock kernel: next to rxe, softhca0 works" guest \
    "$(between_tenants 'ibv_rc_pingpong -c -e -d softhca0')"
}

# Shell lines for the guest that run a program as client of b and server of a.
between_tenants() {
  printf '. /tmp/env
run a %s -g 0 -p 18900 & server=$!
for i in $(seq 200); do grep -qs ":49D4 0*:0000 0A" /proc/net/tcp /proc/net/tcp6 && break; sleep 0.1; done
run b %s -g 0 -p 18900 127.0.0.1 && wait $server' "$1" "$1"
}

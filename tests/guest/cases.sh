# Programs of guests that work as on a host.
# shellcheck shell=bash disable=SC2016,SC2154  # for the shell of a side; variables of the runner

essential_cases() {
  check "the unit serves programs, and udev has started it" on vm1 'set -e
systemctl show -p ActiveState,NRestarts,StatusText softhca-guest
[ "$(systemctl show --value -p NRestarts softhca-guest)" = 0 ]
systemctl list-dependencies --reverse --plain softhca-guest | grep "\.device$"
[ "$(cat /sys/bus/dax/devices/dax0.0/align)" = 4096 ]'
  check "ibv_devinfo" device_is_shown
  check "ibv_rc_pingpong, a process of the host serves" pair c vm1 ibv_rc_pingpong -c -n 200
  check "ibv_rc_pingpong, the guest serves, with events" pair vm1 c ibv_rc_pingpong -c -e -n 200
}

device_is_shown() {
  on vm1 '$run ibv_devinfo -v' || return
  grep -q 'hca_id:.*softhca0' "$dir/vm1.out" && grep -q "GID.*::ffff:${address[vm1]}, RoCE v2" "$dir/vm1.out" &&
    grep -q 'state:.*PORT_ACTIVE' "$dir/vm1.out"
}

more_cases() {
  local program other
  for program in 'ibv_ud_pingpong -c' 'ibv_ud_pingpong -c -e' 'ibv_uc_pingpong -c' 'ibv_srq_pingpong -c' 'ibv_srq_pingpong -c -e'; do
    # shellcheck disable=SC2086  # its arguments
    check "$program" pair c vm1 $program -n 100
  done
  for program in 'ib_write_bw -s 65536 -n 100' 'ib_read_bw -s 65536 -n 100' 'ib_send_bw -s 65536 -n 100' 'ib_send_bw -c UD -n 100' \
    'ib_atomic_bw -n 200' 'ib_write_lat -n 200' 'ib_send_lat -s 4096 -n 200' 'ib_send_bw -e -n 100' 'ib_write_bw -q 4 -b -n 100'; do
    # shellcheck disable=SC2086
    check "perftest: $program, guest and process" pair vm1 c $program
  done
  for other in c d; do
    check "contents, $(place "$other") serves" contents "$other" vm1
    check "contents, the guest serves $(place "$other")" contents vm1 "$other"
    check "rping, $(place "$other") serves" rping_between "$other" vm1
    check "rping, the guest serves $(place "$other")" rping_between vm1 "$other"
  done
  check "perftest: ib_write_bw over the wire" pair vm1 d ib_write_bw -s 65536 -n 200
  check "an ordinary user: ibv_rc_pingpong" pair -u c vm1 ibv_rc_pingpong -c -n 100
  check "an ordinary user: ib_send_bw, the guest serves" pair -u vm1 c ib_send_bw -s 65536 -n 100
  check "a child has copies of registered memory" child_has_copies
  check "UCX" ucx_between vm1 c
  LIMIT=1800 check "tests of rdma-core" suite_passes
  check "a level of the tenant" levels_hold
  check "more memory than the region is refused, and given back" memory_is_bounded
  check "writes do not notify the host" writes_stay_inside
}

two_guests_cases() {
  local program
  start_vm vm2 >"$dir/case" 2>&1 || { failed=$((failed + 1)); echo "FAIL second guest"; keep_failure vm2; return; }
  check "guest to guest: ibv_rc_pingpong" pair vm1 vm2 ibv_rc_pingpong -c -n 100
  check "guest to guest: contents" contents vm2 vm1
  check "guest to guest: rping" rping_between vm1 vm2
  for program in 'ib_write_bw -s 65536 -n 100' 'ib_atomic_bw -n 100'; do
    # shellcheck disable=SC2086  # its arguments
    check "guest to guest: $program" pair vm2 vm1 $program
  done
  check "a guest is switched off, and the other goes on" other_guest_goes_on
  # The cases may be others: two guests are slow.
  ! kill -0 "${machine[vm2]}" 2>/dev/null || stop_vm vm2
}

soft_roce_cases() {
  local program
  start_soft_roce >"$dir/case" 2>&1 || { failed=$((failed + 1)); echo "FAIL Soft-RoCE"; keep_failure k; return; }
  check "Soft-RoCE: ibv_rc_pingpong, the guest serves" pair vm1 k ibv_rc_pingpong -c -n 100
  check "Soft-RoCE: ibv_ud_pingpong, Soft-RoCE serves" pair k vm1 ibv_ud_pingpong -c -n 100
  for program in 'ib_write_bw -s 65536 -n 100' 'ib_read_bw -s 65536 -n 100' 'ib_send_bw -s 65536 -n 100' 'ib_atomic_bw -n 100'; do
    # shellcheck disable=SC2086  # its arguments
    check "Soft-RoCE: $program" pair k vm1 $program
  done
  check "Soft-RoCE: contents, the guest serves" contents vm1 k
  check "Soft-RoCE: contents, Soft-RoCE serves" contents k vm1
  ! kill -0 "${machine[k]}" 2>/dev/null || stop_vm k
}

place() { [[ $1 == c ]] && echo "a process" || echo "another host"; }

# Each operation of all transports; both ends check every byte.
contents() { pair "$1" "$2" peer --few; }

# SERVER CLIENT
rping_between() {
  local code=0
  begin "$1" "\$run rping -s -V -C 20 -S 2000 -a ${address[$1]}"
  await_listener "${host_of[$1]}" || { end "$1"; return 1; }
  on "$2" "\$run rping -c -V -C 20 -S 2000 -a ${address[$1]}" || code=1
  end "$1" || code=1
  return $code
}
await_listener() {  # HOST
  local stop=$((SECONDS + limit))
  until [[ $(ctl "$1" listeners | tail -n +2) ]]; do
    ((SECONDS < stop)) || return
    sleep 0.1
  done
}

# UCX keeps registrations of memory, and watches what the program does to it: SERVER CLIENT
ucx_between() {
  local code=0 ucx='env UCX_TLS=rc,self UCX_NET_DEVICES=softhca0:1 $run ucx_perftest -t tag_bw -s 100000 -n 100 -w 10'
  next_port=$((next_port + 1))
  begin "$1" "$ucx -p $next_port"
  await_port "$1" $next_port || { end "$1"; return 1; }
  on "$2" "$ucx -p $next_port ${tcp[$1]}" || code=1
  end "$1" || code=1
  return $code
}

# rdma-core's own tests, between queue pairs of one program.
suite_passes() {
  local suite=/usr/share/doc/rdma-core/tests to=${folder[vm1]}/suite name passes
  [[ -r $suite/run_tests.py ]] || { echo "no $suite; install: tools/install-packages test"; return 1; }
  mkdir -p "$to/bin"
  cp -r "$suite" "$to/" && gunzip -qf "$to"/tests/*.gz || return
  # What would fail on any machine gets a name that is no test's; and one that takes what it has posted for complete,
  # though the agent may still read it.
  while read -r name; do
    sed -i "s/def ${name##*.}(/def left_out_${name##*.}(/" "$to/tests/$(cut -d. -f1 <<<"$name").py"
  done < <(sed -n 's/^!\([^ ]*\).*/\1/p' "$root/tests/system/programs/rdma-core-suite.skips"; echo test_cq.CQTest.test_resize_cq)
  # It asks for network devices of the kernel's adapters, and for the interface of the device's address.
  printf '#!/bin/sh\necho "[]"\n' >"$to/bin/rdma"
  chmod +x "$to/bin/rdma"
  on vm1 "modprobe veth; ip link add softhca0 type veth peer name other
ip addr add ${address[vm1]}/24 dev softhca0; ip link set softhca0 up; ip link set other up
cp -r /share/suite /root/ && cd /root/suite && PATH=/root/suite/bin:\$PATH \$run /usr/bin/python3 -B tests/run_tests.py \
  --dev softhca0 --port 1 --gid 0 -v >/share/suite.out 2>&1
code=\$?; ip link del softhca0; sed -n '/^=====/,\$p' /share/suite.out | tail -n 30; grep -c ' ok\$' /share/suite.out; exit \$code" || return
  passes=$(grep -c '\bok$' "${folder[vm1]}/suite.out")
  echo "$passes passed"
  ((passes >= 95))
}

# The default level, and one that the program asks for.
levels_hold() {
  level_of 'ibv_rc_pingpong' day && level_of '--level night -- ibv_rc_pingpong' night
}
level_of() {  # WORDS LEVEL
  local code=0
  next_port=$((next_port + 1))
  begin vm1 "timeout $limit softhca-run --tenant vm1 $1 -d softhca0 -g 0 -p $next_port -n 10"
  await_port vm1 $next_port || { end vm1; return 1; }
  ctl a -o json tenant show vm1 | python3 -c '
import json, sys
levels = [p["level"] for p in json.load(sys.stdin)["processes"] if "level" in p]
print(*levels)
sys.exit(levels != [sys.argv[1]])' "$2" || code=1
  on c "\$run ibv_rc_pingpong -d softhca0 -g 0 -p $next_port -n 10 ${tcp[vm1]}" || code=1
  end vm1 || code=1
  return $code
}

child_has_copies() {
  cat >"${folder[vm1]}/fork.py" <<'PYTHON'
import os
import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD

pd = PD(Context(name="softhca0"))
region = MR(pd, 1 << 20, e.IBV_ACCESS_LOCAL_WRITE)
region.write("parent", 6)
child = os.fork()
if child == 0:
    before = region.read(6, 0)
    region.write("child!", 6)
    os._exit(0 if (before, region.read(6, 0)) == (b"parent", b"child!") else 1)
assert os.waitpid(child, 0)[1] == 0
assert region.read(6, 0) == b"parent", region.read(6, 0)
PYTHON
  on vm1 '$run /usr/bin/python3 -B /share/fork.py'
}

# Registers memory until there is none, frees it, and does so again: all must be there again.
memory_is_bounded() {
  cat >"${folder[vm1]}/memory.py" <<'PYTHON'
import mmap
import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD

BYTES = 16 << 20
rounds = []
for _ in range(3):
    pd = PD(Context(name="softhca0"))
    regions = []
    try:
        while len(regions) < 64:
            regions.append(MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE))
            regions[-1].write("x" * 100, 100)
    except Exception as error:
        print("after", len(regions), "regions:", error)
    rounds.append(len(regions))
    for region in regions:
        region.close()
    pd.close()
assert 4 <= rounds[0] < 16 and min(rounds) == max(rounds), rounds
PYTHON
  on vm1 '$run /usr/bin/python3 -B /share/memory.py' && pair c vm1 ibv_rc_pingpong -c -n 50
}

# Notifications of the virtio port's queue to the host, which is the only one with this number.
port_notifications() { grep -c ' n 5 ' "$dir/vm1.trace"; }

# Writes go through memory alone, while the engine does not sleep. The program's beginning and end take some requests,
# for few writes as for many.
writes_stay_inside() {
  local before few many code=0
  sed -i '1i[daemon]\nidle = "poll"' "$dir/a.toml" && ctl a reload || return
  before=$(port_notifications)
  pair c vm1 ib_write_bw -s 64 -n 100 || code=1
  few=$(($(port_notifications) - before))
  before=$(port_notifications)
  pair c vm1 ib_write_bw -s 64 -n 100000 || code=1
  many=$(($(port_notifications) - before))
  sed -i 1,2d "$dir/a.toml" && ctl a reload || code=1
  echo "notifications with 100 writes: $few, with 100000: $many"
  ((code == 0 && few > 0 && many < few + 100))
}

other_guest_goes_on() {
  stop_vm vm2 || { echo "the monitor ended with $?"; return 1; }
  pair vm1 c ibv_rc_pingpong -c -n 100
}

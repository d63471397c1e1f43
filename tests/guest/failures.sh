# What becomes of a guest and of others when a part ends, stops or is replaced.
# shellcheck shell=bash disable=SC2016,SC2154  # for the shell of a side; variables of the runner

failure_cases() {
  check "upgrade of the adapter beside contents" adapters_replaced upgrade
  check "crash of the adapter beside contents" adapters_replaced crash
  check "the adapter is upgraded while the guest is idle" idle_upgrade
  check "kill -9 of a program" killed_program
  check "kill -9 of the agent: its programs end, the next one serves" killed_agent
  check "the guest stands still: others go on, and so does it" stopped_guest
  check "kill -9 of the emulator: others go on" killed_emulator
  LIMIT=300 check "the guest boots again, with a new region" start_vm vm1
  check "ibv_rc_pingpong after that" pair vm1 c ibv_rc_pingpong -c -n 100
  LIMIT=300 check "the guest restarts in its emulator, with its region" restarted_guest
  check "kill -9 of softhca-run: others go on" killed_relay
  check "the daemons end" daemons_end
}

# Waits: COMMAND ARGUMENT...
eventually() {
  local stop=$((SECONDS + limit))
  until "$@"; do
    ((SECONDS < stop)) || { echo "not in $limit s: $*"; return 1; }
    sleep 0.2
  done
}
restarts() { ctl a status | sed -n "s/^restarts: .*\b$1 \([0-9]*\).*/\1/p"; }  # upgrade|crash
restarted() { (($(restarts "$1") > $2)); }  # upgrade|crash COUNT
is_connected() { [[ $(ctl a qps --state RTR,RTS 2>/dev/null | tail -n +2) ]]; }

# Replaces the adapter of host a twice while a queue pair is connected. The keeper gives up after three crashes in
# 30 seconds.
replace_twice() {
  local count
  eventually is_connected || return
  for _ in 1 2; do
    sleep 1  # the program does its work meanwhile
    count=$(restarts "$how")
    if [[ $how == upgrade ]]; then
      ctl a upgrade
    else
      kill -KILL "$(pgrep -P "${daemon[a]}" -x softhca-adapter)"
    fi && eventually restarted "$how" "${count:-0}" || return
    is_connected || { echo "the program has ended before"; return 1; }
  done
}
adapters_replaced() {  # upgrade|crash
  local how=$1
  during=replace_twice pair c vm1 peer --few --transports rc --rounds 12
}
idle_upgrade() {
  ctl a upgrade && pair vm1 c ibv_rc_pingpong -c -n 100
}

# A server of the guest that waits; its process is /root/server's.
waiting_server() {
  next_port=$((next_port + 1))
  begin vm1 "exec softhca-run --tenant vm1 -- bash -c 'echo \$\$ >/root/server; exec ibv_rc_pingpong -d softhca0 -g 0 -p $next_port'"
  await_port vm1 $next_port
}
# True if the guest's programs have opened the device so often. softhca-run has a session, too, without a level.
has_sessions() {  # COUNT
  ctl a -o json tenant show vm1 | python3 -c '
import json, sys
sys.exit(sum("level" in p for p in json.load(sys.stdin)["processes"]) != int(sys.argv[1]))' "$1"
}
in_vm1() { share=${folder[vm1]} guest "$@"; }

killed_program() {
  waiting_server || return
  has_sessions 1 || { echo "no session"; return 1; }
  in_vm1 'kill -9 $(cat /root/server)'
  end vm1
  eventually has_sessions 0
}

killed_agent() {
  waiting_server || return
  in_vm1 'kill -9 $(systemctl show --value -p MainPID softhca-guest)' || return
  # A program of libibverbs that waits for TCP does not look at its device.
  eventually has_sessions 0 || return
  in_vm1 'kill $(cat /root/server)'
  end vm1
  in_vm1 "$(until_serving vm1)" && in_vm1 '[ "$(systemctl show --value -p NRestarts softhca-guest)" = 1 ]' &&
    pair vm1 c ibv_rc_pingpong -c -n 100
}

# The emulator stands still while a queue pair of the guest is connected, longer than an adapter may.
stopped_guest() {
  during=stop_and_go pair vm1 c ib_write_bw -s 64 -n 20000 && pair vm1 c ibv_rc_pingpong -c -n 100
}
stop_and_go() {
  local emulator code=0
  emulator=$(emulator_of vm1) && eventually is_connected || return
  kill -STOP "$emulator"
  others_go_on || code=1
  sleep 5
  kill -CONT "$emulator"
  return $code
}
# Tenants of both hosts, while something is wrong with the guest.
others_go_on() { during='' pair e d ibv_rc_pingpong -c -n 500; }

killed_emulator() {
  waiting_server || return
  kill -KILL "$(emulator_of vm1)"
  wait "${machine[vm1]}"
  eventually has_sessions 0 && others_go_on && daemons_live
}

region_id() {  # FILE
  in_vm1 'cat /sys/bus/nd/devices/dax0.*/uuid' >"$1"
  grep . "$1"
}
# The guest's disk has what was installed. Commands of the former boot are gone before the next one looks for some.
restarted_guest() {
  region_id "$dir/before" && in_vm1 'sync; (sleep 3; echo b >/proc/sysrq-trigger) >/dev/null 2>&1 &' || return
  rm -f "${folder[vm1]}"/{ready,*.command,*.output,*.code}
  unset "next_command[${folder[vm1]}]"
  share=${folder[vm1]} guest_ready "${machine[vm1]}" && start_agent vm1 || return
  region_id "$dir/after" && diff "$dir/before" "$dir/after" && pair vm1 c ibv_rc_pingpong -c -n 100
}

killed_relay() {
  local emulator
  waiting_server || return
  emulator=$(emulator_of vm1) || return
  kill -KILL "${machine[vm1]}"
  wait "${machine[vm1]}"
  eventually has_sessions 0 && others_go_on || return
  ! kill -KILL "$emulator" 2>/dev/null || echo "the emulator went on"
}

daemons_end() {
  local host code=0
  eventually has_sessions 0 || return
  for host in a b; do
    kill -TERM "${daemon[$host]}"
    wait "${daemon[$host]}" || { echo "the daemon of $host ended with $?"; code=1; }
  done
  ! grep -hE -A 30 'Sanitizer|runtime error:' "$dir"/*.log && return $code
}

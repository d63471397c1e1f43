# Programs between softhca and rxe while the daemon's adapter is replaced: by an upgrade, or because it was killed.
# shellcheck shell=bash

restarts() { ctl status | sed -n "s/^restarts: .*\b$1 \([0-9]*\).*/\1/p"; }  # upgrade|crash
host_has_connected() { [[ $(ctl qps --state RTR,RTS 2>/dev/null | tail -n +2) ]]; }

crash() {
  local before
  before=$(restarts crash)
  another() { (($(restarts crash 2>/dev/null) > ${before:-0})); }
  kill -KILL "$(pgrep -P "$daemon" -x softhca-adapter)" && eventually another
}

# Replaces the adapter, half a second after a queue pair is connected and again every SECONDS while one is, until
# "$dir/enough" exists, or the run has ended: upgrade|crash SECONDS
replace() {
  local next=0
  while [[ -d $dir && ! -e $dir/enough ]]; do
    sleep 0.5  # the program does its work meanwhile
    ((SECONDS >= next)) && host_has_connected || continue
    next=$((SECONDS + $2))
    if [[ $1 == upgrade ]]; then ctl upgrade; else crash; fi || { echo "no adapter follows"; return 1; }
    host_has_connected && echo "the program has met it"
  done
}

# Runs a case whose programs must see nothing: upgrade|crash FUNCTION ARGUMENT...
# The keeper gives up after three crashes in 30 seconds.
replaced() {
  local how=$1 code=0 replacing least=1
  shift
  rm -f "$dir/enough"
  if [[ $how == crash ]]; then
    least=16
    ((SECONDS >= next_crash)) || sleep $((next_crash - SECONDS))
  fi
  replace "$how" $least >"$dir/replaced" 2>&1 &
  replacing=$!
  "$@" || code=1
  touch "$dir/enough"
  wait $replacing || code=1
  next_crash=$((SECONDS + 16))
  echo "--- $how:"
  tail -n 8 "$dir/replaced"
  grep -q 'has met it' "$dir/replaced" || { echo "no $how while the program ran"; code=1; }
  return $code
}
next_crash=0

restart_cases() {
  local how program who
  for how in upgrade crash; do
    for who in guest host; do
      for program in 'peer --transports rc --few --rounds 8' 'ib_write_bw -s 65536 -D 8' 'ib_send_bw -s 65536 -D 8' \
        'ib_read_bw -s 65536 -D 8' 'ib_atomic_bw -A FETCH_AND_ADD -D 8' 'ib_send_lat -D 8'; do
        [[ -z $short || $program == peer* || "$program $who" == ib_write*guest ]] || continue
        # shellcheck disable=SC2086  # its arguments
        check "$how: ${program%% -[sAD-]*}, $([[ $who == host ]] && echo softhca || echo rxe) serves" \
          captured replaced $how wire $who $program
      done
      check "$how: rping, $([[ $who == host ]] && echo softhca || echo rxe) serves" captured replaced $how connected $who \
        rping -s -V -C 2000 -S 2000 -a @server -- rping -c -V -C 2000 -S 2000 -a @server
    done
  done
}

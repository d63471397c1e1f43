# What system tests share. Read inside the sandbox: . "$SYSTEM_TESTS/lib.sh"
# shellcheck shell=bash

fail() {
  echo "failed: $*" >&2
  exit 1
}

skip() {
  echo "$*"
  exit 77
}

# Where the threads of a process are: name, state, system call and kernel function.
say_threads() {  # PID
  local thread
  for thread in /proc/"$1"/task/*; do
    echo "thread $(<"$thread/comm"): $(sed -n 's/^State:\t//p' "$thread/status"), $(<"$thread/syscall"), $(<"$thread/wchan")"
  done
}

next_port=19000

# Waits until process $2 listens on TCP port $1, or is gone.
wait_listening() {
  local i pattern
  pattern=$(printf ':%04X 0*:0000 0A' "$1")
  for ((i = 0; i < 400; ++i)); do
    grep -qs "$pattern" /proc/net/tcp /proc/net/tcp6 && return 0
    kill -0 "$2" 2>/dev/null || return 1
    sleep 0.05
  done
  return 1
}

# Fills `command` with a program of ibverbs-utils or perftest, told its device and TCP port. Where adapters are
# restarted ($RESTARTS) a reliable peer waits 1 s for an answer, since other tests may have the processor.
compose() {  # PROGRAM ARGUMENT...
  local program=$1
  shift
  [[ -z ${RESTARTS:-} || $program == ibv_* || $* == *U[CD]* ]] || set -- "$@" -u 18
  next_port=$((next_port + 1))
  # Without margins, so that one alarm ends it (end_measurements).
  [[ $* != *-D* ]] || set -- "$@" -f 0
  case $program in
    ibv_*) command=("$program" -d "$DEV" -g "$GID" -p "$next_port" "$@") ;;
    *) command=("$SYSTEM_TESTS/programs/perftest/run" "$program" -d "$DEV" -x "$GID" -p "$next_port" -F "$@") ;;
  esac
}

# Runs a program as server of A (or of $SERVER) and as client of B (or $CLIENT), at most $LIMIT (60)
# seconds. Both must end well. The client's output stays in $SANDBOX_DIR/client.
pair() {  # PROGRAM ARGUMENT...
  local command server status limit=${LIMIT:-60}
  echo "--- $*"
  compose "$@"
  timeout --foreground "$limit" ${SERVER:-$A} "${command[@]}" >"$SANDBOX_DIR/server" 2>&1 &
  server=$!
  wait_listening "$next_port" "$server" || { cat "$SANDBOX_DIR/server"; fail "$1: no server"; }
  if ! timeout --foreground "$limit" ${CLIENT:-$B} "${command[@]}" "$A_IP" \
    >"$SANDBOX_DIR/client" 2>&1; then
    cat "$SANDBOX_DIR/server" "$SANDBOX_DIR/client"
    fail "client of $*"
  fi
  wait "$server" && return
  status=$?
  cat "$SANDBOX_DIR/server" "$SANDBOX_DIR/client"
  fail "server of $* ended with status $status"
}

# Sum of a metric over all label sets that match: metric URL NAME [LABELS-REGEX].
metric() {
  curl -sf --max-time 10 "$1" |
    awk -v name="$2" -v labels="${3:-}" '
      { key = substr($0, 1, length($0) - length($NF) - 1); split(key, part, "{") }
      part[1] == name && key ~ labels { sum += $NF; found = 1 }
      END { if (!found) exit 1; printf (sum == int(sum) ? "%.0f\n" : "%.9g\n"), sum }'
}

# Waits up to half a minute until a command succeeds.
eventually() {
  local i
  for ((i = 0; i < 300; ++i)); do
    "$@" && return 0
    sleep 0.1
  done
  return 1
}

# Ends programs of perftest that run for a time without margins (-D N -f 0) as if it were over, and
# waits until they have ended. Each gets one alarm: a second one, after its main function has
# returned, would use memory that is gone.
end_measurements() {  # PID...
  local i
  local -A alarmed=()
  for ((i = 0; i < 600; ++i)); do
    alarm_once "$@" || return 0
    sleep 0.05
  done
  fail "a program goes on when its time is over"
}
# Whether any of them still runs. Adds those that got their alarm to the caller's array alarmed.
alarm_once() {  # PID...
  local pid caught some=1
  for pid; do
    caught=$(sed -n 's/^SigCgt:\t//p' "/proc/$pid/status" 2>/dev/null)
    [[ -n $caught ]] || continue
    some=0
    # One that waits for no alarm yet would die of it (SIGALRM is 14).
    ((0x$caught & 1 << 13)) && [[ -z ${alarmed[$pid]:-} ]] && kill -ALRM "$pid" 2>/dev/null &&
      alarmed[$pid]=1
  done
  return $some
}
# Process ids of the sandbox's programs whose names match: REGEX
programs_of() {
  local pid
  while read -r pid; do
    [[ $(cat "/proc/$pid/comm" 2>/dev/null) =~ $1 ]] && echo "$pid"
  done < <(grep -lszE "^SANDBOX_DIR=$SANDBOX_DIR(/|\$)" /proc/[0-9]*/environ | cut -d/ -f3)
}

# Waits until a daemon has said that it serves: its sockets and device trees are there. LOG
wait_ready() {
  eventually grep -qs 'ready:' "$1" && return
  cat "$1"
  fail "no daemon"
}

# The process that serves, of a daemon: its main process only keeps it. PID
adapter_of() {
  pgrep -P "$1" -x softhca-adapter || fail "no adapter of $1"
}
# Stops a daemon, and lets it go on. Its main process would end an adapter that stands still. PID
freeze() {
  local adapter
  adapter=$(adapter_of "$1")
  kill -STOP "$1" && kill -STOP "$adapter"
}
thaw() {
  kill -CONT "$(adapter_of "$1")" && kill -CONT "$1"
}
# Kills all of a daemon at once, so that nothing of it can clean up. PID
kill_daemon() {
  local adapter
  adapter=$(adapter_of "$1")
  freeze "$1"
  kill -KILL "$adapter" "$1"
  # Until then its sockets are there, which the next daemon takes for those of one that runs.
  adapter_ended() { [[ $(cut -d' ' -f3 "/proc/$adapter/stat" 2>/dev/null) == [ZX]* || ! -e /proc/$adapter ]]; }
  eventually adapter_ended || fail "the adapter does not end"
}

daemons_live() {
  kill -0 "$PID_A" 2>/dev/null && kill -0 "$PID_B" 2>/dev/null
}

# Ends the daemons as their service would. Nothing may have been found in them: no report of a
# sanitizer, at work or at the end (leaks).
end_daemons() {
  kill -TERM "$PID_A" "$PID_B" 2>/dev/null || fail "a daemon is gone"
  eventually daemons_gone || fail "a daemon does not end"
  ! grep -hE -A 30 'Sanitizer|runtime error:' "$SANDBOX_DIR"/*.log || fail "found by a sanitizer"
}
daemons_gone() {
  ! kill -0 "$PID_A" 2>/dev/null && ! kill -0 "$PID_B" 2>/dev/null
}

# Of what two counters grow by in a second, the second has so many per cent, or 8 more or less. A
# program that lacks the processor for that long does not ask for its share: four tries.
share_holds() {  # PER-CENT COMMAND COMMAND
  local part try one other
  for try in 1 2 3 4; do
    one=$($2) other=$($3)
    sleep 1  # what is measured, nothing is waited for
    one=$(($($2) - one)) other=$(($($3) - other))
    ((one + other > 0)) || { echo "share: neither grows"; continue; }
    part=$((100 * other / (one + other)))
    echo "share: $part % are the second one's, $1 expected"
    ((part > $1 - 8 && part < $1 + 8)) && return
  done
  return 1
}

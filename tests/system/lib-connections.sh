# What tests of rdma_cm share. Read inside the sandbox, after lib.sh.
# shellcheck shell=bash

run_a=$SANDBOX_DIR/a
[[ -d $run_a ]] || run_a=$SANDBOX_DIR/ab
ctl() { "$SOFTHCA_BUILD/cli/softhcactl" --runtime-dir "$run_a" "$@"; }

# Lines of softhcactl listeners or connections without the heading.
count() { ctl "$1" | tail -n +2 | wc -l; }
nobody_listens() { [[ $(count listeners) == 0 ]]; }
somebody_listens() { [[ $(count listeners) != 0 ]]; }

# cmtime of rdma-core 52 and later also keeps step with its peer by TCP, at the same address, of IPv4 alone; it serves
# one peer, and ends.
cmtime_uses_tcp() { cmtime -h 2>&1 | grep -q num_threads; }
# Where both tenants are on one host only the daemon has their addresses; the kernel gets one for that, or loses it.
kernel_address() {  # add|del ADDRESS
  cmtime_uses_tcp || return 0
  [[ $METRICS_A != "$METRICS_B" ]] || $A ip addr "$1" "$2/32" dev lo || fail "ip addr $*"
}

# Runs a server as A and, once it listens, a client as B, at most $LIMIT (50) seconds. Both must end
# well; with $ENDLESS=1 the server would never end, and is ended once the client has. Their output
# stays in $SANDBOX_DIR/server and client.
connect() {  # SERVER ARGUMENT... -- CLIENT ARGUMENT...
  local server=() pid limit=${LIMIT:-50}
  while [[ $1 != -- ]]; do
    server+=("$1")
    shift
  done
  shift
  echo "--- ${server[*]} -- $*"
  eventually nobody_listens || fail "an earlier server still listens: $(ctl listeners)"
  timeout "$limit" $A "${server[@]}" >"$SANDBOX_DIR/server" 2>&1 &
  pid=$!
  eventually somebody_listens || { cat "$SANDBOX_DIR/server"; fail "no server: ${server[*]}"; }
  timeout --foreground "$limit" $B "$@" >"$SANDBOX_DIR/client" 2>&1 || report "client of $*"
  [[ -z ${ENDLESS:-} ]] || { kill "$pid" 2>/dev/null; wait "$pid"; return 0; }
  wait "$pid" || report "server of ${server[*]}"
}

report() {
  cat "$SANDBOX_DIR/server" "$SANDBOX_DIR/client"
  fail "$1"
}

# The client must have written a line like this.
expect() { grep -Eq "$1" "$SANDBOX_DIR/client" || report "not in the client's output: $1"; }
expect_of_server() { grep -Eq "$1" "$SANDBOX_DIR/server" || report "not in the server's output: $1"; }

# What the tests of rates of peers share: two flows, of which the rate of one is limited where it ends.
# Read after lib.sh; the test defines `flow_bytes FLOW DIRECTION`: what programs of the server of flow
# `one` or `two` have been sent (inbound), or others have read there (served).
# shellcheck shell=bash

programs=()
# A flow as long as the test wants, of messages of 64 KiB. It has begun when this returns.
start_flow() {  # FLOW DIRECTION SERVER-PREFIX CLIENT-PREFIX SERVER-IP [ARGUMENT...]
  local flow=$1 direction=$2 server command program=ib_write_bw
  [[ $direction == inbound ]] || program=ib_read_bw
  compose $program -s 65536 -D 100 "${@:6}"
  # shellcheck disable=SC2086
  $3 "${command[@]}" >"$SANDBOX_DIR/server-$flow" 2>&1 &
  server=$!
  wait_listening "$next_port" $server || { cat "$SANDBOX_DIR/server-$flow"; fail "$flow: no server"; }
  # shellcheck disable=SC2086
  $4 "${command[@]}" "$5" >"$SANDBOX_DIR/client-$flow" 2>&1 &
  programs+=($! $server)
  eventually flow_runs "$flow" "$direction" ||
    { cat "$SANDBOX_DIR/server-$flow" "$SANDBOX_DIR/client-$flow"; fail "$flow: nothing comes"; }
}
flow_runs() { (($(flow_bytes "$1" "$2") > 100 * 65536)); }
end_flows() {
  end_measurements "${programs[@]}"
  wait "${programs[@]}" || { cat "$SANDBOX_DIR"/client-*; fail "a program saw an error"; }
  programs=()
}

# Bytes of both flows in a second of the clock: `rate_one`, `rate_two`.
measure_flows() {  # DIRECTION
  local from one two elapsed
  from=$(date +%s%N)
  one=$(flow_bytes one "$1") two=$(flow_bytes two "$1")
  sleep 1  # what is measured, nothing is waited for
  rate_one=$(($(flow_bytes one "$1") - one)) rate_two=$(($(flow_bytes two "$1") - two))
  elapsed=$((($(date +%s%N) - from) / 1000))
  rate_one=$((rate_one * 1000000 / elapsed)) rate_two=$((rate_two * 1000000 / elapsed))
}
# The first flow has the rate that it may have, never more, and the other, whose rate nobody limits, at
# least twice as much, and half of what it had without the limit. Measured again where the programs may have lacked
# the processor.
keeps_rate() {  # DIRECTION BYTES-A-SECOND BYTES-OF-THE-OTHER-BEFORE
  local try
  for try in 1 2 3 4; do
    measure_flows "$1"
    echo "$1: $2 bytes a second allowed: $rate_one, and the other $rate_two, before $3"
    ((10 * rate_one <= 12 * $2)) || fail "more than its rate"
    ((10 * rate_one >= 7 * $2 && rate_two > 2 * $2 && 2 * rate_two > $3)) && return
  done
  fail "a rate does not hold"
}
# The first flow goes on without the limit.
goes_on() {  # DIRECTION BYTES-A-SECOND
  local try
  for try in 1 2 3 4; do
    measure_flows "$1"
    ((rate_one > 2 * $2)) && return
  done
  fail "it does not go on without the limit: $rate_one bytes a second"
}

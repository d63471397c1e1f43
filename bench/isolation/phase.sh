#!/bin/bash
# One phase of the isolation bench, for tools/sandbox: the victim is tenant a, aggressors are others.
# Writes the victim's figures and samples of the metrics to a file, for report.py.
#
# usage: phase.sh VICTIM AGGRESSOR FILE
#   latency rate bandwidth equals
#   alone hog hogs16 hogs16-weight doorbells churn rnr stalledN garbage rare qps64 overrun
#   process-memory reached-memory
#   port neighbours: on host A of two hosts, alone and beside another tenant of it
set -euo pipefail
victim=$1 aggressor=$2 out=$3
bench=$SOFTHCA_BUILD/bench/verbs/softhca-bench
program=$SOFTHCA_BUILD/bench/isolation/softhca-aggressor
scribble=$SOFTHCA_BUILD/tests/system/isolation/hostile/scribble

running() {  # FILE
  for ((i = 0; i < 300; ++i)); do
    [[ ! -s $1 ]] || return 0
    sleep 0.1
  done
  echo "phase: no aggressor" >&2
  return 1
}

aggressor() {  # TENANT ARGUMENT...
  local tenant=$1
  shift
  "$SANDBOX_DIR/as-$tenant" "${apart[@]}" "$program" -d "$DEV" -g "$GID" "$@" >"$SANDBOX_DIR/out-$tenant" &
  running "$SANDBOX_DIR/out-$tenant"
}

apart=()
case $aggressor in
  # Not trusted, as in a container.
  reached-memory) apart=(unshare --pid --fork --kill-child) ;;&
  alone | port) ;;
  hogs16*) for tenant in {b..q}; do aggressor $tenant --mode hog; done ;;
  garbage)
    while :; do
      "$scribble" "$SANDBOX_DIR/ab/b/socket" "$B_ADDR" $RANDOM 20000 >"$SANDBOX_DIR/out-b" 2>&1 || true
    done &
    ;;
  neighbours)
    # Another tenant of host A, with an address of the link.
    printf '[[tenant]]\nname = "other"\naddresses = ["10.77.0.9"]\n' >>"$SANDBOX_DIR/a.toml"
    sed -i 's|addresses = \["10.77.0.1/24"|&, "10.77.0.9/24"|' "$SANDBOX_DIR/a.toml"
    "$SOFTHCA_BUILD/cli/softhcactl" --runtime-dir "$SANDBOX_DIR/a" reload >&2
    sed 's/--tenant a /--tenant other /' "$SANDBOX_DIR/as-a" >"$SANDBOX_DIR/as-other"
    chmod +x "$SANDBOX_DIR/as-other"
    aggressor other --mode neighbours
    ;;
  stalled*) aggressor a --mode stalled --qps "${aggressor#stalled}" ;;
  # So deep that neither runs out of work.
  qps64) aggressor b --mode hog --qps 64 --size 4M --depth 64 ;;
  *) aggressor b --mode "$aggressor" ;;
esac

serve() {
  $A "$bench" -d "$DEV" -g "$GID" -p 18700 --server &
}
case $victim in
  latency)
    serve
    $A "$bench" -d "$DEV" -g "$GID" -p 18700 --client 127.0.0.1 --measure completion --op write \
      --size 16 --iterations 20000 >"$out" &
    ;;
  rate)
    serve
    $A "$bench" -d "$DEV" -g "$GID" -p 18700 --client 127.0.0.1 --measure rate --op write \
      --size 64 --qps 8 --depth 2048 --seconds 4 >"$out" &
    ;;
  bandwidth)
    serve
    $A "$bench" -d "$DEV" -g "$GID" -p 18700 --client 127.0.0.1 --measure rate --op write \
      --size 1M --qps 1 --seconds 4 >"$out" &
    ;;
  equals)
    : >"$out"
    aggressor a --mode hog --qps 1 --size 4M --depth 4096
    sleep 5 &
    ;;
esac
measured=$!

sample() {
  echo "sample $EPOCHREALTIME"
  curl -sf --max-time 10 "$METRICS_A" | grep -E \
    '^softhca_(engine_seconds_total|local_messages_total|command_engine_seconds)'
}
{
  sample
  while kill -0 "$measured" 2>/dev/null; do
    sleep 0.2
    sample
  done
} >"$out.samples"

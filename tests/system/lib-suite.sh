# What tests that use rdma-core's own suite share. Read inside the sandbox, after lib.sh.
# shellcheck shell=bash

# Puts the suite into $SANDBOX_DIR/tests: that of another root (tests/distributions/in-root), or of this machine.
# False: it is not there, and $no_suite says why.
copy_suite() {
  local suite=${IN_ROOT:-}/usr/share/doc/rdma-core/tests stand_ins=$SANDBOX_DIR/stand-ins
  no_suite="no $suite; install: tools/install-packages test"
  [[ -r $suite/run_tests.py ]] || return
  no_suite="python3-pyverbs is not installed"
  ${IN_ROOT:+$A} /usr/bin/python3 -c 'import pyverbs' 2>/dev/null || return
  cp -r "$suite" "$SANDBOX_DIR/tests"
  gunzip -f "$SANDBOX_DIR"/tests/*.gz
  # It asks for network devices of the kernel's adapters; the program fails where the kernel has no RDMA.
  mkdir -p "$stand_ins"
  printf '#!/bin/sh\necho "[]"\n' >"$stand_ins/rdma"
  chmod +x "$stand_ins/rdma"
  export PATH=$stand_ins:$PATH
}

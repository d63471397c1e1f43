# Jobs of Open MPI whose ranks are in two tenants. Read inside the sandbox, after lib.sh.
# shellcheck shell=bash

# Not of both programs on one line of mpirun (":"): Open MPI 5.0.7, that of Debian 13, crashes at any such.
cat >"$SANDBOX_DIR/rank" <<'EOF'
#!/bin/bash
((OMPI_COMM_WORLD_RANK < 2)) && as=$A || as=$B
exec $as "$@"
EOF
chmod +x "$SANDBOX_DIR/rank"

# Three ranks, the last of them B's, that send each other what they check.
job() {  # NAME MPIRUN-OPTION...
  echo "--- $1"
  command -v mpirun >/dev/null && /usr/bin/python3 -c 'import mpi4py, numpy' ||
    skip "mpirun or mpi4py is not installed (openmpi-bin, python3-mpi4py)"
  timeout --foreground 120 mpirun --allow-run-as-root --oversubscribe "${@:2}" -np 3 "$SANDBOX_DIR/rank" \
    /usr/bin/python3 "$SYSTEM_TESTS/programs/mpi_peers.py" >"$SANDBOX_DIR/job" 2>&1 ||
    { cat "$SANDBOX_DIR/job"; fail "$1"; }
  # mpirun may join what two ranks print at once into one line.
  [[ $(grep -o "all as it should be" "$SANDBOX_DIR/job" | wc -l) == 3 ]] ||
    { cat "$SANDBOX_DIR/job"; fail "not every rank came to its end"; }
}

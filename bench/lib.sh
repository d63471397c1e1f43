# What measurements in the sandbox share. They set `out`, the file that gets the figures, and `port`, the
# TCP port before the first one that they use.
# shellcheck shell=bash

tcp_device=rdma0

figure() {  # WHAT FIGURE
  printf '%s %s\n' "$1" "$2" | tee -a "$out"
}

listening() {  # TCP PORT
  for ((i = 0; i < 300; ++i)); do
    [[ -z $($HOST_A ss -Hltn "sport = :$1") ]] || return 0
    sleep 0.05
  done
  echo "nobody listens at port $1" >&2
  return 1
}

# Runs UCX on a host, without the device. UCX uses the interfaces in sysfs, which must be the host's.
on_host() {  # HOST COMMAND...
  $1 unshare --mount --propagation private sh -c 'mount -t sysfs sysfs /sys && exec "$@"' - "${@:2}"
}

# Without MPI, if it is built with MPI.
ucx_mode=()
! grep -q -e '^ *-P <' <<<"$(ucx_perftest -h 2>&1)" || ucx_mode=(-P 0)

# The figures of ucx_perftest's last line: column 4 is the average latency in us, 6 the average bandwidth
# in MB/s (of 2^20 bytes).
ucx() {  # WHAT TRANSPORTS TEST BYTES ITERATIONS
  local server value a b
  port=$((port + 1))
  export UCX_TLS=$2 UCX_NET_DEVICES=$DEV:1 UCX_IB_GID_INDEX=0 UCX_WARN_UNUSED_ENV_VARS=n
  # shellcheck disable=SC2206  # words
  a=($A) b=($B)
  if [[ $2 == tcp ]]; then
    export UCX_NET_DEVICES=$tcp_device
    a=(on_host "$HOST_A") b=(on_host "$HOST_B")
  fi
  "${a[@]}" ucx_perftest "${ucx_mode[@]}" -p $port >/dev/null 2>&1 & server=$!
  listening $port
  value=$("${b[@]}" ucx_perftest "${ucx_mode[@]}" "$A_IP" -p $port -t "$3" -s "$4" -n "$5" -f |
    awk -v test="$3" '$1 + 0 > 0 { value = test == "tag_lat" ? $4 : $6 * 8 * 1048576 / 1e9 } END { print value }')
  figure "$1" "$value"
  wait $server
}

# What passes the tap while a case runs, and what is kept of a case that failed.
# shellcheck shell=bash

capture=$dir/capture.pcap

start_capture() {
  rm -f "$capture"
  "${enter_host[@]}" dumpcap -q -P -B 64 -i $tap -w "$capture" >"$dir/dumpcap.log" 2>&1 </dev/null &
  dumpcap=$!
  for ((i = 0; i < 200; ++i)); do
    [[ -s $capture ]] && return 0
    sleep 0.05
  done
  cat "$dir/dumpcap.log"
  return 1
}

stop_capture() {
  sleep 0.2  # dumpcap gets what passed last in blocks, which may be a tenth of a second old
  kill -INT "$dumpcap"
  wait "$dumpcap"
}

# Runs a function with a capture, which is then checked, with how often each opcode was sent in
# "$dir/opcodes": FUNCTION ARGUMENT...
captured() {
  local code=0
  start_capture || return
  "$@" || code=$?
  stop_capture
  /usr/bin/python3 "$here/check_capture.py" "$capture" --from "$host_mac" >"$dir/opcodes" 2>&1 ||
    { code=1; echo "--- capture:"; grep complaint "$dir/opcodes"; }
  return $code
}

# Fails unless the last capture has so many frames of an opcode: OPCODE sent|received
has_opcode() {
  awk -v opcode="$1" -v column="$([[ $2 == sent ]] && echo 2 || echo 3)" \
    '$1 == opcode && $column > 0 { found = 1 } END { exit !found }' "$dir/opcodes" ||
    { echo "no frame of opcode $1 was $2"; return 1; }
}

# The judge itself, by captures of which it is known what they are (tests/wire/README.md).
capture_cases() {
  check "captures: a good one" /usr/bin/python3 "$here/check_capture.py" "$root/tests/wire/rc_send_imm.pcap"
  check "captures: one with a wrong ICRC" finds_wrong_icrc
}
finds_wrong_icrc() {
  ! /usr/bin/python3 "$here/check_capture.py" "$root/tests/wire/hostpeer_rc_from_afpacket.pcap" >"$dir/opcodes" &&
    cat "$dir/opcodes" && [[ $(grep complaint "$dir/opcodes") == "complaint: 30: ICRC is wrong, opcode 4" ]]
}

keep_failure() {  # NAME
  local to=$failures/${1//[^[:alnum:]]/-}
  rm -rf "$to"
  mkdir -p "$to"
  cp "$dir/case" "$to/output"
  cp "$capture" "$dir/daemon.log" "$share/console" "$to/" 2>/dev/null
  echo "    kept in $to"
}

# What went last over the link in a case that failed.
last_frames() {
  echo "    last frames:"
  tshark -r "$capture" -T fields -E separator=' ' -e frame.time_relative -e _ws.col.Source \
    -e infiniband.bth.opcode -e infiniband.bth.destqp -e infiniband.bth.psn -e infiniband.aeth.syndrome \
    -e frame.len udp.port==4791 2>/dev/null |
    tail -n 8 | sed 's/^/    /'
}

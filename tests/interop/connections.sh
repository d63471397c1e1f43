# Connections by rdma_cm between softhcad on the host and rxe with the kernel's connection manager in
# the guest.
# shellcheck shell=bash

ctl() { "$build/cli/softhcactl" --runtime-dir "$dir/runtime" "$@"; }
host_listens() { [[ $(ctl listeners | tail -n +2) ]]; }
host_is_connected() { ctl connections | grep -q '^established '; }
host_has_no_connection() { [[ -z $(ctl connections | tail -n +2) ]]; }
guest_has_no_connection() { guest '! rdma resource show cm_id | grep -v LISTEN'; }

# Waits: COMMAND ARGUMENT...
eventually() {
  local end=$((SECONDS + limit))
  until "$@"; do
    ((SECONDS < end)) || { echo "not in $limit s: $*"; return 1; }
    sleep 0.1
  done
}

# Starts a program: host|guest WORD...; it is $program then.
start_on() {
  local who=$1 tenant
  shift
  if [[ $who == host ]]; then
    tenant_words
    : >"$dir/host.out"  # what the one before has said must not be seen
    "${tenant[@]}" "$@" >"$dir/host.out" 2>&1 &
    program=$!
  else
    guest_start "echo \$\$ >/root/program; exec timeout $limit $*"
    program=$guest_job
  fi
}
# Its exit code; WHO is asked to end it with a signal first, if one is given: WHO PROGRAM [SIGNAL]
end_on() {
  if [[ $1 == host ]]; then
    [[ -z ${3:-} ]] || pkill "-$3" -P "$2"
    wait "$2"
  else
    [[ -z ${3:-} ]] || guest "pkill -$3 -P \$(</root/program)"
    guest_wait "$2" >"$dir/guest.out" 2>&1
  fi
}
listening() {  # WHO PROGRAM
  if [[ $1 == host ]]; then
    eventually host_listens
  else
    # The list has an identifier a little before requests find it.
    guest "end=\$((SECONDS + $limit)); until rdma resource show cm_id state listen | grep -q .; do
((SECONDS < end)) && [[ ! -e /share/$2.code ]] || exit 1; sleep 0.1; done; sleep 0.5"
  fi
}
other() { [[ $1 == host ]] && echo guest || echo host; }

show_both() {
  tail -n 15 "$dir/host.out" | cut -c1-200
  echo "--- guest:"
  tail -n 15 "$dir/guest.out" | cut -c1-200
  kill -0 "$daemon" || { echo "the daemon is gone"; tail -n 20 "$dir/daemon.log"; return 1; }
}

# Fills `server` and `client`: WHO-SERVES [-6] SERVER ARGUMENT... -- CLIENT ARGUMENT...; in the
# arguments @server and @client stand for addresses, @peer for where the package of that name is.
set_programs() {
  local who=$1 host=$host_ip guest=$guest_ip server_peer=$here/peer client_peer=/root/peer at words
  shift
  [[ $1 != -6 ]] || { host=$host_ip6 guest=$guest_ip6; shift; }
  words=("$@")
  for at in "${!words[@]}"; do [[ ${words[at]} == -- ]] && break; done
  server=("${words[@]:0:at}") client=("${words[@]:at + 1}")
  if [[ $who == guest ]]; then
    local swapped=$host
    host=$guest guest=$swapped server_peer=/root/peer client_peer=$here/peer
  fi
  server=("${server[@]//@server/$host}") client=("${client[@]//@server/$host}")
  client=("${client[@]//@client/$guest}")
  server=("${server[@]//@peer/$server_peer}") client=("${client[@]//@peer/$client_peer}")
}

# A server and, once it listens, a client on the other side:
# WHO-SERVES [-e] [-6] SERVER ARGUMENT... -- CLIENT ARGUMENT...
# Both must end well; -e: the server is endless, and is ended.
connected() {
  local who=$1 end='' code=0 server client program serving
  shift
  [[ $1 != -e ]] || { end=TERM; shift; }
  set_programs "$who" "$@"
  start_on "$who" "${server[@]}"
  serving=$program
  listening "$who" "$serving" || { end_on "$who" "$serving" TERM; show_both; return 1; }
  start_on "$(other "$who")" "${client[@]}"
  end_on "$(other "$who")" "$program" || { code=1 end=TERM; echo "the client failed"; }
  end_on "$who" "$serving" $end || [[ -n $end ]] || { code=1; echo "the server failed"; }
  show_both && return $code
}

# connected() for perftest, whose client connects a second time without waiting until the server
# listens; when it comes too early it crashes, which says nothing of either adapter.
perftest_connected() {
  local try
  for try in 1 2 3; do
    connected "$@" && return
    echo "try $try is over"
    grep -qs 'RDMA_CM_EVENT_REJECTED; error: 8' "$dir/host.out" "$dir/guest.out" || return 1
  done
  return 1
}

# A case of peer/connect.py: WHO-SERVES [-6] CASE
ends() {
  local who=$1 v6=() words=(/usr/bin/python3 -B @peer/connect.py)
  shift
  [[ $1 != -6 ]] || { v6=(-6); shift; }
  connected "$who" "${v6[@]}" "${words[@]}" serve @server "$1" -- "${words[@]}" call @server "$1"
}

# The client is refused, as nobody listens; then the server comes: WHO-SERVES [-6]
late_server() {
  local who=$1 v6=() program server client reason='RDMA_CM_EVENT_REJECTED, error 8'
  shift
  [[ ${1:-} != -6 ]] || v6=(-6)
  local words=(rping -s -V -C 3 -a @server -- rping -c -V -C 3 -a @server)
  set_programs "$who" "${v6[@]}" "${words[@]}"
  start_on "$(other "$who")" "${client[@]}"
  end_on "$(other "$who")" "$program" && { echo "the client is served by nobody"; return 1; }
  grep -q "$reason" "$dir/$(other "$who").out" || { show_both; return 1; }
  connected "$who" "${v6[@]}" "${words[@]}"
}

# One end is killed while connected; the other must see it and end, and nothing be left:
# WHO-SERVES WHO-DIES [-6]
killed() {
  local who=$1 dies=$2 code=0 server client program serving calling
  shift 2
  set_programs "$who" "$@" rping -s -V -a @server -- rping -c -V -C 100000000 -a @server
  start_on "$who" "${server[@]}"
  serving=$program
  listening "$who" "$serving" || { end_on "$who" "$serving" TERM; show_both; return 1; }
  start_on "$(other "$who")" "${client[@]}"
  calling=$program
  eventually host_is_connected || code=1
  local dying=$serving left=$calling
  [[ $dies == "$who" ]] || dying=$calling left=$serving
  end_on "$dies" "$dying" KILL
  end_on "$(other "$dies")" "$left"
  (($? != 124)) || { echo "the other end goes on"; code=1; }
  eventually host_has_no_connection || { ctl connections; code=1; }
  eventually guest_has_no_connection || code=1
  show_both && return $code
}

# Of a group, with the sender on the other side: WHO-RECEIVES. Linux joins none by IPv6 (RoCEv2).
multicast() {
  local who=$1 group=239.1.2.3 code=0 program receiving sender
  local -A address=([host]=$host_ip [guest]=$guest_ip) output=([host]=$dir/host.out)
  start_on "$who" stdbuf -oL mckey -m "$group" -b "${address[$who]}" -C 20
  receiving=$program
  output[guest]=$share/$program.output
  eventually grep -qs 'receiving data transfers' "${output[$who]}" ||
    { end_on "$who" "$receiving" TERM; show_both; return 1; }
  sender=$(other "$who")
  start_on "$sender" mckey -m "$group" -b "${address[$sender]}" -s -C 20
  end_on "$sender" "$program" || { code=1; echo "the sender failed"; }
  end_on "$who" "$receiving" || { code=1; echo "the member failed"; }
  show_both && return $code
}

# The guest is gone, with a connection that has writes in flight: one that is idle would not notice.
# The program on the host ends, and nothing is left.
guest_dies() {
  local code=0 server client program
  set_programs guest ib_write_bw -R -F -D 1000 -- ib_write_bw -R -F -D 1000 @server
  start_on guest "${server[@]}"
  listening guest "$program" || return
  start_on host "${client[@]}"
  eventually host_is_connected || code=1
  kill -KILL "${children[0]}"
  wait "${children[0]}"
  unset 'children[0]'
  end_on host "$program"
  (($? != 124)) || { echo "the program on the host goes on"; code=1; }
  eventually host_has_no_connection || { ctl connections; code=1; }
  tail -n 15 "$dir/host.out"
  return $code
}

# One case: COLUMN ROW WHO-SERVES FUNCTION ARGUMENT...; what was seen goes into the table.
connection() {
  local column=$1 row=$2 who=$3
  shift 3
  captured "$@" || return
  awk -v at="$column|$who|$row" '$1 == "accepted" { print at "|" $2 }' "$dir/opcodes" >>"$connections"
  grep '^mad ' "$dir/opcodes" >>"$connections"
  return 0
}

# With either side as the server, by IPv4 and IPv6 or by one of them ($ip):
# ROW FUNCTION [OPTION] [ARGUMENT...]
each_way() {
  local row=$1 function=$2 v who option=()
  shift 2
  [[ ${1:-} != -e ]] || { option=(-e); shift; }
  for v in ${ip:-4 6}; do
    for who in guest host; do
      check "rdma_cm${bad:+, bad link}: $row, IPv$v, $([[ $who == host ]] && echo softhca || echo rxe) serves" \
        connection "IPv$v${bad:+, bad}" "$row" $who $function $who "${option[@]}" $([[ $v == 4 ]] || echo -6) "$@"
    done
  done
}

killed_server() { killed "$1" "$@"; }
killed_client() { killed "$1" "$(other "$1")" "${@:2}"; }

connection_cases() {
  local bad='' ip='' case
  guest 'modprobe -a rdma_cm rdma_ucm' || die "no rdma_cm in the guest"
  [[ -z $short ]] || { short_connection_cases; return; }
  each_way rping connected rping -s -V -C 10 -S 2000 -a @server -- rping -c -V -C 10 -S 2000 -a @server
  each_way "rping, persistent server" connected -e rping -s -P -V -a @server -- rping -c -V -C 10 -S 2000 -a @server
  each_way "rping, its own queue pairs" connected rping -s -q -V -C 10 -a @server -- \
    rping -c -q -V -C 10 -I @client -a @server
  each_way ucmatose connected ucmatose -b @server -c 5 -C 10 -S 5000 -- ucmatose -s @server -c 5 -C 10 -S 5000
  each_way udaddy connected udaddy -b @server -c 5 -C 10 -S 500 -- udaddy -s @server -c 5 -C 10 -S 500
  each_way rdma_client connected rdma_server -s @server -- rdma_client -s @server
  ip=4 each_way rdma_xclient connected rdma_xserver -- rdma_xclient -s @server
  each_way cmtime connected -e cmtime -b @server -c 50 -- cmtime -s @server -b @client -c 50
  local same=(-S 3000 -C 50 -I 2 -T v)
  each_way rstream connected rstream -T b -b @server "${same[@]}" -- rstream -T b -s @server "${same[@]}"
  each_way riostream connected riostream -b @server "${same[@]}" -- riostream -s @server "${same[@]}"
  for case in ib_{send,write,read,atomic}_{bw,lat} 'ib_send_lat -c UD'; do
    # shellcheck disable=SC2086  # its arguments
    ip=4 each_way "$case -R" connected $case -R -F -n 50 -- $case -R -F -n 50 @server
  done
  for case in guest host; do
    check "rdma_cm: mckey, IPv4, $case receives" captured multicast $case
  done
  each_way "late server" late_server
  each_way "refused with private data" ends reject
  each_way "the client disconnects" ends client
  each_way "the server disconnects" ends server
  each_way "both disconnect at once" ends both
  each_way "a slow answer" ends slow
  each_way "killed client" killed_client
  each_way "killed server" killed_server
}

short_connection_cases() {
  ip=4 each_way rping connected rping -s -V -C 10 -S 2000 -a @server -- rping -c -V -C 10 -S 2000 -a @server
  ip=6 each_way ucmatose connected ucmatose -b @server -c 5 -C 10 -S 5000 -- ucmatose -s @server -c 5 -C 10 -S 5000
  ip=4 each_way udaddy connected udaddy -b @server -c 5 -C 10 -S 500 -- udaddy -s @server -c 5 -C 10 -S 500
  ip=4 each_way "ib_write_bw -R" perftest_connected ib_write_bw -R -F -n 50 -- ib_write_bw -R -F -n 50 @server
  ip=6 each_way "late server" late_server
  ip=4 each_way "refused with private data" ends reject
  ip=6 each_way "both disconnect at once" ends both
  ip=4 each_way "killed client" killed_client
}

# Both the guest's link and the host's are bad. Datagrams may be lost, and udaddy sends none.
bad_link_connection_cases() {
  local bad=1 LIMIT=240
  each_way ucmatose connected ucmatose -b @server -c 5 -C 10 -S 5000 -- ucmatose -s @server -c 5 -C 10 -S 5000
  [[ -z $short ]] || return 0
  each_way rping connected rping -s -V -C 10 -S 2000 -a @server -- rping -c -V -C 10 -S 2000 -a @server
  each_way udaddy connected udaddy -b @server -c 20 -C 0 -- udaddy -s @server -c 20 -C 0
  each_way rdma_client connected rdma_server -s @server -- rdma_client -s @server
  each_way cmtime connected -e cmtime -b @server -c 100 -- cmtime -s @server -b @client -c 100
  each_way rstream connected rstream -T b -b @server -S 3000 -C 50 -I 2 -T v -- \
    rstream -T b -s @server -S 3000 -C 50 -I 2 -T v
  ip=4 each_way "ib_send_lat -R" perftest_connected ib_send_lat -R -F -n 50 -- ib_send_lat -R -F -n 50 @server
  each_way "refused with private data" ends reject
  each_way "both disconnect at once" ends both
  each_way "a slow answer" ends slow
  each_way "killed client" killed_client
  each_way "killed server" killed_server
}

# No case can follow this one.
last_case() {
  start_daemon link || die "the daemon does not start"
  LIMIT=240 check "rdma_cm: the guest dies, rxe serves" guest_dies
  stop_daemon
}

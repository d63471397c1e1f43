# A PCI card that the guest's daemon drives by vfio: against the host's daemon, and against rxe on the
# guest's other card.
# shellcheck shell=bash

card_address=0000:00:10.0 card_mac=52:54:00:00:00:03 card_ip=10.9.0.3 card_ip6=fd09::3

card_cases() {
  local prepare
  prepare=$(awk '/^card=/ { on = 1 } /^```/ { on = 0 } on' "$root/docs/ports.md" |
    sed "s/^card=[^ ]*/card=$card_address/")
  # What udev does on other machines.
  check "card: what docs/ports.md says before the service starts" guest "set -ex
systemctl start sysinit.target
systemctl stop softhcad
$prepare
chmod 666 /dev/vfio/vfio"
  check "card: the unit drives it" guest "$show_journal"'
cat >/etc/softhca/softhca.toml <<END
[metrics]
address = ""
[[port]]
name = "card"
device = "'$card_address'"
addresses = ["'$card_ip'/24", "'$card_ip6'/64"]
[[tenant]]
name = "t"
addresses = ["'$card_ip'", "'$card_ip6'"]
END
systemctl start softhcad
softhcactl status | tee /root/status
grep -E "^card +yes +4590 " /root/status
awk "/^HugePages_(Total|Free)/ { print; of[\$1] = \$2 } END { exit of[\"HugePages_Free:\"] == of[\"HugePages_Total:\"] }" /proc/meminfo'
  card_meets_host
  card_meets_rxe
  check "card: without huge pages" guest "$show_journal"'
echo 0 >/proc/sys/vm/nr_hugepages
systemctl restart softhcad
softhcactl status | grep -E "^card +yes +4590 "
journalctl -u softhcad -o cat --no-pager | grep "huge pages are free"'
  guest 'systemctl stop softhcad'
}

# The guest's side is softhca, too, and its card at the other end of its tap.
card_meets_host() {
  local -A rxe_device=([link]=softhca0) rxe_gid=([link0]=0 [link1]=1)
  local guest_prefix='softhca-run --tenant t --' path
  tap=$pci_tap start_daemon interface || die "the daemon does not start"
  for path in 1024 4096; do
    check "card: contents, MTU $path" captured_of_card wire host peer --mtu $path
  done
  check "card: contents, IPv6" captured_of_card wire guest -6 peer --few --mtu 4096
  check "card: ib_write_bw" wire host ib_write_bw -m 4096 -s 65536 -n 2000
  check "card: ib_read_bw" wire guest ib_read_bw -m 4096 -s 65536 -n 500
  check "card: ib_send_lat" wire guest ib_send_lat -n 500
  check "card: contents, while its daemon is upgraded" captured_of_card upgraded wire host peer --transports rc --mtu 4096 --rounds 5
  stop_daemon
}

captured_of_card() { tap=$pci_tap host_mac=$card_mac captured "$@"; }

# Runs a function, and upgrades the guest's daemon meanwhile.
upgraded() {
  local code=0 upgrade
  guest_start 'sleep 2; softhcactl upgrade'
  upgrade=$guest_job
  "$@" || code=1
  guest_wait "$upgrade" || code=1
  return $code
}

# A bridge of the host joins the taps of the guest's two cards.
card_meets_rxe() {
  ip -n "$namespace" link add bridge0 mtu $mtu type bridge
  ip -n "$namespace" link set bridge0 up
  ip -n "$namespace" link set $tap master bridge0
  ip -n "$namespace" link set $pci_tap master bridge0
  local path
  for path in 1024 4096; do
    check "card: contents with rxe, MTU $path" captured_of_card card_and_rxe --few --mtu $path
  done
  ip -n "$namespace" link del bridge0
}

card_and_rxe() {
  local call serve
  next_port=$((next_port + 1))
  peer=/root/peer compose peer softhca0 0 '' "$@" --long-send-status 11 --peer-ignores-window-ends
  serve=$command
  peer=/root/peer compose peer "${rxe_device[link]}" "${rxe_gid[link0]}" 127.0.0.1 "$@" --invalidated-flag 4 \
    --forgets-fenced
  call=$command
  guest "timeout $limit softhca-run --tenant t -- $serve >/root/serve 2>&1 & serve=\$!
$(until_listening $next_port)
timeout $limit $call || { cat /root/serve; softhcactl status; exit 1; }
wait \$serve || { cat /root/serve; exit 1; }"
}

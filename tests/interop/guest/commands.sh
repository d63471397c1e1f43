# What the host has a guest do, through the folder $share: see `init`.
# shellcheck shell=bash

declare -A next_command=()  # by the folder of the guest
# Starts a line of shell in the guest; its number is in $guest_job. Not in a subshell, which would lose the number.
guest_start() {
  guest_job=${next_command[$share]:-0}
  next_command[$share]=$((guest_job + 1))
  echo "$*" >"$share/$guest_job.new"
  mv "$share/$guest_job.new" "$share/$guest_job.command"
}
# Waits for one, prints its output, returns its exit code.
guest_wait() {  # NUMBER
  local end=$((SECONDS + limit + 10))
  until [[ -e $share/$1.code ]] || ((SECONDS >= end)); do sleep 0.05; done
  cat "$share/$1.output" 2>/dev/null
  [[ -e $share/$1.code ]] || return 124
  return "$(<"$share/$1.code")"
}
guest() { guest_start "$@"; guest_wait "$guest_job"; }

# Waits until a guest that has been started takes commands. False: its emulator has ended, or it takes too long.
guest_ready() {  # PID
  local i
  for ((i = 0; i < 1200; ++i)); do
    [[ -e $share/ready ]] && return 0
    kill -0 "$1" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

# Installs softhca in a guest, with the Python package `peer`.
install_in_guest() {
  [[ -d $dir/installed ]] || stage_installed || return
  cp -al "$dir/installed" "$share/"
  cp -r "$(dirname "${BASH_SOURCE[0]}")/../peer" "$share/"
  guest 'set -e
cp -a /share/installed/. /
echo /usr/local/lib/needed >/etc/ld.so.conf.d/needed.conf
ldconfig
cp -r /share/peer /root/peer
systemd-sysusers 2>/dev/null
systemctl daemon-reload'
}

# What `meson install` installs, with the libraries it needs and the guest does not have.
stage_installed() {
  local to=$dir/installed
  meson install -C "$build" --no-rebuild --strip --quiet --destdir "$to" >"$dir/install.log" 2>&1 ||
    { tail -n 20 "$dir/install.log"; return 1; }
  rm -rf "$to"/usr/local/share/doc
  mkdir -p "$to/usr/local/lib/needed"
  ldd "$to"/usr/local/sbin/* "$to"/usr/local/bin/* "$to"/usr/local/lib/*/{libibverbs,softhca}/*.so |
    awk '$3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/lib(c|m|dl|pthread|gcc_s|stdc\+\+|systemd|ibverbs|nl-[a-z0-9-]*)\.so' |
    xargs -I{} cp -L {} "$to/usr/local/lib/needed/"
}

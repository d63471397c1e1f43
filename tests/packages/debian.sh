# The packages for Debian: lintian, and what becomes of a root of Debian 12 by them.
# shellcheck shell=bash disable=SC2154  # variables of the runner

tree=$dir/root
debs=$dir/packages/debs next=$dir/packages/next
packages=(softhca softhca-provider softhca-tools softhca-dev)
mkdir -p "$debs" "$next"

# A command in a root, with mounts and processes of its own: [--net] for a network of its own, too.
within() {  # [--net] ROOT COMMAND...
  local net=()
  [[ $1 != --net ]] || { net=(--net); shift; }
  # shellcheck disable=SC2016  # for the shell inside
  DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 unshare --mount --pid --ipc --uts "${net[@]}" --fork --kill-child \
    bash -ec 'packages=$1 here=$2 net=$3 root=$4
      shift 4
      mount -t proc proc "$root/proc"
      mount -t tmpfs tmpfs "$root/dev/shm"
      mount -t tmpfs tmpfs "$root/mnt"
      mkdir "$root/mnt/packages" "$root/mnt/tests"
      mount --bind "$packages" "$root/mnt/packages"
      mount --bind "$here" "$root/mnt/tests"
      [[ -z $net ]] || ip link set lo up
      exec chroot "$root" "$@"' - "$dir/packages" "$here" "${net[*]}" "$@" </dev/null
}

# The package manager of the root: words for a shell inside.
apt() { within "$tree" sh -c "apt-get -y --no-install-recommends -o Dpkg::Use-Pty=0 $*"; }

# A command of the root, beside its daemon.
serving() { within --net "$tree" /mnt/tests/as_service "$@"; }

lint_debs() {
  lintian --allow-root --fail-on error,warning --tag-display-limit 0 \
    --suppress-tags-from-file "$root/deploy/debian/lintian-suppressed" "$debs"/*.deb
}

field() { dpkg-deb -f "$debs"/"$1"_*.deb "$2"; }

contents() {
  local package
  for package in softhca softhca-provider softhca-tools; do
    compgen -G "$debs/${package}-dbgsym_*.deb"
  done
  # A root without systemd does not show it.
  dpkg-deb -I "$debs"/softhca_*.deb prerm | grep 'stop softhcad.service'
  # The provider is for containers, where there is no daemon.
  field softhca-provider Depends | grep -w libibverbs1
  if field softhca-provider Depends | grep -E '(^|, )softhca'; then return 1; fi
  dpkg-deb -c "$debs"/softhca-provider_*.deb >"$dir/provider-files"
  grep ' \./etc/libibverbs\.d/$' "$dir/provider-files"
  # All providers that were built are in it: debhelper tells what is in no package.
  grep '/libibverbs/libsofthca-rdmav34\.so$' "$dir/provider-files"
}

# The root with all that the packages depend on, but without them.
make_root() {
  local base=$cache/bookworm-minbase depends
  mkdir -p "$cache"
  exec 8>"$base.lock"
  flock 8  # somebody else may be making it
  if [[ ! -e $base ]]; then
    rm -rf "$base.new"
    debootstrap --variant=minbase bookworm "$base.new"
    mv "$base.new" "$base"
  fi
  # shellcheck disable=SC2016
  depends=$(within "$base" sh -c 'apt-get install -s --no-install-recommends /mnt/packages/debs/softhca*.deb ibverbs-utils |
    sed -n "s/^Inst \([^ ]*\) .*/\1/p" | { grep -v ^softhca || true; }')
  if [[ -n $depends ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$base/usr/sbin/policy-rc.d"
    chmod +x "$base/usr/sbin/policy-rc.d"
    echo force-unsafe-io >"$base/etc/dpkg/dpkg.cfg.d/unsafe-io"
    cp -L /etc/resolv.conf "$base/etc/resolv.conf"
    within "$base" apt-get update
    # shellcheck disable=SC2086  # words
    within "$base" apt-get install -y --no-install-recommends $depends
    within "$base" apt-get clean
  fi
  cp -a --reflink=auto "$base" "$tree"
  exec 8>&-
}

# What is there, but for logs and what the package manager and systemd keep for themselves.
files_of_root() {
  (cd "$tree" && find . \( -path ./proc -o -path ./dev -o -path ./mnt -o -path ./tmp -o -path ./run/systemd \
    -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/dpkg -o -path ./var/lib/apt \) -prune -o -print | sort)
}

install() {
  files_of_root >"$dir/before"
  apt install '/mnt/packages/debs/softhca*.deb'
  [[ -L $tree/etc/systemd/system/multi-user.target.wants/softhcad.service ]]
  cmp "$root/config/softhca.toml" "$tree/etc/softhca/softhca.toml"
}

verify_unit() {
  # shellcheck disable=SC2016  # for the shell inside
  within "$tree" sh -c 'systemd-analyze verify "$(dpkg -L softhca | grep "/softhcad\.service$")"' 2>&1 | tee "$dir/verify"
  # What else the root has is not complained about here.
  ! grep softhca "$dir/verify"
}

hardening() {
  "$root/tools/check_hardening" "$tree"/usr/sbin/softhcad "$tree"/usr/bin/softhca* "$tree"/usr/lib/*/libibverbs/libsofthca-* \
    "$tree"/usr/lib/*/softhca/*.so "$tree"/usr/lib/*/libsofthca-*.so.?
}

# Makes packages of a higher version of those that were built: VERSION [FILE-TO-CHANGE]
next_version() {
  local package unpacked
  rm -rf "${next:?}"/*
  for package in "${packages[@]}"; do
    unpacked=$dir/unpacked/$package
    rm -rf "$unpacked"
    mkdir -p "$dir/unpacked"
    dpkg-deb -R "$debs/${package}"_*.deb "$unpacked"
    sed -i "/^Version:\|^Depends:/s/$(field "$package" Version)/$1/" "$unpacked/DEBIAN/control"
    [[ -z ${2:-} || ! -e $unpacked/$2 ]] || echo "# of version $1" >>"$unpacked/$2"
    dpkg-deb --root-owner-group -b -Znone "$unpacked" "$next/${package}_$1.deb"
  done
}

upgrade() {
  printf '\n[[tenant]]\nname = "local"\naddresses = ["198.18.0.77"]\n' >>"$tree/etc/softhca/softhca.toml"
  cp "$tree/etc/softhca/softhca.toml" "$dir/local.toml"
  next_version 99.1
  apt install '/mnt/packages/next/*.deb'
  within "$tree" dpkg-query -W softhca | grep -P '\t99\.1$'
  cmp "$dir/local.toml" "$tree/etc/softhca/softhca.toml"
}

upgrade_conffile() {
  next_version 99.2 etc/softhca/softhca.toml
  apt install -o Dpkg::Options::=--force-confold '/mnt/packages/next/*.deb'
  within "$tree" dpkg-query -W softhca | grep -P '\t99\.2$'
  cmp "$dir/local.toml" "$tree/etc/softhca/softhca.toml"
  grep "of version 99.2" "$tree/etc/softhca/softhca.toml.dpkg-dist"
}

remove() {
  apt remove "'softhca*'"
  cmp "$dir/local.toml" "$tree/etc/softhca/softhca.toml"
  files_of_root >"$dir/removed"
  # The administrator's and the daemon's files stay, and what says that the unit was enabled.
  comm -13 "$dir/before" "$dir/removed" |
    { grep -vE '^\./(etc/softhca|var/lib/softhca|run/softhca|var/lib/systemd/deb-systemd-helper-|etc/systemd/system/multi-user)' || true; } |
    tee "$dir/left"
  [[ ! -s $dir/left ]]
}

purge() {
  apt purge "'softhca*'"
  files_of_root >"$dir/after"
  diff "$dir/before" "$dir/after"
}

debian_cases() {
  # Packing well takes longer than anything else.
  export DPKG_DEB_COMPRESSOR_LEVEL=1
  check "Debian: built" "$root/deploy/build-packages" --no-lto "$debs"
  if compgen -G "$debs/softhca_*.deb" >/dev/null; then
    check "Debian: lintian" lint_debs
    check "Debian: what the packages have" contents
    if (set -e; make_root) >"$dir/root.log" 2>&1; then
      check "Debian: install" install
      check "Debian: the unit is valid" verify_unit
      check "Debian: programs are hardened" hardening
      check "Debian: daemon with the installed configuration" serving softhcactl status
      check "Debian: ibv_devinfo, without a warning" serving /mnt/tests/traffic devices
      check "Debian: ibv_rc_pingpong between tenants" serving /mnt/tests/traffic pingpong
      check "Debian: upgrade keeps a changed configuration" upgrade
      check "Debian: upgrade with a new configuration keeps a changed one" upgrade_conffile
      check "Debian: daemon with the kept configuration" serving softhcactl tenant show local
      check "Debian: remove leaves the configuration" remove
      check "Debian: purge leaves nothing" purge
    else
      tail -n 5 "$dir/root.log"
      skip "Debian: install, upgrade, remove, purge" "the root cannot be made"
    fi
  fi
}

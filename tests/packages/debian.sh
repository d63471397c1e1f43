# The packages for Debian: lintian, and what becomes of a root of Debian 12 by them.
# shellcheck shell=bash disable=SC2154  # variables of the runner

tree=$dir/root trixie=$dir/trixie
debs=$dir/packages/debs next=$dir/packages/next
packages=(softhca softhca-provider softhca-tools softhca-guest softhca-device-plugin softhca-dev)
mkdir -p "$debs" "$next"

# A command in a root, with mounts and processes of its own.
#   --net          with a network of its own, too
#   --guest ROOT   with another root in /mnt/guest, which sees the tenants of this one's daemon
within() {  # [--net] [--guest ROOT] ROOT COMMAND...
  local net=() guest=''
  [[ $1 != --net ]] || { net=(--net); shift; }
  [[ $1 != --guest ]] || { guest=$2; shift 2; }
  # shellcheck disable=SC2016  # for the shell inside
  DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 unshare --mount --pid --ipc --uts "${net[@]}" --fork --kill-child \
    bash -ec 'packages=$1 here=$2 net=$3 guest=$4 root=$5
      shift 5
      mount -t proc proc "$root/proc"
      mount -t tmpfs tmpfs "$root/dev/shm"
      mount -t tmpfs tmpfs "$root/mnt"
      mkdir "$root/mnt/packages" "$root/mnt/tests" "$root/mnt/system" "$root/mnt/guest"
      mount --bind "$packages" "$root/mnt/packages"
      mount --bind "$here" "$root/mnt/tests"
      mount --bind "$here/../system" "$root/mnt/system"
      if [[ $guest ]]; then
        mount --bind "$guest" "$root/mnt/guest"
        mount -t proc proc "$root/mnt/guest/proc"
        mkdir -p "$guest/run/softhca"
        mount --bind "$root/run/softhca" "$root/mnt/guest/run/softhca"
      fi
      [[ -z $net ]] || ip link set lo up
      exec chroot "$root" "$@"' - "$dir/packages" "$here" "${net[*]}" "$guest" "$@" </dev/null
}

# The package manager of the root: words for a shell inside.
apt() { within "$tree" sh -c "apt-get -y --no-install-recommends -o Dpkg::Use-Pty=0 $*"; }

# A command of the root, beside its daemon.
serving() { within --net "$tree" /mnt/tests/as_service "$@"; }
serving_trixie() { within --net --guest "$trixie" "$tree" /mnt/tests/as_service /mnt/tests/traffic --root /mnt/guest "$@"; }

lint_debs() {
  lintian --allow-root --fail-on error,warning --tag-display-limit 0 \
    --suppress-tags-from-file "$root/deploy/debian/lintian-suppressed" "$debs"/*.deb
}

field() { dpkg-deb -f "$debs"/"$1"_*.deb "$2"; }

contents() {
  local package number numbers
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
  numbers=$(sed -n "s/^private_interfaces = \[\(.*\)\]$/\1/p" "$root/libverbs-provider/meson.build" | tr -d "',")
  [[ -n $numbers ]]
  for number in $numbers; do grep "/libibverbs/libsofthca-rdmav$number\.so\$" "$dir/provider-files"; done
  dpkg-deb -c "$debs"/softhca-tools_*.deb >"$dir/tools-files"
  for file in bash-completion/completions/softhcactl zsh/vendor-completions/_softhcactl \
    fish/vendor_completions.d/softhcactl.fish; do
    grep "/share/$file\$" "$dir/tools-files"
  done
  # It needs nothing of the daemon's package: the image has it alone.
  if field softhca-device-plugin Depends | grep softhca; then return 1; fi
}

# The installed plugin finds its modules, and kubectl its manifests. There is no kubelet.
device_plugin() {
  local code=0 folder=$tree/usr/share/softhca-device-plugin
  within "$tree" /usr/libexec/softhca-device-plugin --resource small=2 || code=$?
  ((code == 2))
  [[ ! -e $folder/softhca_device_plugin/__pycache__ ]]
  diff -r "$root/deploy/kubernetes/base" "$folder/kubernetes/base"
  for overlay in wire monitoring cluster; do
    ! command -v kubectl >/dev/null || kubectl kustomize "$folder/kubernetes/overlays/$overlay" >/dev/null
  done
}

# The root with all that the packages depend on, but without them.
make_root() {
  local depends
  depends=$(for package in "${packages[@]}"; do field "$package" Depends; done | tr ',' '\n' |
    sed 's/[(|].*//; s/ //g; /^softhca/d' | sort -u)
  # shellcheck disable=SC2086  # words
  "$root/tests/distributions/make-root" bookworm "$cache/bookworm-packages" $depends ibverbs-utils perftest
  cp -a --reflink=auto "$cache/bookworm-packages" "$tree"
  ready_for_packages "$tree"
}

# The root of tests/distributions, which has libibverbs and its programs.
make_trixie() {
  "$root/tests/distributions/make-root" trixie "$cache/trixie"
  cp -a --reflink=auto "$cache/trixie" "$trixie"
  ready_for_packages "$trixie"
}

ready_for_packages() {  # ROOT
  printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
  chmod +x "$1/usr/sbin/policy-rc.d"
  echo force-unsafe-io >"$1/etc/dpkg/dpkg.cfg.d/unsafe-io"
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
  cmp "$root/config/softhca-full.toml" "$tree/etc/softhca/softhca-full.toml"
}

# Of the documents to each other, and to files that come with them. Absolute links are of the root.
document_links() {
  /usr/bin/python3 - "$tree/usr/share/doc/softhca" <<'END'
import pathlib
import re
import sys

folder = pathlib.Path(sys.argv[1])
documents = [folder / "README.md", *folder.glob("docs/*.md")]
assert len(documents) > 10, documents
lost = [f"{document.relative_to(folder)}: {link}" for document in documents
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
        if "://" not in link and not (document.parent / link).exists() and not (document.parent / link).is_symlink()]
print("\n".join(lost))
sys.exit(bool(lost))
END
}

verify_units() {
  # shellcheck disable=SC2016  # for the shell inside
  within "$tree" sh -c '
    systemd-analyze verify $(dpkg -L softhca softhca-guest | grep "/system/softhca.*\.service$")
    XDG_RUNTIME_DIR=/run systemd-analyze verify --user "$(dpkg -L softhca | grep "/user/softhcad\.service$")"' 2>&1 | tee "$dir/verify"
  # What else the root has is not complained about here.
  ! grep softhca "$dir/verify"
}

hardening() {
  "$root/tools/check_hardening" "$tree"/usr/sbin/softhca* "$tree"/usr/bin/softhca* "$tree"/usr/lib/*/libibverbs/libsofthca-* \
    "$tree"/usr/lib/*/softhca/* "$tree"/usr/lib/*/libsofthca-*.so.?
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

# The daemon that runs goes on as the next version, at the signal that softhca.postinst sends where there is systemd,
# and so do programs that run meanwhile.
upgrade_live() {
  next_version 99.3
  serving sh -ec '
    /mnt/tests/traffic devices
    before=$(pgrep -x softhca-adapter)
    /mnt/tests/traffic through sh -ec "
      apt-get -y --no-install-recommends -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold \
        install /mnt/packages/next/*.deb
      grep -q -- --signal=USR1\ softhcad.service /var/lib/dpkg/info/softhca.postinst
      pkill -USR1 -x softhcad
      for i in \$(seq 100); do
        softhcactl status | grep \"^restarts: upgrade 1\" && break
        sleep 0.1
      done"
    [ "$(pgrep -x softhca-adapter)" != "$before" ]
    softhcactl events | tail -n 3'
}

remove() {
  apt remove "'softhca*'"
  cmp "$dir/local.toml" "$tree/etc/softhca/softhca.toml"
  files_of_root >"$dir/removed"
  # The administrator's and the daemon's files stay, and what says which units were enabled.
  comm -13 "$dir/before" "$dir/removed" |
    sed -E '\#^\./(etc/softhca|var/lib/softhca|run/softhca|var/lib/systemd/deb-systemd-(user-)?helper-|etc/systemd/system/multi-user)#d' |
    tee "$dir/left"
  [[ ! -s $dir/left ]]
}

purge() {
  apt purge "'softhca*'"
  files_of_root >"$dir/after"
  diff "$dir/before" "$dir/after"
}

install_trixie() { within "$trixie" sh -c 'apt-get -y --no-install-recommends install /mnt/packages/debs/softhca-provider_*.deb'; }

# Programs of a newer distribution, as in a container, against the daemon of this one.
trixie_cases() {
  attempt make_trixie
  ((code == 0)) || { skip "Debian 13" "no root can be made: $(tail -n 1 "$dir/said")"; return; }
  check "Debian 13: install the provider" install_trixie
  check "Debian 13: ibv_devinfo, without a warning" serving_trixie devices
  check "Debian 13: ibv_rc_pingpong between tenants" serving_trixie pingpong
}

debian_cases() {
  # Packing well takes longer than anything else.
  export DPKG_DEB_COMPRESSOR_LEVEL=1
  check "Debian: built" "$root/deploy/build-packages" --no-lto "${like[@]}" "$debs"
  compgen -G "$debs/softhca_*.deb" >/dev/null || return
  check "Debian: lintian" lint_debs
  check "Debian: what the packages have" contents
  attempt make_root
  ((code == 0)) ||
    { skip "Debian: install, upgrade, remove, purge" "no root can be made: $(tail -n 1 "$dir/said")"; return; }
  check "Debian: install" install
  check "Debian: device plugin and manifests" device_plugin
  check "Debian: links of the documents lead somewhere" document_links
  check "Debian: the units are valid" verify_units
  check "Debian: programs are hardened" hardening
  check "Debian: daemon with the installed configuration" serving softhcactl status
  check "Debian: ibv_devinfo, without a warning" serving /mnt/tests/traffic devices
  check "Debian: ibv_rc_pingpong between tenants" serving /mnt/tests/traffic pingpong
  trixie_cases
  check "Debian: upgrade keeps a changed configuration" upgrade
  check "Debian: upgrade with a new configuration keeps a changed one" upgrade_conffile
  check "Debian: daemon with the kept configuration" serving softhcactl tenant show local
  check "Debian: upgrade of the daemon that runs" upgrade_live
  if [[ -c /dev/net/tun && $(uname -m) == x86_64 ]]; then
    check "Debian: upgrade of the daemon that runs, with systemd in a guest" "$here/in_guest" "$debs" "$next"
  else
    skip "Debian: upgrade with systemd in a guest" "no /dev/net/tun, or not x86_64"
  fi
  check "Debian: remove leaves the configuration" remove
  check "Debian: purge leaves nothing" purge
}

# tools/release: two runs give the same bytes, and the archive, the apt repository and the images work.
# shellcheck shell=bash disable=SC2154  # variables of the runner, and of debian.sh

release=$dir/packages/release  # in roots: /mnt/packages/release
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" "$root/meson.build")

# A key for these tests alone.
make_key() {
  export GNUPGHOME=$dir/gnupg
  mkdir -m 0700 "$GNUPGHOME"
  gpg --batch --passphrase '' --quick-generate-key 'softhca test' ed25519 sign never
}

# With options that only trials have, as the tree may have changes. The second run compiles each file again, in
# another folder.
make_release() {  # FOLDER [VARIABLE=VALUE...]
  local folder=$1 options=(--allow-dirty --no-lto --key 'softhca test')
  shift
  command -v podman >/dev/null || options+=(--no-images)
  env "GNUPGHOME=$dir/gnupg" "$@" "$root/tools/release" "${options[@]}" --output "$folder" "$version"
}

same_bytes() {
  make_release "$dir/release-again" CCACHE_DISABLE=1 "XDG_CACHE_HOME=$dir/cache" TZ=Asia/Tokyo
  diff "$release/SHA256SUMS" "$dir/release-again/SHA256SUMS"
}

signatures() {
  cd "$release" || return
  sha256sum --check --quiet SHA256SUMS
  GNUPGHOME=$dir/gnupg gpg --verify SHA256SUMS.asc SHA256SUMS
  gpgv --keyring "$release/apt/softhca.gpg" apt/dists/bookworm/InRelease
  gpgv --keyring "$release/apt/softhca.gpg" --output - apt/dists/bookworm/InRelease | cmp - apt/dists/bookworm/Release
}

# Units and catalog of the archive name what it has below /opt/softhca.
units() {
  local tree=$dir/archive path
  mkdir "$tree"
  tar -C "$tree" --strip-components=1 -xf "$release/softhca-$version-linux-x86_64.tar.gz"
  grep -rohE '/(usr|opt/softhca)/(s?bin|share)/[^ "]+' "$tree/lib/systemd" | sort | uniq -c | tee "$dir/named"
  [[ $(awk '$2 == "/opt/softhca/sbin/softhcad" { print $1 }' "$dir/named") == 5 ]]
  while read -r _ path; do
    [[ -e $tree/${path#/opt/softhca/} ]]
  done <"$dir/named"
}

# A root with nothing but the programs that use libibverbs.
from_archive() {  # RELEASE
  local tree=$dir/bare-$1
  "$root/tests/distributions/make-root" "$1" "$cache/$1-bare" ibverbs-utils
  cp -a --reflink=auto "$cache/$1-bare" "$tree"
  STARTED=$EPOCHREALTIME within --net "$tree" /mnt/tests/from_archive "/mnt/packages/release/softhca-$version-linux-x86_64.tar.gz" "/tmp/a folder"
}

# What the packages depend on is in the root, which has no network.
from_repository() {
  local tree=$dir/from-repository
  cp -a --reflink=auto "$cache/bookworm-packages" "$tree"
  ready_for_packages "$tree"
  cp "$release/apt/softhca.gpg" "$tree/usr/share/keyrings"
  echo "deb [signed-by=/usr/share/keyrings/softhca.gpg] file:/mnt/packages/release/apt bookworm main" >"$tree/etc/apt/sources.list"
  # shellcheck disable=SC2016  # for the shell inside
  within --net "$tree" sh -ec '
    apt-get update
    apt-get install -y -o Dpkg::Use-Pty=0 softhca
    dpkg-query -W softhca softhca-provider softhca-tools
    /mnt/tests/as_service softhcactl status
    /mnt/tests/as_service /mnt/tests/traffic pingpong'
}

# Each archive has the image with its version in the name.
from_images() {
  local image pod=(podman --root "$dir/store" --runroot "$dir/run" --cgroup-manager cgroupfs)
  trap 'umount --lazy "$dir/store/overlay" || true' EXIT
  for image in daemon programs device-plugin; do
    tar -xOf "$release/softhca-$image-$version.oci.tar" index.json | grep -F "\"softhca-$image:$version\""
    "${pod[@]}" pull --quiet "oci-archive:$release/softhca-$image-$version.oci.tar"
  done
  [[ $("${pod[@]}" images --quiet | sort -u | wc -l) == 3 ]]
}

release_cases() {
  local suite
  attempt make_key
  check "release: made" make_release "$release"
  [[ -e $release/SHA256SUMS ]] || return
  check "release: a second run gives the same bytes" same_bytes
  check "release: checksums and signatures" signatures
  check "release: units and catalog name files of the archive" units
  for suite in bookworm trixie sid; do
    check "release: the archive in a bare root of $suite" from_archive "$suite"
    grep -h "^a device after" "$dir/said"
  done
  check "release: apt-get install from the repository" from_repository
  if command -v podman >/dev/null; then
    check "release: images" from_images
  else
    skip "release: images" "no podman; tools/install-packages containers"
  fi
  gpgconf --homedir "$dir/gnupg" --kill gpg-agent
}

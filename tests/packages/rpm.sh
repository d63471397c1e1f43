# The packages of RPM: rpmlint, and that they can be built.
# shellcheck shell=bash disable=SC2154  # variables of the runner

rpms=$dir/rpms
mkdir -p "$rpms"

lint_spec() { rpmlint --strict -c "$root/deploy/rpm/rpmlint.toml" "$root/deploy/rpm/softhca.spec"; }
lint_rpms() { rpmlint --strict -c "$root/deploy/rpm/rpmlint.toml" "$rpms"/*.rpm; }

# A libibverbs has one private interface, and so could meet no demand for all of them.
demands() {
  rpm -qp --requires "$rpms"/softhca-provider-[0-9]*.rpm >"$dir/demands"
  grep '^libibverbs\.so\.1()' "$dir/demands"
  ! grep IBVERBS_PRIVATE "$dir/demands"
}

rpm_cases() {
  if command -v rpmbuild >/dev/null && command -v rpmlint >/dev/null; then
    check "RPM: rpmlint of the specification" lint_spec
    check "RPM: built" "$root/deploy/build-packages" --rpm --no-lto "$rpms"
    compgen -G "$rpms/*.rpm" >/dev/null || return
    check "RPM: rpmlint of the packages" lint_rpms
    check "RPM: the provider asks for no private interface" demands
  else
    skip RPM "no rpmbuild or rpmlint; tools/install-packages rpm"
  fi
}

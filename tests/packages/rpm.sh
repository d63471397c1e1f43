# The packages of RPM: rpmlint, and that they can be built.
# shellcheck shell=bash disable=SC2154  # variables of the runner

rpms=$dir/rpms
mkdir -p "$rpms"

lint_spec() { rpmlint -c "$root/deploy/rpm/rpmlint.toml" "$root/deploy/rpm/softhca.spec"; }
lint_rpms() { rpmlint -c "$root/deploy/rpm/rpmlint.toml" "$rpms"/*.rpm; }

rpm_cases() {
  if command -v rpmbuild >/dev/null && command -v rpmlint >/dev/null; then
    check "RPM: rpmlint of the specification" lint_spec
    check "RPM: built" "$root/deploy/build-packages" --rpm --no-lto "$rpms"
    ! compgen -G "$rpms/*.rpm" >/dev/null || check "RPM: rpmlint of the packages" lint_rpms
  else
    skip RPM "no rpmbuild or rpmlint; tools/install-packages rpm"
  fi
}

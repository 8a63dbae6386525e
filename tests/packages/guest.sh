#!/bin/bash
# The Debian package in a guest of tests/guest: installed by its dpkg, used by the users of a real system, purged again.
#
#   make test-guest-packages
set -eu
fail() { echo "FAIL $*"; exit 1; }
package=$(echo /guest/files/sbx_*.deb)

# Everything that a package could leave: names, kinds, modes and owners. dpkg's own lists of what it did grow by nature.
listing() { find /etc /usr /opt /srv /run/sbx /var/lib/dpkg/info -printf '%y %m %U:%G %p %l\n' 2> /dev/null | sort; }
# Once before, so that what dpkg itself changes at its first use is there already.
dpkg --install "$package" > /dev/null
dpkg --purge sbx > /dev/null
listing > /tmp/before

dpkg --install "$package"
[ "$(command -v sbx)" = /usr/bin/sbx ] || fail "sbx is not found on the PATH"
[ "$(sbx --version)" = "$("$SBX" --version)" ] || fail "another version than that of the build"
[ -z "$(dpkg --verify sbx)" ] || fail "dpkg --verify: $(dpkg --verify sbx)"
for who in root session-user; do
  said=$(echo 'echo "hello from $(id -u)"' | /guest/as "$who" sbx run --lang sh) || fail "$who: sbx run"
  [ "$said" = "hello from 1000" ] || fail "$who: sbx run printed '$said'"
  echo "$who: $said"
done
/guest/as session-user sbx doctor --require sandbox > /dev/null || fail "doctor of session-user"
if [ -e /etc/apparmor.d/abi/4.0 ]; then
  grep -qF '"/usr/bin/sbx"' /etc/apparmor.d/sbx || fail "AppArmor 4, and no profile for /usr/bin/sbx"
  if command -v apparmor_parser > /dev/null; then apparmor_parser --skip-kernel-load --skip-cache /etc/apparmor.d/sbx || fail "AppArmor does not take the profile"; fi
elif [ -e /etc/apparmor.d/sbx ]; then
  fail "a profile that this host's AppArmor cannot read"
fi

dpkg --purge sbx
listing > /tmp/after
diff /tmp/before /tmp/after || fail "purge left something"
! command -v sbx > /dev/null || fail "sbx is still there"
echo "the package came, worked and went"

#!/bin/sh
# package.sh deb|tarball [BUILD]: packs what BUILD (default: build) installs into dist/, writes dist/SHA256SUMS anew and
# prints the package's path. `make deb` and `make tarball` build first.
#
# The same binary gives the same bytes, whoever packs it, where and when: times are SOURCE_DATE_EPOCH's (default: the last
# commit's), owners are root, names are sorted, modes do not follow the umask, compressors write no name and use one thread.
#
# dpkg-deb and not CPack: CPack leaves compressed pages, md5sums, changelog and modes to be scripted all the same, so that
# the package would be described in two places; and dpkg-deb is on every host that can try the package.
set -eu
umask 022
export LC_ALL=C TZ=UTC
cd "$(dirname "$0")/.."
kind=${1:-}
build=${2:-build}
[ "$kind" = deb ] || [ "$kind" = tarball ] || { echo "usage: package.sh deb|tarball [BUILD]" >&2; exit 2; }
[ -x "$build/sbx" ] || { echo "package.sh: no $build/sbx: make build" >&2; exit 1; }

# Who gives a package to others puts their own name here.
: "${MAINTAINER:=sbx maintainers <maintainers@sbx.invalid>}"
: "${DEBIAN_REVISION:=1}"
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || SOURCE_DATE_EPOCH=$(stat -c %Y CHANGELOG.md)
fi
export SOURCE_DATE_EPOCH

version=$("$build/sbx" --version)
version=${version#sbx }
case $(od -An -tx1 -j18 -N2 "$build/sbx" | tr -d ' ') in # e_machine
  3e00) machine=x86_64 debian_machine=amd64 ;;
  b700) machine=aarch64 debian_machine=arm64 ;;
  *) echo "package.sh: $build/sbx is for neither x86-64 nor aarch64" >&2; exit 1 ;;
esac
# What a package promises: nothing beside it is needed.
if readelf -d "$build/sbx" | grep -q NEEDED; then
  echo "package.sh: $build/sbx is not static" >&2
  exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p dist

stage() { # stage PREFIX
  DESTDIR=$root cmake --install "$build" --prefix "$1" --strip > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  chmod -R u=rwX,go=rX "$root"
}

# What is part of the binary, with the versions that were linked: who must follow a security update asks for it.
built_using() {
  command -v dpkg-query > /dev/null || return 0
  compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
  major=$("$compiler" -dumpversion | cut -d. -f1)
  for package in libc6-dev "libstdc++-$major-dev" libcap-dev libmd-dev libseccomp-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev; do
    dpkg-query -W -f '${source:Package} (= ${source:Version})\n' "$package" 2> /dev/null || :
  done | sort -u | paste -sd, | sed 's/,/, /g'
}

tarball() {
  name=sbx-$version-linux-$machine
  stage "/$name"
  file=dist/$name.tar.gz
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -C "$root" -cf "$work/tar" "$name"
  gzip -9n < "$work/tar" > "$file"
}

deb() {
  stage /usr
  doc=$root/usr/share/doc/sbx
  find "$root/usr/share/man" -type f -exec gzip -9n {} +
  mv "$doc/CHANGELOG.md" "$work/changelog"
  gzip -9n < "$work/changelog" > "$doc/changelog.gz"
  printf 'sbx (%s-%s) unstable; urgency=medium\n\n  * /usr/share/doc/sbx/changelog.gz says what changed.\n\n -- %s  %s\n' \
    "$version" "$DEBIAN_REVISION" "$MAINTAINER" "$(date -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n > "$doc/changelog.Debian.gz"
  cat packaging/debian/copyright THIRD_PARTY_NOTICES.md > "$doc/copyright"
  # Debian's zsh looks there, and not in site-functions.
  mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
  mkdir -p "$root/usr/share/sbx" "$root/usr/share/lintian/overrides" "$root/DEBIAN"
  # The profile is the binary's own word; it names the path that the binary has while it is asked.
  "$root/usr/bin/sbx" doctor --fix 2> /dev/null | sed "s|\"$(realpath "$root")/usr/bin/sbx\"|\"/usr/bin/sbx\"|" > "$root/usr/share/sbx/apparmor-profile"
  grep -q '^profile sbx "/usr/bin/sbx" ' "$root/usr/share/sbx/apparmor-profile" || { echo "package.sh: no AppArmor profile for /usr/bin/sbx" >&2; exit 1; }
  cp packaging/debian/lintian-overrides "$root/usr/share/lintian/overrides/sbx"

  using=$(built_using)
  size=$(find "$root/usr" -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
  sed -e "s|@VERSION@|$version-$DEBIAN_REVISION|; s|@ARCHITECTURE@|$debian_machine|; s|@MAINTAINER@|$MAINTAINER|; s|@SIZE@|$size|" \
      -e "s|@BUILT_USING@|$using|; /^Built-Using: *\$/d" packaging/debian/control > "$root/DEBIAN/control"
  for script in postinst prerm postrm triggers; do cp "packaging/debian/$script" "$root/DEBIAN/$script"; done
  (cd "$root" && find usr -type f | sort | xargs md5sum) > "$root/DEBIAN/md5sums"
  chmod -R u=rwX,go=rX "$root"
  chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm" "$root/DEBIAN/postrm"
  find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  file=dist/sbx_$version-${DEBIAN_REVISION}_$debian_machine.deb
  DPKG_DEB_THREADS_MAX=1 dpkg-deb --root-owner-group -Zxz -b "$root" "$file" > "$work/log" || { cat "$work/log" >&2; exit 1; }
}

"$kind"
(cd dist && sha256sum "sbx-$version"-* "sbx_$version"-* 2> /dev/null > SHA256SUMS) || : # one of the two kinds may not be there
echo "$file"

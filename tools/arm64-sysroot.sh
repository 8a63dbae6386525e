#!/bin/sh
# arm64-sysroot.sh FOLDER: the static libraries that sbx links, for arm64, unpacked into FOLDER from Debian's packages.
# Nothing of it is installed, and this machine's package lists stay as they are: apt works on lists of its own in FOLDER.
set -eu
[ $# -eq 1 ] || { echo "usage: arm64-sysroot.sh FOLDER" >&2; exit 2; }
root=$1
done_mark=$root/complete
[ ! -e "$done_mark" ] || exit 0
mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" "$root/debs"
root=$(cd "$root" && pwd)
: > "$root/apt/status"
# The mirrors of this machine's own distribution, with arm64 put in the place of whatever architecture they name.
. /etc/os-release
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $VERSION_CODENAME" 2>/dev/null | head -n 1)
[ -n "$mirror" ] || { echo "arm64-sysroot.sh: apt knows no mirror of $VERSION_CODENAME; run apt-get update" >&2; exit 1; }
keys=""
for file in /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/ubuntu-archive-keyring.gpg; do
  [ -e "$file" ] && keys="$file"
done
echo "deb [arch=arm64${keys:+ signed-by=$keys}] $mirror $VERSION_CODENAME main" > "$root/apt/sources.list"
run_apt() {
  apt-get -q -o Dir::Etc::SourceList="$root/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$root/apt/lists" \
    -o Dir::State::Status="$root/apt/status" -o Dir::Cache="$root/apt/cache" -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
    -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}
run_apt update
(cd "$root/debs" && run_apt download libseccomp-dev libcap-dev libmd-dev)
for package in "$root"/debs/*.deb; do dpkg-deb -x "$package" "$root"; done
rm -rf "$root/apt" "$root/debs"
: > "$done_mark"

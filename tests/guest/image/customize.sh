#!/bin/sh
# customize.sh ROOT FILES OUT: the last hook of mmdebstrap. Makes ROOT a guest that boots straight into guest-start,
# and writes OUT/vmlinuz, OUT/initrd.img and OUT/root.img.
set -eu
root=$1 files=$2 out=$3

install -m 755 "$files/guest-start" "$root/usr/local/sbin/guest-start"
install -m 644 "$files/guest.service" "$root/etc/systemd/system/guest.service"
chroot "$root" systemctl enable guest.service

echo guest >"$root/etc/hostname"
printf '127.0.0.1 localhost guest\n::1 localhost\n' >"$root/etc/hosts"
echo '/dev/vda / ext4 defaults,noatime 0 1' >"$root/etc/fstab"
echo 5b5b5b5b5b5b4b5b8b5b5b5b5b5b5b5b >"$root/etc/machine-id"  # fixed: else the first boot is a long one, every time

# session: logs in through PAM and has a user manager. ci: what a CI agent runs as: a service account, no session, no
# manager. sbxtest: the user whom the test driver takes on as root.
for user in session ci sbxtest; do
  chroot "$root" useradd --create-home --shell /bin/bash "$user"
  chmod 700 "$root/home/$user"
done

# What costs start-up time under emulation and is of no use here; udev goes through every device of a machine that has
# only what the kernel's own devtmpfs shows.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
  fstrim.timer man-db.timer logrotate.timer systemd-timesyncd.service getty@tty1.service networking.service \
  podman.service podman.socket podman-auto-update.timer podman-restart.service ldconfig.service \
  systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service \
  systemd-update-utmp.service systemd-pcrphase.service systemd-hwdb-update.service systemd-networkd-wait-online.service; do
  ln -sf /dev/null "$root/etc/systemd/system/$unit"
done

rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
cat "$root"/boot/vmlinuz-* >"$out/vmlinuz"
cat "$root"/boot/initrd.img-* >"$out/initrd.img"
rm -f "$root"/boot/vmlinuz-* "$root"/boot/initrd.img-* "$root/vmlinuz"* "$root/initrd.img"*

# mmdebstrap has /proc, /sys and devices mounted here: a mount namespace of our own without them is packed.
# Without a journal and without the lazy work that a first mount would do; sparse.
unshare --mount sh -eu -c '
  awk -v root="$1/" "index(\$2, root) == 1 { print \$2 }" /proc/self/mounts | sort -r | while read -r mount; do
    umount -l "$mount"
  done
  mke2fs -q -t ext4 -O "^has_journal" -E lazy_itable_init=0,nodiscard -m 0 -L guest -d "$1" "$2" 4G' - "$root" "$out/root.img"

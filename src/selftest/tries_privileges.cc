#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/raw_sys.h"
#include "selftest/answer.h"
#include "selftest/tries.h"

namespace sbx::selftest::tries {
namespace {

long unshare_of(unsigned long flags) { return raw::call(SYS_unshare, flags); }

// The child of a clone that worked is nothing but its own end.
long cloned(long pid) {
  if (pid == 0) raw::call(SYS_exit_group, 0);
  if (pid > 0) raw::call(SYS_wait4, pid, nullptr, __WALL, nullptr);
  return pid < 0 ? pid : 0;
}

}  // namespace

long unshare_user(const Bait&) { return unshare_of(CLONE_NEWUSER); }
long clone_user(const Bait&) { return cloned(raw::call(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); }
long clone3_user(const Bait&) {
  struct {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
  } arguments = {};
  arguments.flags = CLONE_NEWUSER;
  arguments.exit_signal = SIGCHLD;
  return cloned(raw::call(SYS_clone3, &arguments, sizeof arguments));
}
long unshare_mount(const Bait&) { return unshare_of(CLONE_NEWNS); }
long unshare_pid(const Bait&) { return unshare_of(CLONE_NEWPID); }
long unshare_net(const Bait&) { return unshare_of(CLONE_NEWNET); }
long unshare_ipc(const Bait&) { return unshare_of(CLONE_NEWIPC); }
long unshare_uts(const Bait&) { return unshare_of(CLONE_NEWUTS); }
long unshare_cgroup(const Bait&) { return unshare_of(CLONE_NEWCGROUP); }

// The usual road to bugs of the kernel: a network of one's own, then its packet filter.
long netfilter(const Bait&) {
  const long made = unshare_of(CLONE_NEWUSER | CLONE_NEWNET);
  return made < 0 ? made : raw::call(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 12);
}

// Where it is allowed it ends with the mount namespace of the sandbox: no sandbox lacks one.
long mount_tmpfs(const Bait&) { return raw::call(SYS_mount, "sbx-selftest", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, nullptr); }
long fsopen(const Bait&) { return raw::call(SYS_fsopen, "tmpfs", 1); }
long open_tree(const Bait&) { return raw::call(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | O_CLOEXEC); }
// Read-only to read-only changes nothing, and needs the right to change it.
long remount(const Bait&) { return raw::call(SYS_mount, nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr); }

long chroot(const Bait&) { return raw::call(SYS_chroot, "/"); }
long pivot_root(const Bait&) { return raw::call(SYS_pivot_root, "/", "/tmp"); }
long setns(const Bait&) {
  const long fd = raw::call(SYS_openat, AT_FDCWD, "/proc/self/ns/uts", O_RDONLY | O_CLOEXEC, 0);
  return fd < 0 ? kUntried : raw::call(SYS_setns, fd, CLONE_NEWUTS);
}

long sethostname(const Bait&) {
  // The name that it has already.
  char name[390] = {};
  if (raw::call(SYS_uname, name) < 0) return kUntried;
  return raw::call(SYS_sethostname, name + 65, std::strlen(name + 65));
}

long open_by_handle(const Bait&) {
  struct {
    uint32_t size;
    int32_t type;
    uint64_t inode;
  } handle{8, 1, 0};
  return raw::call(SYS_open_by_handle_at, AT_FDCWD, &handle, O_RDONLY);
}

long mknod_device(const Bait&) {
  const char* path = "/tmp/sbx-selftest-node";
  const long made = raw::call(SYS_mknodat, AT_FDCWD, path, S_IFCHR | 0666, makedev(1, 1));
  if (made >= 0) raw::call(SYS_unlinkat, AT_FDCWD, path, 0);
  return made;
}

long new_privileges(const Bait&) { return raw::call(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? -EPERM : 0; }

long permitted_capability(const Bait&) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  const long answer = raw::call(SYS_capget, &header, data);
  if (answer < 0) return kUntried;
  return (data[0].permitted | data[1].permitted) == 0 ? -EPERM : 0;
}

long bounding_capability(const Bait&) {
  for (int capability = 0; capability < 64; ++capability) {
    const long there = raw::call(SYS_prctl, PR_CAPBSET_READ, capability, 0, 0, 0);
    if (there == 1) return 0;
    if (there < 0) return capability == 0 ? kUntried : -EPERM;
  }
  return -EPERM;
}

long setuid_root(const Bait&) { return raw::call(SYS_setuid, 0); }
// Any id but one's own: the first thousand are tried, which changes nothing but this process.
long second_id(const Bait&) {
  const auto own = static_cast<long>(::getuid());
  long answer = kUntried;
  for (long id = 0; id < 1100; ++id) {
    if (id == own) continue;
    answer = raw::call(SYS_setresuid, id, id, id);
    if (answer >= 0) return 0;
  }
  return answer;
}

long file_capability(const Bait&) {
  const char* path = "/tmp/sbx-selftest-capability";
  const long fd = raw::call(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
  if (fd < 0) return kUntried;
  const uint32_t everything[5] = {0x02000001, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff};
  const long answer = raw::call(SYS_fsetxattr, fd, "security.capability", everything, sizeof everything, 0);
  raw::call(SYS_unlinkat, AT_FDCWD, path, 0);
  return answer;
}

}  // namespace sbx::selftest::tries

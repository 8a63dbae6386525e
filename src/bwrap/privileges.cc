#include "bwrap/privileges.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/raw_sys.h"
#include "base/sys.h"

namespace sbx::bwrap {
namespace {

struct Sets {
  uint64_t effective = 0, permitted = 0, inheritable = 0;
};

Sets get(const Voice& voice) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  const long got = raw::call(SYS_capget, &header, data);
  if (got < 0) voice.die("capget failed", static_cast<int>(-got));
  const auto both = [&](uint32_t __user_cap_data_struct::*set) { return uint64_t{data[1].*set} << 32 | data[0].*set; };
  return {both(&__user_cap_data_struct::effective), both(&__user_cap_data_struct::permitted),
          both(&__user_cap_data_struct::inheritable)};
}

long set(uint64_t mask) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  for (int half = 0; half < 2; ++half) {
    data[half].effective = data[half].permitted = data[half].inheritable = static_cast<uint32_t>(mask >> (32 * half));
  }
  return raw::call(SYS_capset, &header, data);
}

}  // namespace

Privileges Privileges::of_caller(const Voice& voice) {
  Privileges made;
  made.uid = ::getuid();
  made.gid = ::getgid();
  if (made.uid != ::geteuid() || made.gid != ::getegid()) voice.die("setuid use of bubblewrap is not supported");
  const Sets sets = get(voice);
  if (made.uid == 0) {
    made.requested = sets.effective;
    return made;
  }
  if (sets.permitted == 0) return made;
  // The kernel tells whether they came by exec of this file, or were there before (ambient ones).
  if (::getauxval(AT_SECURE) != 0) voice.die("Unexpected capabilities but not setuid, old file caps config?");
  const long dropped = set(0);
  if (dropped < 0) voice.die("capset failed", static_cast<int>(-dropped));
  return made;
}

void Privileges::choose(const Options& options) {
  chosen = !options.capabilities.empty();
  for (const CapabilityChange& change : options.capabilities) {
    requested = change.add ? requested | change.mask : requested & ~change.mask;
  }
}

void Privileges::bound(const Voice& voice) const {
  for (unsigned long capability = 0; capability < 64; ++capability) {
    if ((requested >> capability & 1) != 0) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno == EINVAL) return;  // beyond the last one
    // Refused where a security module takes capabilities away in new user namespaces: what follows says so in the words
    // that clients know. no_new_privs holds in any case.
    if (errno != EPERM) voice.die("Dropping capability " + std::to_string(capability) + " from bounds", errno);
  }
}

void Privileges::become_command(const Voice& voice) const {
  // Some containers deny capset: nothing to change, nothing called.
  if (chosen || uid != 0) {
    const Sets sets = get(voice);
    const uint64_t wanted = requested & sets.permitted;
    const bool same = sets.effective == wanted && sets.permitted == wanted && sets.inheritable == wanted;
    const long changed = same ? 0 : set(wanted);
    if (changed < 0) voice.die("capset failed", static_cast<int>(-changed));
    // Whatever stood between us and the kernel: what remains is what was asked for.
    const Sets now = get(voice);
    if (((now.permitted | now.effective | now.inheritable) & ~wanted) != 0) voice.die("capset failed", EPERM);
  }
  // Files below /proc/self belong to the user from now on, as nothing privileged is left to protect.
  if (::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) voice.die("can't set dumpable", errno);
}

void Privileges::drop_all(const Voice& voice) const {
  const long dropped = set(0);
  if (dropped < 0 && (get(voice).permitted & ~requested) != 0) voice.die("capset failed", static_cast<int>(-dropped));
}

void Privileges::raise_ambient(const Voice& voice) const {
  for (unsigned long capability = 0; capability < 64; ++capability) {
    if ((requested >> capability & 1) == 0) continue;
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) == 0) continue;
    if (errno == EINVAL) return;
    // Not inheritable (root that changed nothing), or locked: then it is not given.
    if (errno != EPERM) voice.die("Adding ambient capability " + std::to_string(capability), errno);
  }
}

void write_own_maps(int proc, uid_t inside_uid, uid_t outside_uid, gid_t inside_gid, gid_t outside_gid, bool deny_groups,
                    const Voice& voice) {
  Result<UniqueFd> self = sys::openat(proc, "self", O_PATH);
  if (!self.ok()) voice.die("open /proc/self failed", self.error().errnum());
  // The errno, 0 for none.
  const auto put = [&](const char* name, const std::string& text) {
    Result<UniqueFd> fd = sys::openat(self.value().get(), name, O_RDWR);
    if (!fd.ok()) return fd.error().errnum();
    const Status written = sys::write_all(fd.value().get(), text);
    return written.ok() ? 0 : written.error().errnum();
  };
  const auto line = [](uint32_t inside, uint32_t outside) { return std::to_string(inside) + " " + std::to_string(outside) + " 1\n"; };
  if (const int failed = put("uid_map", line(inside_uid, outside_uid))) voice.die("setting up uid map", failed, runtime::NamespaceStep::map);
  if (deny_groups) {
    if (const int failed = put("setgroups", "deny\n")) voice.die("error writing to setgroups", failed);
  }
  if (const int failed = put("gid_map", line(inside_gid, outside_gid))) voice.die("setting up gid map", failed, runtime::NamespaceStep::map);
}

void load_filters(const std::vector<std::string>& programs, const Voice& voice) {
  for (const std::string& program : programs) {
    // The bytes are the kernel's to check; aligned, as it expects them.
    std::vector<sock_filter> instructions(program.size() / sizeof(sock_filter));
    for (size_t i = 0; i < program.size(); ++i) reinterpret_cast<char*>(instructions.data())[i] = program[i];
    sock_fprog loaded{};
    // A longer one than the field holds is longer than the kernel takes.
    loaded.len = static_cast<unsigned short>(instructions.size() > 0xffff ? 0 : instructions.size());
    loaded.filter = instructions.data();
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &loaded) == 0) continue;
    if (errno == EINVAL) {
      voice.die("Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP) reported EINVAL. "
                "(Hint: no valid program, or a kernel without CONFIG_SECCOMP_FILTER.)");
    }
    voice.die("prctl(PR_SET_SECCOMP)", errno);
  }
}

}  // namespace sbx::bwrap

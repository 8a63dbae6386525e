#include "seccomp/describe_call.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace sbx::seccomp {
namespace {

struct Word {
  uint64_t value;
  const char* name;
};
using Words = std::span<const Word>;

// The kernel's numbers, written out: headers of the build's distribution lack the newer ones.
constexpr Word kPtrace[] = {
    {0, "PTRACE_TRACEME"}, {1, "PTRACE_PEEKTEXT"}, {2, "PTRACE_PEEKDATA"}, {3, "PTRACE_PEEKUSER"}, {4, "PTRACE_POKETEXT"},
    {5, "PTRACE_POKEDATA"}, {6, "PTRACE_POKEUSER"}, {7, "PTRACE_CONT"}, {8, "PTRACE_KILL"}, {9, "PTRACE_SINGLESTEP"},
    {12, "PTRACE_GETREGS"}, {13, "PTRACE_SETREGS"}, {16, "PTRACE_ATTACH"}, {17, "PTRACE_DETACH"}, {24, "PTRACE_SYSCALL"},
    {0x4200, "PTRACE_SETOPTIONS"}, {0x4204, "PTRACE_GETREGSET"}, {0x4206, "PTRACE_SEIZE"}, {0x420c, "PTRACE_SECCOMP_GET_FILTER"},
};
constexpr Word kSignals[] = {{17, "SIGCHLD"}};
constexpr Word kCloneFlags[] = {
    {0x80, "CLONE_NEWTIME"}, {0x100, "CLONE_VM"}, {0x200, "CLONE_FS"}, {0x400, "CLONE_FILES"}, {0x800, "CLONE_SIGHAND"},
    {0x1000, "CLONE_PIDFD"}, {0x2000, "CLONE_PTRACE"}, {0x4000, "CLONE_VFORK"}, {0x8000, "CLONE_PARENT"}, {0x10000, "CLONE_THREAD"},
    {0x20000, "CLONE_NEWNS"}, {0x40000, "CLONE_SYSVSEM"}, {0x80000, "CLONE_SETTLS"}, {0x100000, "CLONE_PARENT_SETTID"},
    {0x200000, "CLONE_CHILD_CLEARTID"}, {0x400000, "CLONE_DETACHED"}, {0x800000, "CLONE_UNTRACED"}, {0x1000000, "CLONE_CHILD_SETTID"},
    {0x2000000, "CLONE_NEWCGROUP"}, {0x4000000, "CLONE_NEWUTS"}, {0x8000000, "CLONE_NEWIPC"}, {0x10000000, "CLONE_NEWUSER"},
    {0x20000000, "CLONE_NEWPID"}, {0x40000000, "CLONE_NEWNET"}, {0x80000000, "CLONE_IO"},
};
constexpr Word kFamilies[] = {
    {1, "AF_UNIX"}, {2, "AF_INET"}, {3, "AF_AX25"}, {4, "AF_IPX"}, {5, "AF_APPLETALK"}, {9, "AF_X25"}, {10, "AF_INET6"}, {15, "AF_KEY"},
    {16, "AF_NETLINK"}, {17, "AF_PACKET"}, {21, "AF_RDS"}, {29, "AF_CAN"}, {30, "AF_TIPC"}, {31, "AF_BLUETOOTH"}, {38, "AF_ALG"},
    {39, "AF_NFC"}, {40, "AF_VSOCK"}, {41, "AF_KCM"}, {42, "AF_QIPCRTR"}, {43, "AF_SMC"}, {44, "AF_XDP"},
};
constexpr Word kSocketTypes[] = {
    {1, "SOCK_STREAM"}, {2, "SOCK_DGRAM"}, {3, "SOCK_RAW"}, {4, "SOCK_RDM"}, {5, "SOCK_SEQPACKET"}, {6, "SOCK_DCCP"}, {10, "SOCK_PACKET"},
};
constexpr Word kPrctl[] = {
    {1, "PR_SET_PDEATHSIG"}, {4, "PR_SET_DUMPABLE"}, {8, "PR_SET_KEEPCAPS"}, {15, "PR_SET_NAME"}, {22, "PR_SET_SECCOMP"},
    {23, "PR_CAPBSET_READ"}, {24, "PR_CAPBSET_DROP"}, {26, "PR_SET_TSC"}, {28, "PR_SET_SECUREBITS"}, {29, "PR_SET_TIMERSLACK"},
    {33, "PR_MCE_KILL"}, {35, "PR_SET_MM"}, {36, "PR_SET_CHILD_SUBREAPER"}, {38, "PR_SET_NO_NEW_PRIVS"}, {41, "PR_SET_THP_DISABLE"},
    {47, "PR_CAP_AMBIENT"}, {53, "PR_SET_SPECULATION_CTRL"}, {57, "PR_SET_IO_FLUSHER"}, {59, "PR_SET_SYSCALL_USER_DISPATCH"},
    {62, "PR_SCHED_CORE"}, {65, "PR_SET_MDWE"}, {67, "PR_SET_MEMORY_MERGE"}, {0x53564d41, "PR_SET_VMA"}, {0x59616d61, "PR_SET_PTRACER"},
};
constexpr Word kIoctl[] = {
    {0x5401, "TCGETS"}, {0x5412, "TIOCSTI"}, {0x5413, "TIOCGWINSZ"}, {0x541C, "TIOCLINUX"}, {0x541D, "TIOCCONS"}, {0x5423, "TIOCSETD"},
    {0x5422, "TIOCNOTTY"}, {0x540E, "TIOCSCTTY"},
};
constexpr Word kPersonality[] = {
    {0x0020000, "UNAME26"}, {0x0040000, "ADDR_NO_RANDOMIZE"}, {0x0080000, "FDPIC_FUNCPTRS"}, {0x0100000, "MMAP_PAGE_ZERO"},
    {0x0200000, "ADDR_COMPAT_LAYOUT"}, {0x0400000, "READ_IMPLIES_EXEC"}, {0x0800000, "ADDR_LIMIT_32BIT"}, {0x1000000, "SHORT_INODE"},
    {0x2000000, "WHOLE_SECONDS"}, {0x4000000, "STICKY_TIMEOUTS"}, {0x8000000, "ADDR_LIMIT_3GB"},
};
constexpr Word kBpf[] = {
    {0, "BPF_MAP_CREATE"}, {1, "BPF_MAP_LOOKUP_ELEM"}, {2, "BPF_MAP_UPDATE_ELEM"}, {3, "BPF_MAP_DELETE_ELEM"}, {5, "BPF_PROG_LOAD"},
    {6, "BPF_OBJ_PIN"}, {7, "BPF_OBJ_GET"}, {8, "BPF_PROG_ATTACH"}, {10, "BPF_PROG_TEST_RUN"}, {18, "BPF_BTF_LOAD"}, {28, "BPF_LINK_CREATE"},
};
constexpr Word kKeyctl[] = {
    {0, "KEYCTL_GET_KEYRING_ID"}, {1, "KEYCTL_JOIN_SESSION_KEYRING"}, {2, "KEYCTL_UPDATE"}, {3, "KEYCTL_REVOKE"}, {4, "KEYCTL_CHOWN"},
    {5, "KEYCTL_SETPERM"}, {6, "KEYCTL_DESCRIBE"}, {7, "KEYCTL_CLEAR"}, {8, "KEYCTL_LINK"}, {9, "KEYCTL_UNLINK"}, {10, "KEYCTL_SEARCH"},
    {11, "KEYCTL_READ"}, {22, "KEYCTL_GET_PERSISTENT"},
};
constexpr Word kFcntl[] = {
    {5, "F_GETLK"}, {6, "F_SETLK"}, {7, "F_SETLKW"}, {36, "F_OFD_GETLK"}, {37, "F_OFD_SETLK"}, {38, "F_OFD_SETLKW"},
    {1024, "F_SETLEASE"}, {1025, "F_GETLEASE"}, {1026, "F_NOTIFY"},
};
constexpr Word kFlock[] = {{1, "LOCK_SH"}, {2, "LOCK_EX"}, {4, "LOCK_NB"}, {8, "LOCK_UN"}};
constexpr Word kProtection[] = {{1, "PROT_READ"}, {2, "PROT_WRITE"}, {4, "PROT_EXEC"}};
constexpr Word kMountFlags[] = {
    {1, "MS_RDONLY"}, {2, "MS_NOSUID"}, {4, "MS_NODEV"}, {8, "MS_NOEXEC"}, {32, "MS_REMOUNT"}, {4096, "MS_BIND"}, {8192, "MS_MOVE"},
    {16384, "MS_REC"}, {1 << 17, "MS_UNBINDABLE"}, {1 << 18, "MS_PRIVATE"}, {1 << 19, "MS_SLAVE"}, {1 << 20, "MS_SHARED"},
};
constexpr Word kFileTypes[] = {
    {0010000, "S_IFIFO"}, {0020000, "S_IFCHR"}, {0060000, "S_IFBLK"}, {0100000, "S_IFREG"}, {0140000, "S_IFSOCK"},
};
constexpr Word kClocks[] = {{0, "CLOCK_REALTIME"}, {1, "CLOCK_MONOTONIC"}, {11, "CLOCK_TAI"}};

enum class How {
  value,    // one word of the list
  flags,    // words of the list joined by |
  clone,    // flags, with the signal in the lowest byte
  type,     // a socket's: flags apart
  mode,     // octal
  node,     // octal mode with the type's name
  number,   // decimal, as an int
};
struct Argument {
  const char* call;
  unsigned index;
  How how;
  Words words;
};
// Several rows of a call are several arguments, in this order.
constexpr Argument kArguments[] = {
    {"ptrace", 0, How::value, kPtrace},
    {"clone", 0, How::clone, kCloneFlags},
    {"unshare", 0, How::flags, kCloneFlags},
    {"setns", 1, How::flags, kCloneFlags},
    {"socket", 0, How::value, kFamilies},
    {"socket", 1, How::type, kSocketTypes},
    {"socket", 2, How::number, {}},
    {"socketpair", 0, How::value, kFamilies},
    {"socketpair", 1, How::type, kSocketTypes},
    {"prctl", 0, How::value, kPrctl},
    {"ioctl", 1, How::value, kIoctl},
    {"personality", 0, How::flags, kPersonality},
    {"bpf", 0, How::value, kBpf},
    {"keyctl", 0, How::value, kKeyctl},
    {"fcntl", 1, How::value, kFcntl},
    {"flock", 1, How::flags, kFlock},
    {"mmap", 2, How::flags, kProtection},
    {"mprotect", 2, How::flags, kProtection},
    {"pkey_mprotect", 2, How::flags, kProtection},
    {"mount", 3, How::flags, kMountFlags},
    {"mknod", 1, How::node, kFileTypes},
    {"mknodat", 2, How::node, kFileTypes},
    {"chmod", 1, How::mode, {}},
    {"fchmod", 1, How::mode, {}},
    {"fchmodat", 2, How::mode, {}},
    {"fchmodat2", 2, How::mode, {}},
    {"creat", 1, How::mode, {}},
    {"mkdir", 1, How::mode, {}},
    {"mkdirat", 2, How::mode, {}},
    {"open", 2, How::mode, {}},
    {"openat", 3, How::mode, {}},
    {"clock_settime", 0, How::value, kClocks},
    {"clock_adjtime", 0, How::value, kClocks},
    {"process_vm_readv", 0, How::number, {}},
    {"process_vm_writev", 0, How::number, {}},
    {"pidfd_getfd", 1, How::number, {}},
    {"kcmp", 0, How::number, {}},
    {"kcmp", 1, How::number, {}},
};

std::string hexadecimal(uint64_t value) {
  char text[16];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value, 16);
  return "0x" + std::string(text, end.ptr);
}
std::string octal(uint64_t value) {
  char text[24];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value, 8);
  return "0" + std::string(text, end.ptr);
}

const char* name_of(uint64_t value, Words words) {
  for (const Word& word : words)
    if (word.value == value) return word.name;
  return nullptr;
}

std::string join_flags(uint64_t value, Words words) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : "|") + word; };
  for (const Word& word : words) {
    if ((value & word.value) == 0) continue;
    add(word.name);
    value &= ~word.value;
  }
  if (value != 0 || text.empty()) add(value == 0 ? "0" : hexadecimal(value));
  return text;
}

std::string argument_text(const Argument& argument, uint64_t value) {
  constexpr uint64_t kSocketFlags = 02004000;  // SOCK_CLOEXEC, SOCK_NONBLOCK
  switch (argument.how) {
    case How::value: {
      const char* name = name_of(value & 0xffffffff, argument.words);  // an int to the kernel, in all rows
      return name != nullptr ? name : hexadecimal(value);
    }
    case How::flags: return join_flags(value, argument.words);
    case How::clone: {
      const uint64_t signal = value & 0x7f;
      std::string text = (value & ~uint64_t{0x7f}) == 0 ? "" : join_flags(value & ~uint64_t{0x7f}, argument.words);
      if (signal == 0 && !text.empty()) return text;
      const char* name = name_of(signal, kSignals);
      return text + (text.empty() ? "" : "|") + (name != nullptr ? name : std::to_string(signal));
    }
    case How::type: {
      const char* name = name_of(value & 0xffffffff & ~kSocketFlags, argument.words);
      return name != nullptr ? name : hexadecimal(value);
    }
    case How::mode: return octal(value & 0xffffffff);
    case How::node: {
      const char* name = name_of(value & 0170000, argument.words);
      return name != nullptr ? std::string(name) + "|" + octal(value & 07777) : octal(value & 0xffffffff);
    }
    case How::number: return std::to_string(static_cast<int32_t>(value));
  }
  return "";
}

}  // namespace

std::string describe_call(std::string_view call, std::span<const uint64_t, 6> arguments) {
  std::string text;
  for (const Argument& argument : kArguments) {
    if (call != argument.call) continue;
    text += (text.empty() ? "" : ", ") + argument_text(argument, arguments[argument.index]);
  }
  return std::string(call) + "(" + text + ")";
}

}  // namespace sbx::seccomp

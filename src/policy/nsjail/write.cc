#include "policy/nsjail/write.h"

#include <algorithm>

#include "base/text.h"
#include "policy/kafel/write.h"
#include "policy/syscall_groups.h"

namespace sbx::nsjail {
namespace {

constexpr uint64_t kMega = uint64_t{1} << 20;

// A literal of protobuf's text format.
std::string literal(std::string_view bytes) {
  std::string text = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += std::string("\\") + c;
    } else if (c == '\n') {
      text += "\\n";
    } else if (byte < 0x20 || byte >= 0x7f) {
      text += {'\\', static_cast<char>('0' + (byte >> 6)), static_cast<char>('0' + ((byte >> 3) & 7)), static_cast<char>('0' + (byte & 7))};
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string octal(uint32_t mode) {
  std::string digits;
  for (; mode != 0; mode /= 8) digits.insert(digits.begin(), static_cast<char>('0' + mode % 8));
  return digits.empty() ? "0" : digits;
}

class Writer {
 public:
  Writer(const SandboxSpec& spec, const WriteInput& input) : spec_(spec), input_(input) {}

  WrittenPolicy write() {
    written_.text = "# Written by sbx policy convert.\n";
    field("mode", "ONCE");
    if (spec_.namespaces.uts) field("hostname", literal(spec_.hostname));
    field("cwd", literal(spec_.working_directory));
    const auto flag = [&](const char* name, bool value) {
      if (!value) field(name, "false");
    };
    flag("clone_newnet", spec_.net == NetMode::none);
    flag("clone_newipc", spec_.namespaces.ipc);
    flag("clone_newuts", spec_.namespaces.uts);
    flag("clone_newcgroup", spec_.namespaces.cgroup);
    field("uidmap", "{ inside_id: \"" + std::to_string(spec_.identity.uid) + "\" }");
    field("gidmap", "{ inside_id: \"" + std::to_string(spec_.identity.gid) + "\" }");
    if (!spec_.new_session) field("skip_setsid", "true");
    for (const std::string& capability : spec_.hardening.keep_capabilities) {
      std::string upper = capability;
      for (char& c : upper)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
      field("cap", literal(upper));
    }
    for (const std::string& variable : spec_.environment) {
      const std::string name = variable.substr(0, variable.find('='));
      field("envar", literal(input_.passed.contains(name) ? name : variable));
    }
    limits();
    for (const FsOp& op : spec_.fs) {
      // What tells of the processors follows from the limit, and a reader of sbx's makes it again.
      const bool of_limit = std::visit([](const auto& each) { return path_is_under(each.target, "/sys"); }, op);
      if (!is_of_sbx(op) && !of_limit) std::visit([&](const auto& each) { mount(each); }, op);
    }
    seccomp();
    rest();
    return std::move(written_);
  }

 private:
  void field(const char* name, const std::string& value) { written_.text += std::string(name) + (value.front() == '{' ? " " : ": ") + value + "\n"; }
  void unsaid(const std::string& key, const std::string& what) {
    const auto origin = spec_.origins.find(key);
    written_.unsaid.push_back({origin == spec_.origins.end() ? "" : origin->second, what});
  }

  // Whole units, upwards; what is lost is said.
  uint64_t whole(uint64_t value, uint64_t unit, const char* key, const std::string& shown, const char* unit_name) {
    if (value % unit != 0) unsaid(key, std::string(key) + " " + shown + ": nsjail counts whole " + unit_name + ", so it is rounded up");
    return value / unit + (value % unit != 0 ? 1 : 0);
  }

  void limits() {
    const Limits& limits = spec_.limits;
    field("time_limit", limits.wall ? std::to_string(whole(static_cast<uint64_t>(limits.wall->value), 1000, "limits.time", format_duration(*limits.wall), "seconds")) : "0");
    // sbx holds the memory of all together; an address space is no memory.
    field("rlimit_as_type", "INF");
    if (limits.cpu_time) {
      field("rlimit_cpu", std::to_string(whole(static_cast<uint64_t>(limits.cpu_time->value), 1000, "limits.cpu_time", format_duration(*limits.cpu_time), "seconds")));
      unsaid("limits.cpu_time", "limits.cpu_time " + format_duration(*limits.cpu_time) + " for all processes together: nsjail's rlimit_cpu is for each");
    } else {
      field("rlimit_cpu_type", "INF");
    }
    if (limits.file_size) field("rlimit_fsize", std::to_string(whole(limits.file_size->value, kMega, "limits.file_size", format_size(*limits.file_size), "MiB")));
    else field("rlimit_fsize_type", "INF");
    if (limits.open_files) field("rlimit_nofile", std::to_string(*limits.open_files));
    else field("rlimit_nofile_type", "INF");
    const bool cgroup = limits.memory || limits.pids || limits.cpus_milli;
    if (cgroup) field("detect_cgroupv2", "true");
    if (limits.memory) {
      field("cgroup_mem_max", std::to_string(limits.memory->value));
      field("cgroup_mem_swap_max", "0");
    }
    if (limits.pids) field("cgroup_pids_max", std::to_string(*limits.pids));
    if (limits.cpus_milli) {
      field("cgroup_cpu_ms_per_sec", std::to_string(*limits.cpus_milli));
      unsaid("limits.cpus", "a /sys that shows as many processors as limits.cpus has: nsjail's jails have none");
    }
  }

  void entry(std::initializer_list<std::pair<const char*, std::string>> fields) {
    written_.text += "mount {";
    for (const auto& [name, value] : fields)
      if (!value.empty()) written_.text += std::string(" ") + name + ": " + value;
    written_.text += " }\n";
  }
  void mount(const BindOp& op) {
    entry({{"src", literal(op.source)}, {"dst", literal(op.target)}, {"is_bind", "true"}, {"rw", op.read_only ? "" : "true"},
           {"mandatory", op.optional ? "false" : ""}, {"nosuid", "true"}, {"nodev", op.devices ? "" : "true"}, {"noexec", op.no_exec ? "true" : ""}});
  }
  void memory(const std::string& target, const std::string& options) {
    entry({{"dst", literal(target)}, {"fstype", "\"tmpfs\""}, {"options", literal(options)}, {"rw", "true"}, {"nosuid", "true"}, {"nodev", "true"}});
  }
  void mount(const TmpfsOp& op) {
    memory(op.target, "size=" + std::to_string(op.size.value) + ",nr_inodes=" + std::to_string(op.inodes) + ",mode=" + octal(op.mode));
  }
  void mount(const PrivateDirOp& op) {
    ++private_places_;
    memory(op.target, "size=" + std::to_string(spec_.limits.disk.value) + ",nr_inodes=" + std::to_string(spec_.limits.inodes) + ",mode=" + octal(op.mode));
  }
  void mount(const DirOp& op) { entry({{"dst", literal(op.target)}, {"fstype", "\"tmpfs\""}, {"options", "\"size=4096\""}}); }
  void mount(const SymlinkOp& op) { entry({{"src", literal(op.text)}, {"dst", literal(op.target)}, {"is_symlink", "true"}}); }
  void mount(const FileOp& op) {
    if (input_.is_on_host(op)) return mount(BindOp{.source = op.target, .target = op.target});
    entry({{"dst", literal(op.target)}, {"src_content", literal(op.content)}});
  }
  void mount(const CopyFdOp& op) { no_word(op.target, "a file from a descriptor"); }
  void mount(const ProcOp& op) {
    entry({{"dst", literal(op.target)}, {"fstype", "\"proc\""}});
    if (op.subset_pid) unsaid("hardening.proc", "hardening.proc \"processes\": nsjail's /proc shows the kernel's entries as well");
  }
  void mount(const DevOp& op) {
    memory(op.target, "size=65536,mode=755");
    for (const char* device : {"null", "zero", "full", "random", "urandom"}) {
      const std::string path = op.target + "/" + device;
      entry({{"src", literal(path)}, {"dst", literal(path)}, {"is_bind", "true"}, {"rw", "true"}});
    }
    entry({{"src", "\"/proc/self/fd\""}, {"dst", literal(op.target + "/fd")}, {"is_symlink", "true"}});
  }
  void mount(const OverlayOp& op) {
    written_.unsaid.push_back({op.origin, quoted_path(op.target) + " as an overlay: nsjail has none"});
  }
  void mount(const ReadOnlyOp& op) { no_word(op.target, "made read-only"); }
  void mount(const PinOp& op) { no_word(op.target, "pinned in its place"); }
  void no_word(const std::string& target, const std::string& what) { written_.unsaid.push_back({"", quoted_path(target) + ": " + what + ", for which nsjail has no word"}); }

  void seccomp() {
    if (!spec_.seccomp.enabled) return;
    const Result<SyscallRules> shipped = spec_.seccomp.builtin.empty() ? Result<SyscallRules>(spec_.seccomp.rules) : builtin_syscall_rules(spec_.seccomp.builtin);
    if (!shipped.ok()) return unsaid("seccomp.policy", "the filter: " + shipped.error().text());
    WrittenPolicy kafel = kafel::write(shipped.value());
    std::move(kafel.unsaid.begin(), kafel.unsaid.end(), std::back_inserter(written_.unsaid));
    for (const std::string& line : split(kafel.text, '\n'))
      if (!line.empty()) field("seccomp_string", literal(line));
  }

  void rest() {
    const Limits& limits = spec_.limits;
    const auto limit = [&](const char* key, const std::string& value, const char* why) { unsaid(key, std::string(key) + " " + value + ": " + why); };
    if (private_places_ > 1) limit("limits.disk", format_size(limits.disk) + " over all private places together", "in nsjail each of them may hold as much");
    if (limits.io) limit("limits.io", format_size(*limits.io), "nsjail does not limit it");
    if (limits.output) limit("limits.output", format_size(*limits.output), "nsjail does not count output");
    if (!spec_.read_only_root) unsaid("fs.read_only_root", "a writable root: nsjail has a flag for it, --rw, and no field");
    if (spec_.hardening.landlock) unsaid("hardening.landlock", "Landlock: nsjail does not use it");
    if (spec_.hardening.writable_noexec) unsaid("hardening.writable_noexec", "hardening.writable_noexec: nsjail's writable places execute unless each says noexec");
    if (!spec_.hardening.nested_userns) unsaid("hardening.nested_userns", "no nested user namespaces: in nsjail the filter alone refuses them");
  }

  const SandboxSpec& spec_;
  const WriteInput& input_;
  WrittenPolicy written_;
  unsigned private_places_ = 0;
};

}  // namespace

WrittenPolicy write(const SandboxSpec& spec, const WriteInput& input) { return Writer(spec, input).write(); }

}  // namespace sbx::nsjail

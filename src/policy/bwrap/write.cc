#include "policy/bwrap/write.h"

#include <algorithm>

#include "base/text.h"
#include "policy/layer.h"

namespace sbx::bwrap {
namespace {

std::string octal(uint32_t mode) {
  std::string digits;
  for (; mode != 0; mode /= 8) digits.insert(digits.begin(), static_cast<char>('0' + mode % 8));
  return "0" + digits;
}

class Writer {
 public:
  Writer(const SandboxSpec& spec, const WriteInput& input) : spec_(spec), input_(input) {}

  WrittenPolicy write() {
    written_.text = "# Written by sbx policy convert.\n";
    isolation();
    line("--clearenv");
    for (const std::string& variable : spec_.environment) {
      const size_t equals = variable.find('=');
      const std::string name = variable.substr(0, equals);
      if (input_.passed.contains(name)) {
        unsaid("env.pass", "the caller's " + name + ": after --clearenv bwrap takes none over; --setenv " + name + " \"$" + name + "\" where it is called");
        continue;
      }
      line("--setenv", {variable.substr(0, equals), variable.substr(equals + 1)});
    }
    for (const std::string& capability : spec_.hardening.keep_capabilities) {
      std::string upper = capability;
      for (char& c : upper)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
      line("--cap-add", {upper});
    }
    for (const FsOp& op : spec_.fs)
      if (!is_of_sbx(op)) std::visit([&](const auto& each) { operation(each); }, op);
    if (spec_.read_only_root) line("--remount-ro", {"/"});
    line("--chdir", {spec_.working_directory});
    rest();
    return std::move(written_);
  }

 private:
  void line(const char* option, const std::vector<std::string>& words = {}) {
    written_.text += option;
    for (const std::string& word : words) written_.text += " " + shell_quote(word);
    written_.text += "\n";
  }
  void unsaid(const std::string& key, const std::string& what) {
    const auto origin = spec_.origins.find(key);
    written_.unsaid.push_back({origin == spec_.origins.end() ? "" : origin->second, what});
  }

  void isolation() {
    line("--unshare-user");
    if (!spec_.hardening.nested_userns) line("--disable-userns");
    line("--unshare-pid");
    if (spec_.namespaces.ipc) line("--unshare-ipc");
    if (spec_.namespaces.uts) {
      line("--unshare-uts");
      line("--hostname", {spec_.hostname});
    }
    if (spec_.namespaces.cgroup) line("--unshare-cgroup");
    if (spec_.net == NetMode::none) line("--unshare-net");
    line("--uid", {std::to_string(spec_.identity.uid)});
    line("--gid", {std::to_string(spec_.identity.gid)});
    if (spec_.new_session) line("--new-session");
    line("--die-with-parent");
  }

  void operation(const BindOp& op) {
    std::string option = op.devices ? "--dev-bind" : op.read_only ? "--ro-bind" : "--bind";
    if (op.optional) option += "-try";
    line(option.c_str(), {op.source, op.target});
    if (op.no_exec) written_.unsaid.push_back({op.origin, "no_exec of " + quoted_path(op.target) + ": bwrap's mounts execute"});
    if (op.devices && op.read_only) written_.unsaid.push_back({op.origin, quoted_path(op.target) + " read-only: bwrap's --dev-bind is writable"});
  }
  void operation(const TmpfsOp& op) {
    written_.text += "--perms " + octal(op.mode) + " --size " + std::to_string(op.size.value) + " ";
    line("--tmpfs", {op.target});
  }
  void operation(const PrivateDirOp& op) {
    written_.text += "--perms " + octal(op.mode) + " ";
    line("--tmpfs", {op.target});
  }
  void operation(const DirOp& op) {
    written_.text += "--perms " + octal(op.mode) + " ";
    line("--dir", {op.target});
  }
  void operation(const SymlinkOp& op) { line("--symlink", {op.text, op.target}); }
  void operation(const FileOp& op) {
    if (input_.is_on_host(op)) line("--ro-bind", {op.target, op.target});
    else contents_.push_back(op.target);
  }
  void operation(const CopyFdOp& op) { contents_.push_back(op.target); }
  void operation(const ProcOp& op) {
    line("--proc", {op.target});
    if (op.subset_pid) unsaid("hardening.proc", "hardening.proc \"processes\": bwrap's --proc shows the kernel's entries as well");
  }
  void operation(const DevOp& op) { line("--dev", {op.target}); }
  void operation(const OverlayOp& op) {
    written_.text += "--overlay-src " + shell_quote(op.lower) + " ";
    line("--tmp-overlay", {op.target});
  }
  void operation(const ReadOnlyOp& op) { line("--remount-ro", {op.target}); }
  void operation(const PinOp& op) { written_.unsaid.push_back({"", quoted_path(op.target) + " pinned in its place: bwrap has no such option"}); }

  void rest() {
    if (!contents_.empty())
      written_.unsaid.push_back({"", "files with a content of their own, " + join(contents_, ", ") + ": bwrap takes contents from descriptors, --ro-bind-data FD DEST"});
    const Limits& limits = spec_.limits;
    const auto limit = [&](const char* key, const std::string& value) { unsaid(key, std::string(key) + " " + value + ": bwrap limits nothing"); };
    if (limits.wall) limit("limits.time", format_duration(*limits.wall));
    if (limits.cpu_time) limit("limits.cpu_time", format_duration(*limits.cpu_time));
    if (limits.memory) limit("limits.memory", format_size(*limits.memory));
    if (limits.pids) limit("limits.pids", std::to_string(*limits.pids));
    if (limits.cpus_milli) limit("limits.cpus", format_value(*find_key("limits.cpus"), *limits.cpus_milli));
    if (limits.io) limit("limits.io", format_size(*limits.io));
    limit("limits.disk", format_size(limits.disk));
    limit("limits.inodes", std::to_string(limits.inodes));
    if (limits.file_size) limit("limits.file_size", format_size(*limits.file_size));
    if (limits.open_files) limit("limits.open_files", std::to_string(*limits.open_files));
    if (limits.output) limit("limits.output", format_size(*limits.output));
    if (spec_.seccomp.enabled)
      unsaid("seccomp.policy", "the filter " + (spec_.seccomp.builtin.empty() ? "of this policy's own" : quoted(spec_.seccomp.builtin)) +
                                   ": bwrap takes it from a descriptor, --seccomp FD; sbx policy show --bpf FILE writes it");
    if (spec_.hardening.landlock) unsaid("hardening.landlock", "Landlock: bwrap does not use it");
    if (spec_.hardening.writable_noexec) unsaid("hardening.writable_noexec", "hardening.writable_noexec: bwrap's writable places execute");
  }

  const SandboxSpec& spec_;
  const WriteInput& input_;
  WrittenPolicy written_;
  std::vector<std::string> contents_;
};

}  // namespace

WrittenPolicy write(const SandboxSpec& spec, const WriteInput& input) { return Writer(spec, input).write(); }

}  // namespace sbx::bwrap

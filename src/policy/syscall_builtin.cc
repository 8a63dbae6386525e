#include "base/text.h"
#include "policy/loader.h"
#include "policy/syscall_groups.h"

// The shipped texts, as they are embedded in the binary.
namespace sbx {
namespace {

constexpr const char* kFolder = "policies/seccomp";
constexpr const char* kGroups = "policies/seccomp/groups.toml";

Result<std::string_view> groups_text() {
  const std::string_view* text = embedded_file(kGroups);
  if (text == nullptr) return Error(ErrorKind::internal, std::string("\"") + kGroups + "\" is not embedded in this binary");
  return *text;
}

Error no_such(const std::string& what, const std::string& name, const std::vector<std::string>& known) {
  Error error(ErrorKind::policy, "there is no " + what + " \"" + printable(name) + "\"");
  const std::string near = did_you_mean(name, known);
  if (near.empty()) return std::move(error).with_hint("known: " + join(known, ", "));
  return std::move(error).with_hint("did you mean \"" + near + "\"?");
}

}  // namespace

Result<SyscallRules> builtin_syscall_rules(const std::string& policy) {
  std::vector<std::string> known;
  for (const std::string& path : embedded_files(kFolder)) {
    const std::string file = base_name(path);
    if (file == "groups.toml" || !file.ends_with(".toml")) continue;
    known.push_back(file.substr(0, file.size() - 5));
  }
  // Only whole names of the folder: a policy name never reaches into another one.
  const std::string_view* text = nullptr;
  for (const std::string& name : known)
    if (name == policy) text = embedded_file(std::string(kFolder) + "/" + name + ".toml");
  if (text == nullptr) return no_such("system call policy", policy, known);
  const std::string_view groups = SBX_TRY(groups_text());
  return parse_syscall_policy(*text, policy + ".toml", groups);
}

Result<std::vector<SyscallGroup>> builtin_syscall_groups() {
  const std::string_view text = SBX_TRY(groups_text());
  return parse_syscall_groups(text, "groups.toml");
}

Result<std::vector<std::string>> syscall_group(const std::string& group) {
  std::vector<std::string> known;
  for (SyscallGroup& candidate : SBX_TRY(builtin_syscall_groups())) {
    if (candidate.name == group) return std::move(candidate.calls);
    known.push_back(candidate.name);
  }
  return no_such("group of system calls", group, known);
}

}  // namespace sbx

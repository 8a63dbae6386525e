#include "policy/nsjail/flags.h"

#include <getopt.h>

#include <cstring>

#include "base/text.h"
#include "policy/nsjail/read.h"
#include "policy/nsjail/schema.h"

namespace sbx::nsjail {
namespace {

using K = FlagKind;
constexpr Flag kFlags[] = {
    {"help", 'h', K::special, nullptr, "", "this text"},
    {"mode", 'M', K::special, "l|o|r|e", "mode", "LISTEN, ONCE, RERUN or EXECVE; the first letter decides"},
    {"config", 'C', K::special, "file", "", "configuration, text format or JSON; takes the place of what flags before it have set"},
    {"exec_file", 'x', K::special, "path", "exec_bin.path", "what is executed; else the first word after --"},
    {"execute_fd", '\0', K::special, nullptr, "exec_bin.exec_fd", "open it before the jail is made, and execute it by descriptor"},
    {"chroot", 'c', K::special, "dir", "", "directory that is / inside; read-only without --rw"},
    {"no_pivotroot", '\0', K::set_true, nullptr, "no_pivotroot", nullptr},
    {"rw", '\0', K::special, nullptr, "", "/ is writable"},
    {"user", 'u', K::id_map, "in[:out[:count]]", "uidmap", "user inside, and who it is outside; repeatable"},
    {"group", 'g', K::id_map, "in[:out[:count]]", "gidmap", "group, likewise"},
    {"hostname", 'H', K::set_text, "name", "hostname", nullptr},
    {"cwd", 'D', K::set_text, "dir", "cwd", nullptr},
    {"port", 'p', K::special, "n", "port", "TCP port; the mode becomes LISTEN"},
    {"bindhost", '\0', K::set_text, "address", "bindhost", nullptr},
    {"max_conns", '\0', K::set_number, "n", "max_conns", nullptr},
    {"max_conns_per_ip", 'i', K::set_number, "n", "max_conns_per_ip", nullptr},
    {"log", 'l', K::special, "file", "log_file", nullptr},
    {"log_fd", 'L', K::special, "n", "log_fd", nullptr},
    {"time_limit", 't', K::set_number, "seconds", "time_limit", nullptr},
    {"max_cpus", '\0', K::set_number, "n", "max_cpus", nullptr},
    {"daemon", 'd', K::set_true, nullptr, "daemon", nullptr},
    {"verbose", 'v', K::special, nullptr, "log_level", "log everything"},
    {"quiet", 'q', K::special, nullptr, "log_level", "log warnings and worse"},
    {"really_quiet", 'Q', K::special, nullptr, "log_level", "log fatal errors only"},
    {"keep_env", 'e', K::set_true, nullptr, "keep_env", nullptr},
    {"env", 'E', K::add_text, "name[=value]", "envar", "variable for the program; without a value the caller's; repeatable"},
    {"keep_caps", '\0', K::set_true, nullptr, "keep_caps", nullptr},
    {"cap", '\0', K::add_text, "CAP_x", "cap", "keep this capability; repeatable"},
    {"silent", '\0', K::set_true, nullptr, "silent", nullptr},
    {"stderr_to_null", '\0', K::set_true, nullptr, "stderr_to_null", nullptr},
    {"skip_setsid", '\0', K::set_true, nullptr, "skip_setsid", nullptr},
    {"pass_fd", '\0', K::add_number, "n", "pass_fd", "descriptor that stays open; repeatable"},
    {"disable_no_new_privs", '\0', K::set_true, nullptr, "disable_no_new_privs", nullptr},
    {"forward_signals", '\0', K::set_true, nullptr, "forward_signals", nullptr},
    {"disable_tsc", '\0', K::set_true, nullptr, "disable_tsc", nullptr},
    {"use_core_scheduling", '\0', K::set_true, nullptr, "use_core_scheduling", nullptr},
    {"oom_score_adj", '\0', K::set_number, "n", "oom_score_adj", nullptr},
    {"nice_level", '\0', K::set_number, "n", "nice_level", nullptr},
    {"rlimit_as", '\0', K::rlimit, "limit", "rlimit_as", "address space, MiB; or soft (def), hard (max): the caller's own limit, or inf"},
    {"rlimit_core", '\0', K::rlimit, "limit", "rlimit_core", "core file, MiB, or a word as above"},
    {"rlimit_cpu", '\0', K::rlimit, "limit", "rlimit_cpu", "CPU seconds, or a word as above"},
    {"rlimit_fsize", '\0', K::rlimit, "limit", "rlimit_fsize", "size of a file, MiB, or a word as above"},
    {"rlimit_nofile", '\0', K::rlimit, "limit", "rlimit_nofile", "open files, or a word as above"},
    {"rlimit_nproc", '\0', K::rlimit, "limit", "rlimit_nproc", "processes of the user, or a word as above"},
    {"rlimit_stack", '\0', K::rlimit, "limit", "rlimit_stack", "stack, MiB, or a word as above"},
    {"rlimit_memlock", '\0', K::rlimit, "limit", "rlimit_memlock", "locked memory, KiB, or a word as above"},
    {"rlimit_rtprio", '\0', K::rlimit, "limit", "rlimit_rtprio", "real-time priority, or a word as above"},
    {"rlimit_msgqueue", '\0', K::rlimit, "limit", "rlimit_msgqueue", "message queues, bytes, or a word as above"},
    {"disable_rlimits", '\0', K::set_true, nullptr, "disable_rl", nullptr},
    {"persona_addr_compat_layout", '\0', K::set_true, nullptr, "persona_addr_compat_layout", nullptr},
    {"persona_mmap_page_zero", '\0', K::set_true, nullptr, "persona_mmap_page_zero", nullptr},
    {"persona_read_implies_exec", '\0', K::set_true, nullptr, "persona_read_implies_exec", nullptr},
    {"persona_addr_limit_3gb", '\0', K::set_true, nullptr, "persona_addr_limit_3gb", nullptr},
    {"persona_addr_no_randomize", '\0', K::set_true, nullptr, "persona_addr_no_randomize", nullptr},
    {"disable_clone_newnet", 'N', K::set_false, nullptr, "clone_newnet", "the host's network"},
    {"disable_clone_newuser", '\0', K::set_false, nullptr, "clone_newuser", "no user namespace; needs root"},
    {"disable_clone_newns", '\0', K::set_false, nullptr, "clone_newns", "the host's view of files"},
    {"disable_clone_newpid", '\0', K::set_false, nullptr, "clone_newpid", "the host's process numbers"},
    {"disable_clone_newipc", '\0', K::set_false, nullptr, "clone_newipc", "the host's IPC"},
    {"disable_clone_newuts", '\0', K::set_false, nullptr, "clone_newuts", "the host's name"},
    {"disable_clone_newcgroup", '\0', K::set_false, nullptr, "clone_newcgroup", "the host's cgroup namespace"},
    {"enable_clone_newtime", '\0', K::set_true, nullptr, "clone_newtime", nullptr},
    {"uid_mapping", 'U', K::id_map, "in:out:count", "uidmap", "as --user, written by newuidmap"},
    {"gid_mapping", 'G', K::id_map, "in:out:count", "gidmap", "as --group, written by newgidmap"},
    {"bindmount_ro", 'R', K::special, "src[:dst]", "mount", "show a tree of the host, read-only; repeatable"},
    {"bindmount", 'B', K::special, "src[:dst]", "mount", "show a tree of the host, writable; repeatable"},
    {"tmpfsmount", 'T', K::special, "dst", "mount", "a writable tmpfs of 4 MiB; repeatable"},
    {"mount", 'm', K::special, "src:dst:type:options", "mount", "any file system, writable; repeatable"},
    {"symlink", 's', K::special, "text:dst", "mount", "a symbolic link; repeatable"},
    {"disable_proc", '\0', K::special, nullptr, "mount_proc", "no /proc"},
    {"proc_path", '\0', K::special, "dir", "mount_proc", "where proc is mounted instead of /proc"},
    {"proc_rw", '\0', K::special, nullptr, "", "proc is writable"},
    {"experimental_mnt", '\0', K::special, "new|old|auto", "", "accepted: there is one way to mount here"},
    {"seccomp_policy", 'P', K::set_text, "file", "seccomp_policy_file", nullptr},
    {"seccomp_string", '\0', K::add_text, "text", "seccomp_string", "a Kafel policy; repeatable, the texts are joined"},
    {"seccomp_log", '\0', K::set_true, nullptr, "seccomp_log", nullptr},
    {"seccomp_unotify", '\0', K::set_true, nullptr, "seccomp_unotify", nullptr},
    {"seccomp_unotify_report", '\0', K::set_text, "file", "seccomp_unotify_report", nullptr},
    {"cgroup_mem_max", '\0', K::set_number, "bytes", "cgroup_mem_max", nullptr},
    {"cgroup_mem_memsw_max", '\0', K::set_number, "bytes", "cgroup_mem_memsw_max", nullptr},
    {"cgroup_mem_swap_max", '\0', K::set_number, "bytes", "cgroup_mem_swap_max", nullptr},
    {"cgroup_mem_mount", '\0', K::set_text, "dir", "cgroup_mem_mount", nullptr},
    {"cgroup_mem_parent", '\0', K::set_text, "name", "cgroup_mem_parent", nullptr},
    {"cgroup_pids_max", '\0', K::set_number, "n", "cgroup_pids_max", nullptr},
    {"cgroup_pids_mount", '\0', K::set_text, "dir", "cgroup_pids_mount", nullptr},
    {"cgroup_pids_parent", '\0', K::set_text, "name", "cgroup_pids_parent", nullptr},
    {"cgroup_net_cls_classid", '\0', K::set_number, "n", "cgroup_net_cls_classid", nullptr},
    {"cgroup_net_cls_mount", '\0', K::set_text, "dir", "cgroup_net_cls_mount", nullptr},
    {"cgroup_net_cls_parent", '\0', K::set_text, "name", "cgroup_net_cls_parent", nullptr},
    {"cgroup_cpu_ms_per_sec", '\0', K::set_number, "ms", "cgroup_cpu_ms_per_sec", nullptr},
    {"cgroup_cpu_mount", '\0', K::set_text, "dir", "cgroup_cpu_mount", nullptr},
    {"cgroup_cpu_parent", '\0', K::set_text, "name", "cgroup_cpu_parent", nullptr},
    {"cgroupv2_mount", '\0', K::set_text, "dir", "cgroupv2_mount", nullptr},
    {"use_cgroupv2", '\0', K::set_true, nullptr, "use_cgroupv2", nullptr},
    {"detect_cgroupv2", '\0', K::set_true, nullptr, "detect_cgroupv2", nullptr},
    {"iface_no_lo", '\0', K::set_true, nullptr, "iface_no_lo", nullptr},
    {"iface_own", '\0', K::add_text, "interface", "iface_own", nullptr},
    {"macvlan_iface", 'I', K::set_text, "interface", "macvlan_iface", nullptr},
    {"macvlan_vs_ip", '\0', K::set_text, "address", "macvlan_vs_ip", nullptr},
    {"macvlan_vs_nm", '\0', K::set_text, "mask", "macvlan_vs_nm", nullptr},
    {"macvlan_vs_gw", '\0', K::set_text, "address", "macvlan_vs_gw", nullptr},
    {"macvlan_vs_ma", '\0', K::set_text, "address", "macvlan_vs_ma", nullptr},
    {"macvlan_vs_mo", '\0', K::set_text, "mode", "macvlan_vs_mo", nullptr},
    {"user_net", '\0', K::special, nullptr, "user_net", nullptr},
    {"use_pasta", '\0', K::special, nullptr, "user_net", nullptr},
};

// Decimal, 0x or 0: as the kernel's and C's own tools read numbers; anything else is refused.
Result<Number> flag_number(std::string_view text) {
  Number number;
  std::string_view digits = text;
  if (digits.starts_with('-')) {
    number.negative = true;
    digits.remove_prefix(1);
  }
  uint64_t base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    base = digits[1] == 'x' || digits[1] == 'X' ? 16 : 8;
    digits.remove_prefix(base == 16 ? 2 : 1);
  }
  if (digits.empty()) return Error(ErrorKind::usage, "no number: " + quoted(text));
  for (const char c : digits) {
    const uint64_t digit = c >= '0' && c <= '9'   ? static_cast<uint64_t>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<uint64_t>(c - 'a') + 10
                           : c >= 'A' && c <= 'F' ? static_cast<uint64_t>(c - 'A') + 10
                                                  : 99;
    if (digit >= base) return Error(ErrorKind::usage, "no number: " + quoted(text));
    if (number.magnitude > (~uint64_t{0} - digit) / base) return Error(ErrorKind::usage, "the number is too large: " + quoted(text));
    number.magnitude = number.magnitude * base + digit;
  }
  return number;
}

bool same_word(std::string_view text, std::string_view word) {
  return text.size() == word.size() && ::strncasecmp(text.data(), word.data(), word.size()) == 0;
}

class Reader {
 public:
  Reader(const std::function<Result<Config>(const std::string&)>& read) : read_(read) {
    // Without -C, and only then, proc is mounted by itself.
    line_.config.mount_proc = true;
  }

  Result<CommandLine> all(const std::vector<std::string>& words) {
    std::vector<std::string> copies{"nsjail"};
    copies.insert(copies.end(), words.begin(), words.end());
    std::vector<char*> pointers;
    pointers.reserve(copies.size() + 1);
    for (std::string& word : copies) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const int count = static_cast<int>(copies.size());
    std::vector<option> options;
    std::string letters = ":?";
    for (size_t i = 0; i < std::size(kFlags); ++i) {
      const Flag& flag = kFlags[i];
      const bool takes = flag.value != nullptr;
      options.push_back({flag.name, takes ? required_argument : no_argument, nullptr, static_cast<int>(256 + i)});
      if (flag.letter == '\0') continue;
      letters += flag.letter;
      if (takes) letters += ':';
    }
    options.push_back({});
    opterr = 0;
    optind = 0;  // from the beginning, whoever has called it before
    for (;;) {
      const int found = ::getopt_long(count, pointers.data(), letters.c_str(), options.data(), nullptr);
      if (found < 0) break;
      if (found == '?' || found == ':') {
        const std::string shown = optopt >= 256 ? std::string("--") + kFlags[optopt - 256].name
                                  : optopt > 0  ? std::string("-") + static_cast<char>(optopt)
                                                : pointers[static_cast<size_t>(std::max(1, optind - 1))];
        if (shown == "-?") {
          line_.help = true;
          return std::move(line_);
        }
        return wrong_option(found, shown);
      }
      const Flag* flag = nullptr;
      if (found >= 256) flag = &kFlags[found - 256];
      for (const Flag& row : kFlags)
        if (found < 256 && row.letter == static_cast<char>(found)) flag = &row;
      origin_ = std::string("flag --") + flag->name;
      Status done = apply(*flag, optarg == nullptr ? "" : optarg);
      if (!done.ok()) {
        Error error = done.take_error();
        return error.origin().empty() ? std::move(error).with_origin(origin_) : error;
      }
      if (line_.help) return std::move(line_);
    }
    for (int i = optind; i < count; ++i) line_.argv.emplace_back(pointers[static_cast<size_t>(i)]);
    return std::move(line_);
  }

 private:
  Error wrong_option(int found, const std::string& shown) const {
    if (found == ':') return Error(ErrorKind::usage, "a value is missing").with_origin("flag " + shown);
    std::vector<std::string> names;
    for (const Flag& flag : kFlags) names.push_back(std::string("--") + flag.name);
    const std::string near = did_you_mean(shown.substr(0, shown.find('=')), names);
    return Error(ErrorKind::usage, "unknown option or one that is not clear, or a value where none belongs: '" + printable(shown) + "'")
        .with_hint(near.empty() ? "--help lists the options; the program's own follow --" : "did you mean " + near + "?");
  }

  void* slot(const Schema& schema, void* message, const char* name) {
    const Field* field = schema.find(name);
    std::vector<std::string>& origins = schema.origins(message).of[name];
    if (field->label != Label::repeated) origins.clear();
    origins.push_back(origin_);
    return field->slot(message);
  }
  void* slot(const char* name) { return slot(config_schema(), &line_.config, name); }
  template <typename T>
  void set(const char* name, T value) {
    *static_cast<T*>(slot(name)) = std::move(value);
  }
  Status set_number(const char* name, const std::string& text) {
    const Number number = SBX_TRY(flag_number(text));
    Status stored = store_number(*config_schema().find(name), number, slot(name));
    if (stored.ok()) return stored;
    return Error(ErrorKind::usage, "takes " + expected(*config_schema().find(name)) + ", not " + quoted(text));
  }
  void set_choice(const char* name, int32_t number) { std::memcpy(slot(name), &number, sizeof number); }

  Exe& exe() {
    if (!line_.config.exec_bin) slot("exec_bin");
    return *line_.config.exec_bin;
  }

  Status apply(const Flag& flag, const std::string& value) {
    switch (flag.kind) {
      case K::set_true: set(flag.field, true); return {};
      case K::set_false: set(flag.field, false); return {};
      case K::set_text:
      case K::add_text: set(flag.field, value); return {};
      case K::set_number:
      case K::add_number: return set_number(flag.field, value);
      case K::rlimit: return rlimit(flag.field, value);
      case K::id_map: return id_map(flag, value);
      case K::special: break;
    }
    return special(flag, value);
  }

  Status rlimit(const std::string& name, const std::string& value) {
    RlimitType type = RlimitType::value;
    if (same_word(value, "inf")) type = RlimitType::inf;
    else if (same_word(value, "soft") || same_word(value, "def")) type = RlimitType::soft;
    else if (same_word(value, "hard") || same_word(value, "max")) type = RlimitType::hard;
    const Result<Number> number = flag_number(value);
    if (type == RlimitType::value) {
      if (!number.ok() || number.value().negative) return Error(ErrorKind::usage, "takes a number, or soft, hard or inf, not " + quoted(value));
      SBX_TRY(set_number(name.c_str(), value));
    }
    set_choice((name + "_type").c_str(), static_cast<int32_t>(type));
    return {};
  }

  Status id_map(const Flag& flag, const std::string& value) {
    const std::vector<std::string> parts = split(value, ':');
    auto& map = *static_cast<IdMap*>(slot(flag.field));
    map.inside_id = parts[0];
    if (parts.size() > 1) map.outside_id = parts[1];
    if (parts.size() > 2 && !parts[2].empty()) {
      const Number count = SBX_TRY(flag_number(parts[2]));
      if (!store_number(*config_schema().find("uidmap")->message->find("count"), count, &map.count).ok()) {
        return Error(ErrorKind::usage, "takes a count from 0 to 4294967295, not " + quoted(parts[2]));
      }
      if (map.count == 0) map.count = 1;
    }
    map.use_newidmap = flag.letter == 'U' || flag.letter == 'G';
    return {};
  }

  Mount& mount(const std::string& value, std::vector<std::string>& parts) {
    parts = split(value, ':');
    auto& mount = *static_cast<Mount*>(slot("mount"));
    mount.src = parts[0];
    mount.dst = parts.size() > 1 && !parts[1].empty() ? parts[1] : parts[0];
    return mount;
  }

  Status special(const Flag& flag, const std::string& value) {
    const std::string_view name = flag.name;
    std::vector<std::string> parts;
    if (name == "help") {
      line_.help = true;
    } else if (name == "mode") {
      const size_t letter = value.empty() ? std::string_view::npos : std::string_view("lore").find(value[0]);
      if (letter == std::string_view::npos) return Error(ErrorKind::usage, "takes l (LISTEN), o (ONCE), r (RERUN) or e (EXECVE), not " + quoted(value));
      set_choice("mode", static_cast<int32_t>(letter));
    } else if (name == "config") {
      return config(value);
    } else if (name == "exec_file") {
      exe().path = value;
      exe().origins.of["path"] = {origin_};
    } else if (name == "execute_fd") {
      exe().exec_fd = true;
      exe().origins.of["exec_fd"] = {origin_};
    } else if (name == "chroot") {
      line_.chroot = value;
    } else if (name == "rw") {
      line_.root_rw = true;
    } else if (name == "port") {
      SBX_TRY(set_number("port", value));
      set_choice("mode", static_cast<int32_t>(Mode::listen));
    } else if (name == "log") {
      line_.config.log_fd.reset();
      set("log_file", value);
    } else if (name == "log_fd") {
      line_.config.log_file.reset();
      return set_number("log_fd", value);
    } else if (name == "verbose") {
      set_choice("log_level", static_cast<int32_t>(LogLevel::debug));
    } else if (name == "quiet") {
      set_choice("log_level", static_cast<int32_t>(LogLevel::warning));
    } else if (name == "really_quiet") {
      set_choice("log_level", static_cast<int32_t>(LogLevel::fatal));
    } else if (name == "bindmount_ro" || name == "bindmount") {
      Mount& made = mount(value, parts);
      made.is_bind = true;
      made.rw = name == "bindmount";
      if (made.rw && parts.size() > 2) made.options = parts[2];
    } else if (name == "tmpfsmount") {
      auto& made = *static_cast<Mount*>(slot("mount"));
      made.dst = value;
      made.fstype = "tmpfs";
      made.options = "size=4194304";
      made.rw = true;
      made.is_dir = true;
    } else if (name == "mount") {
      Mount& made = mount(value, parts);
      if (parts.size() > 2) made.fstype = parts[2];
      if (parts.size() > 3) made.options = join(std::span(parts).subspan(3), ":");
      made.rw = true;
    } else if (name == "symlink") {
      Mount& made = mount(value, parts);
      made.is_symlink = true;
      made.rw = true;
    } else if (name == "disable_proc") {
      set("mount_proc", false);
    } else if (name == "proc_path") {
      set("mount_proc", true);
      line_.proc_path = value;
    } else if (name == "proc_rw") {
      line_.proc_rw = true;
    } else if (name == "experimental_mnt") {
      if (!same_word(value, "new") && !same_word(value, "old") && !same_word(value, "auto")) {
        return Error(ErrorKind::usage, "takes new, old or auto, not " + quoted(value));
      }
    } else if (name == "user_net" || name == "use_pasta") {
      static_cast<UserNet*>(slot("user_net"))->enable = true;
    }
    return {};
  }

  // What flags said of a repeated field survives a file; its own entries follow.
  template <typename T>
  void keep(const char* name, std::vector<T> Config::*member, Config& file) const {
    const Config& before = line_.config;
    std::vector<T> values;
    std::vector<std::string> origins;
    for (size_t i = 0; i < (before.*member).size(); ++i) {
      const std::string origin = before.origins.at(name, i);
      if (!starts_with(origin, "flag ")) continue;
      values.push_back((before.*member)[i]);
      origins.push_back(origin);
    }
    if (values.empty()) return;
    std::vector<std::string>& own = file.origins.of[name];
    (file.*member).insert((file.*member).begin(), values.begin(), values.end());
    own.insert(own.begin(), origins.begin(), origins.end());
  }
  template <typename T>
  void keep(const char* name, std::optional<T> Config::*member, Config& file) const {
    if (file.*member || !(line_.config.*member)) return;
    file.*member = line_.config.*member;
    file.origins.of[name] = {line_.config.origins.at(name)};
  }

  Status config(const std::string& path) {
    Config file = SBX_TRY(read_(path));
    keep("uidmap", &Config::uidmap, file);
    keep("gidmap", &Config::gidmap, file);
    keep("pass_fd", &Config::pass_fd, file);
    if (!file.log_file && !file.log_fd) {
      keep("log_file", &Config::log_file, file);
      keep("log_fd", &Config::log_fd, file);
    }
    keep("log_level", &Config::log_level, file);
    line_.config = std::move(file);
    return {};
  }

  const std::function<Result<Config>(const std::string&)>& read_;
  CommandLine line_;
  std::string origin_;
};

}  // namespace

std::span<const Flag> flags() { return kFlags; }

Result<CommandLine> parse_command_line(const std::vector<std::string>& words,
                                       const std::function<Result<Config>(const std::string& path)>& read) {
  return Reader(read).all(words);
}

std::string usage_text(const std::string& program) {
  std::string text = "Usage: " + program + " [options] -- path_to_command [args]\n\nOptions:\n";
  for (const Flag& flag : kFlags) {
    text += std::string(" --") + flag.name + (flag.letter == '\0' ? "" : std::string("|-") + flag.letter);
    if (flag.value != nullptr) text += std::string(" ") + flag.value;
    const Field* field = config_schema().find(flag.field);
    const std::string doc = flag.doc != nullptr ? flag.doc : field->doc;
    const std::string standard = field == nullptr || flag.value == nullptr ? "" : default_text(*field, config_schema());
    const bool refused = field != nullptr && (field->support == Support::refused || field->support == Support::cgroup_v1);
    text += "\n\t" + doc + (standard.empty() ? "" : " (default: " + standard + ")") + (refused ? "; not in this version" : "") + "\n";
  }
  return text +
         "\nExamples:\n"
         " A shell for each connection to port 31337, in a view of the host's files that it cannot change\n"
         "  " + program + " -Ml --port 31337 --chroot / -- /bin/sh -i\n"
         " One command, once\n"
         "  " + program + " -Mo --chroot / -- /bin/echo ABC\n"
         " A configuration; what follows -- replaces its arguments\n"
         "  " + program + " --config jail.cfg -- /bin/echo ABC\n";
}

}  // namespace sbx::nsjail

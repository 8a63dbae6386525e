#include "policy/nsjail/lower.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "policy/kafel/kafel.h"
#include "policy/nsjail/schema.h"

namespace sbx::nsjail {
namespace {

class Lowering {
 public:
  Lowering(const Config& config, const LowerInput& input) : config_(config), input_(input) {}

  Lowered all() {
    out_.layer.name = input_.name;
    refused();
    identity();
    limits();
    environment();
    seccomp();
    for (size_t i = 0; i < config_.mount.size(); ++i) mount(config_.mount[i], config_.origins.at("mount", i));
    other();
    return std::move(out_);
  }

 private:
  // Where a field was said, or that nsjail's default it is.
  std::string origin(std::string_view field) const {
    const std::string said = config_.origins.at(field);
    return said.empty() ? input_.name + ": nsjail's default " + std::string(field) : said;
  }
  void mistake(std::string what, const std::string& from, std::string hint = "") {
    out_.mistakes.push_back(Error(ErrorKind::policy, std::move(what)).with_origin(from).with_hint(std::move(hint)));
  }
  void note(const std::string& what, const std::string& from) { out_.notes.push_back(from + ": note: " + what); }
  void set(const char* path, KeyValue value, std::string_view field) {
    const std::string from = origin(field);
    const KeyRow* row = find_key(path);
    Status fits = std::holds_alternative<Unlimited>(value) ? Status() : check_value(*row, value);
    if (!fits.ok()) return mistake("'" + std::string(field) + "' as " + path + ": " + fits.error().text(), from, fits.error().hint());
    out_.layer.values[path] = {std::move(value), from};
  }

  void refused() {
    for (const Field& field : config_schema().fields) {
      if (field.support != Support::refused || !config_.origins.has(field.name)) continue;
      const void* value = field.read(&config_, 0);
      if (value == nullptr || starts_with(field.name, "macvlan_vs_")) continue;
      if (std::string_view(field.name) == "user_net" && config_.user_net->origins.has("enable") && !config_.user_net->enable) continue;
      if (field.type != FieldType::message && value_text(field, value) == default_text(field, config_schema())) continue;
      mistake(std::string("'") + field.name + "' is not in this version", origin(field.name));
    }
    const auto must = [&](bool good, const char* field, const char* what) {
      if (!good) mistake(std::string("'") + field + "': " + what, origin(field), "sbx nsjail -C runs it as it is");
    };
    must(config_.clone_newuser, "clone_newuser", "a sandbox of sbx always has a user namespace of its own");
    must(config_.clone_newns, "clone_newns", "a sandbox of sbx always has a view of files of its own");
    must(config_.clone_newpid, "clone_newpid", "a sandbox of sbx always has process numbers of its own");
    must(!config_.keep_caps, "keep_caps", "name the capabilities, with cap");
    must(!config_.keep_env, "keep_env", "name the variables, with envar");
    must(!config_.disable_no_new_privs, "disable_no_new_privs", "set-uid programs never gain rights in a sandbox of sbx");
    must(!config_.disable_tsc, "disable_tsc", "sbx leaves the time stamp counter readable");
    must(!config_.use_core_scheduling, "use_core_scheduling", "sbx does not ask for cores of its own");
    must(config_.pass_fd.empty(), "pass_fd", "sbx passes no descriptors but 0, 1 and 2");
    must(!config_.clone_newtime, "clone_newtime", "sbx makes no time namespace");
  }

  void identity() {
    for (const bool group : {false, true}) {
      const std::vector<IdMap>& maps = group ? config_.gidmap : config_.uidmap;
      const char* field = group ? "gidmap" : "uidmap";
      if (maps.empty()) continue;
      if (maps.size() > 1 || maps[0].count > 1 || maps[0].use_newidmap) {
        mistake(std::string("'") + field + "': a sandbox of sbx has one id", origin(field), "sbx nsjail -C runs it as it is");
        continue;
      }
      if (!maps[0].outside_id.empty()) note("sbx chooses the id outside", config_.origins.at(field));
      if (maps[0].inside_id.empty()) continue;
      Result<uint64_t> number = parse_integer(maps[0].inside_id);
      if (!number.ok()) {
        mistake(std::string("'") + field + "': write the id inside as a number", origin(field));
        continue;
      }
      set(group ? "sandbox.gid" : "sandbox.uid", number.take(), field);
    }
    if (config_.clone_newuts) set("sandbox.hostname", config_.hostname, "hostname");
    set("sandbox.uts_namespace", config_.clone_newuts, "clone_newuts");
    set("sandbox.ipc_namespace", config_.clone_newipc, "clone_newipc");
    set("sandbox.cgroup_namespace", config_.clone_newcgroup, "clone_newcgroup");
    set("sandbox.new_session", !config_.skip_setsid, "skip_setsid");
    set("net.mode", std::string(config_.clone_newnet ? "none" : "host"), "clone_newnet");
    std::vector<std::string> capabilities;
    for (const std::string& cap : config_.cap) {
      std::string lower = cap;
      std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      capabilities.push_back(lower);
    }
    set("hardening.capabilities", capabilities, "cap");
  }

  void limits() {
    set("limits.time", config_.time_limit == 0 ? KeyValue(Unlimited{}) : KeyValue(Millis{int64_t{config_.time_limit} * 1000}), "time_limit");
    const auto number = [&](const char* path, const char* field, RlimitType type, KeyValue value) {
      const std::string type_field = std::string(field) + "_type";
      if (config_.disable_rl || type == RlimitType::inf) return set(path, Unlimited{}, config_.disable_rl ? "disable_rl" : type_field);
      if (type == RlimitType::value) return set(path, std::move(value), field);
      // The caller's own limit holds anyway.
      set(path, Unlimited{}, type_field);
    };
    const auto bytes = [](uint64_t count, unsigned shift) { return Bytes{count > (uint64_t{1} << 50 >> shift) ? uint64_t{1} << 50 : count << shift}; };
    number("limits.file_size", "rlimit_fsize", config_.rlimit_fsize_type, bytes(config_.rlimit_fsize, 20));
    number("limits.open_files", "rlimit_nofile", config_.rlimit_nofile_type, config_.rlimit_nofile);
    number("limits.cpu_time", "rlimit_cpu", config_.rlimit_cpu_type, Millis{static_cast<int64_t>(std::min<uint64_t>(config_.rlimit_cpu, 31'622'400)) * 1000});
    if (config_.rlimit_nproc_type == RlimitType::value) set("limits.pids", config_.rlimit_nproc, "rlimit_nproc");
    for (const char* field : {"rlimit_as", "rlimit_core", "rlimit_stack", "rlimit_memlock", "rlimit_rtprio", "rlimit_msgqueue"}) {
      if (config_.origins.has(field)) note(std::string(field) + " is left aside: sbx holds the memory of all together (limits.memory), and writes no cores", origin(field));
    }
    if (config_.cgroup_mem_max != 0) set("limits.memory", Bytes{config_.cgroup_mem_max}, "cgroup_mem_max");
    if (config_.cgroup_pids_max != 0) set("limits.pids", config_.cgroup_pids_max, "cgroup_pids_max");
    if (config_.cgroup_cpu_ms_per_sec != 0) set("limits.cpus", uint64_t{config_.cgroup_cpu_ms_per_sec}, "cgroup_cpu_ms_per_sec");
    else if (config_.max_cpus != 0) set("limits.cpus", uint64_t{config_.max_cpus} * 1000, "max_cpus");
    for (const char* field : {"cgroup_mem_memsw_max", "cgroup_mem_swap_max"}) {
      if (config_.origins.has(field)) note(std::string(field) + " is not needed: a sandbox of sbx never swaps", origin(field));
    }
  }

  void environment() {
    std::map<std::string, std::string> variables;
    std::vector<std::string> passed;
    std::string from;
    for (const std::string& variable : config_.envar) {
      const size_t equals = variable.find('=');
      if (equals == std::string::npos) passed.push_back(variable);
      else variables[variable.substr(0, equals)] = variable.substr(equals + 1);
    }
    if (!variables.empty()) set("env.set", variables, "envar");
    if (!passed.empty()) set("env.pass", passed, "envar");
  }

  void seccomp() {
    if (config_.seccomp_log) note("seccomp_log is not needed: sbx reports what it denies", origin("seccomp_log"));
    if (!config_.seccomp_policy_file && config_.seccomp_string.empty()) return;
    if (config_.seccomp_policy_file && !config_.seccomp_string.empty()) {
      return mistake("seccomp_policy_file and seccomp_string exclude each other", origin("seccomp_string"));
    }
    std::string text;
    const char* field = config_.seccomp_policy_file ? "seccomp_policy_file" : "seccomp_string";
    kafel::Options options;
    if (config_.seccomp_policy_file) {
      const std::string& path = *config_.seccomp_policy_file;
      Result<std::string> read = input_.read(starts_with(path, "/") ? path : join_path(input_.directory, path));
      if (!read.ok()) return mistake(read.error().text(), origin(field), read.error().hint());
      text = read.take();
      options.name = path;
    } else {
      for (const std::string& part : config_.seccomp_string) text += part + "\n";
      options.place = [&](uint32_t line, uint32_t column) {
        return origin(field) + ": policy line " + std::to_string(line) + ", column " + std::to_string(column);
      };
    }
    Result<SyscallRules> rules = kafel::compile(text, options);
    if (!rules.ok()) {
      out_.wrong.push_back(rules.take_error());
      return;
    }
    // As a native policy's seccomp.kafel: it decides about every call.
    out_.layer.kafel = rules.take();
    set("seccomp.kafel", text, field);
  }

  // ---- files
  std::optional<std::string> with_prefix(const std::string& name, const std::string& path, bool mandatory, const std::string& from) {
    if (name.empty()) return path;
    const std::optional<std::string> value = input_.variable(name);
    if (value) return *value + path;
    if (mandatory) mistake("the variable " + quoted(name) + " is not set, which a mount wants as a prefix", from);
    return std::nullopt;
  }

  // Places that every sandbox of sbx has of its own, as good as what configurations put there.
  static bool is_own(const Mount& mount, const std::string& target) {
    if (target == "/proc" && (mount.fstype == "proc" || (mount.is_bind && mount.src == "/proc"))) return true;
    static constexpr std::array<std::string_view, 8> kDevices = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/fd", "/dev/pts", "/dev/shm"};
    if (std::find(kDevices.begin(), kDevices.end(), target) != kDevices.end()) return mount.src.empty() || mount.src == target || mount.is_symlink;
    if (mount.is_symlink) return (target == "/var/tmp" && mount.src == "/tmp") || (target == "/var/run" && mount.src == "/run");
    return (target == "/dev") && mount.fstype == "tmpfs";
  }

  void mount(const Mount& mount, const std::string& from) {
    const std::optional<std::string> source = with_prefix(mount.prefix_src_env, mount.src, mount.mandatory, from);
    const std::optional<std::string> place = with_prefix(mount.prefix_dst_env, mount.dst, mount.mandatory, from);
    if (!source || !place) return;
    const std::string target = normalize_path("/" + *place);
    if (is_own(mount, target)) return note("every sandbox of sbx has its own " + target, from);
    if (target == "/") return mistake("a sandbox of sbx puts its root together itself", from, "list what it needs (/usr, /lib, /bin …), or sbx nsjail -C runs it as it is");
    if (mount.is_symlink) {
      out_.layer.mounts.push_back(SymlinkOp{target, *source});
    } else if (!mount.src_content.empty() || (mount.origins.has("src_content") && mount.fstype.empty())) {
      if (mount.rw) return mistake("a file with content of its own is read-only in a sandbox of sbx", from, "leave rw out");
      out_.layer.mounts.push_back(FileOp{target, mount.src_content, 0644});
    } else if (mount.is_bind) {
      BindOp op;
      op.source = normalize_path(starts_with(*source, "/") ? *source : join_path(input_.directory, *source));
      op.target = target;
      op.read_only = !mount.rw;
      op.no_exec = mount.noexec;
      op.optional = !mount.mandatory;
      op.origin = from;
      op.idmap = true;
      out_.layer.mounts.push_back(std::move(op));
    } else if (mount.fstype == "tmpfs") {
      tmpfs(mount, target, from);
    } else {
      mistake("a mount of type " + quoted(mount.fstype) + " is not made in a sandbox of sbx", from, "sbx nsjail -C runs it as it is");
    }
  }

  void tmpfs(const Mount& mount, const std::string& target, const std::string& from) {
    if (mount.noexec) return mistake("noexec of a tmpfs is not held in a sandbox of sbx", from, "hardening.writable_noexec of a native policy closes every writable place");
    if (!mount.rw) {
      out_.layer.mounts.push_back(DirOp{target, 0755});  // nothing could be put into it
      return;
    }
    TmpfsOp op;
    op.target = target;
    op.size = Bytes{uint64_t{64} << 20};
    op.inodes = 10000;
    op.mode = 01777;
    for (const std::string& option : split(mount.options, ',')) {
      const size_t equals = option.find('=');
      const std::string name = option.substr(0, equals), value = equals == std::string::npos ? "" : option.substr(equals + 1);
      std::string upper = value;
      std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      const Result<Bytes> number = parse_size(upper);
      if (name == "size" && number.ok()) op.size = number.value();
      else if (name == "nr_inodes" && number.ok()) op.inodes = number.value().value;
      else if (name == "mode" && value.size() <= 4 && value.find_first_not_of("01234567") == std::string::npos && !value.empty()) op.mode = static_cast<uint32_t>(std::stoul(value, nullptr, 8));
      else if (!name.empty() && name != "nosuid" && name != "nodev" && name != "rw") mistake("the option " + quoted(option) + " of a tmpfs is not known here", from);
    }
    out_.layer.mounts.push_back(op);
  }

  void other() {
    // Nothing of the host but what the mounts bring.
    set("fs.root", std::string("empty"), "mount");
    const auto elsewhere = [&](const char* field, const char* what) {
      if (config_.origins.has(field)) note(std::string(field) + ": " + what, origin(field));
    };
    if (config_.mode != Mode::once) elsewhere("mode", "sbx runs the command once; sbx nsjail -C listens and repeats");
    elsewhere("exec_bin", "the command line says what is executed");
    elsewhere("cwd", "the working directory is /box, or the workspace");
    elsewhere("nice_level", "sbx leaves priorities alone");
    if (config_.iface_no_lo) elsewhere("iface_no_lo", "lo is up in a sandbox of sbx");
    for (const char* field : {"persona_addr_compat_layout", "persona_mmap_page_zero", "persona_read_implies_exec", "persona_addr_limit_3gb", "persona_addr_no_randomize"})
      elsewhere(field, "personalities are the program's own business in a sandbox of sbx");
  }

  const Config& config_;
  const LowerInput& input_;
  Lowered out_;
};

}  // namespace

Lowered to_policy(const Config& config, const LowerInput& input) { return Lowering(config, input).all(); }

}  // namespace sbx::nsjail

#include "policy/bwrap/policy_file.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "base/text.h"
#include "policy/bwrap/parse.h"
#include "policy/bwrap/words.h"

namespace sbx::bwrap {
namespace {

constexpr const char* kBaseOrigin = "bwrap's default";

// Options that are refused in a policy, and the way out.
struct Refusal {
  const char* option;
  const char* reason;
  const char* hint;
};
constexpr const char* kDescriptor = "the number of a descriptor means nothing in a file";
constexpr const char* kRunIt = "run the file with the command line it was made for: sbx bwrap --args FD -- COMMAND";
constexpr Refusal kRefusals[] = {
    {"--args", "arguments behind a descriptor have no place in a file", "name both files: --policy FIRST --policy SECOND"},
    {"--bind-fd", kDescriptor, "--bind PATH DEST"},
    {"--ro-bind-fd", kDescriptor, "--ro-bind PATH DEST"},
    {"--file", kDescriptor, "put the content into a file: --ro-bind FILE DEST"},
    {"--bind-data", kDescriptor, "put the content into a file: --ro-bind FILE DEST"},
    {"--ro-bind-data", kDescriptor, "put the content into a file: --ro-bind FILE DEST"},
    {"--userns", kDescriptor, kRunIt},
    {"--userns2", kDescriptor, kRunIt},
    {"--pidns", kDescriptor, kRunIt},
    {"--sync-fd", kDescriptor, "sbx itself waits for the last process"},
    {"--block-fd", kDescriptor, kRunIt},
    {"--userns-block-fd", kDescriptor, kRunIt},
    {"--info-fd", kDescriptor, "sbx exec --result FILE tells about a run"},
    {"--json-status-fd", kDescriptor, "sbx exec --result FILE tells about a run"},
    {"--seccomp", kDescriptor, "sbx's own filter is loaded in every run; a native policy on top changes it: [seccomp]"},
    {"--add-seccomp-fd", kDescriptor, "sbx's own filter is loaded in every run; a native policy on top changes it: [seccomp]"},
    {"--lock-file", "sbx holds no lock for a sandbox", "flock FILE sbx exec ..."},
    {"--argv0", "the command stands on sbx's command line", "leave it out"},
    {"--as-pid-1", "process 1 is sbx's own, which keeps the limits", "leave it out"},
    {"--exec-label", "labels are not supported", "leave it out"},
    {"--file-label", "labels are not supported", "leave it out"},
    {"--mqueue", "sbx mounts no message queues", kRunIt},
    {"--overlay", "changes in a directory of the host's are not kept by sbx", "--tmp-overlay, which forgets them, or --bind"},
    {"--ro-overlay", "sbx puts no read-only layers together", "--ro-bind one of the directories"},
    {"--not-a-security-boundary", "sbx always is one", "leave it out"},
    {"--level-prefix", "messages are sbx's", "leave it out"},
    {"--help", "a policy holds options about the sandbox only", "leave it out"},
    {"--version", "a policy holds options about the sandbox only", "leave it out"},
};

const OptionRow* row_of(std::string_view name) {
  for (const OptionRow& row : option_table())
    if (name == row.name) return &row;
  return nullptr;
}
size_t arguments_of(const OptionRow& row) {
  const std::string_view text = row.arguments;
  return text.empty() ? 0 : static_cast<size_t>(std::count(text.begin(), text.end(), ' ')) + 1;
}
bool makes_operation(std::string_view option) {
  static constexpr std::array<std::string_view, 17> kNames = {"--bind", "--bind-try", "--ro-bind", "--ro-bind-try", "--dev-bind", "--dev-bind-try", "--tmp-overlay", "--proc", "--dev",
                                                             "--tmpfs", "--dir", "--symlink", "--remount-ro", "--hostname", "--chmod", "--overlay", "--ro-overlay"};
  return std::find(kNames.begin(), kNames.end(), option) != kNames.end();
}
bool is_variable_name(std::string_view name) {
  const auto letter = [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// An option with its words.
struct Group {
  size_t at = 0, count = 1;  // in the words
  std::string place;
};

class Lowering {
 public:
  Lowering(const std::string& name, const Surroundings& around) : name_(name), around_(around) { result_.layer.name = name; }

  ParsedPolicy run(std::string_view text) {
    Result<std::vector<Word>> read = read_words(text, name_);
    if (!read.ok()) {
      result_.mistakes.push_back(read.take_error());
      return std::move(result_);
    }
    words_ = read.take();
    for (const Word& word : words_) texts_.push_back(word.text);
    group();
    if (result_.mistakes.empty()) parse_all();
    if (result_.mistakes.empty()) lower();
    PolicyLayer& layer = result_.layer;
    layer.whole_view = true;
    return std::move(result_);
  }

 private:
  void mistake(const std::string& place, const std::string& what, const std::string& hint = "") {
    Error error = Error(ErrorKind::policy, what).with_origin(place);
    if (!hint.empty()) error = std::move(error).with_hint(hint);
    result_.mistakes.push_back(std::move(error));
  }

  void group() {
    std::vector<std::string> known;
    for (const OptionRow& row : option_table()) known.emplace_back(row.name);
    for (size_t at = 0; at < words_.size();) {
      const std::string& word = words_[at].text;
      const std::string place = place_of(words_[at], name_);
      const OptionRow* row = row_of(word);
      if (row == nullptr) {
        const std::string near = did_you_mean(word, known);
        if (starts_with(word, "-") && word != "--") mistake(place, "unknown option " + quoted(word) + (near.empty() ? "" : "; did you mean " + near + "?"));
        else mistake(place, quoted(word) + " is no option of bwrap", "the command is given to sbx: sbx exec --policy " + shell_quote(name_) + " -- COMMAND");
        return;  // whatever follows may be its arguments
      }
      size_t count = 1 + arguments_of(*row);
      if (at + count > words_.size()) {
        mistake(place, word + " takes " + std::string(row->arguments));
        return;
      }
      for (const Refusal& refusal : kRefusals)
        if (word == refusal.option) mistake(place, word + ": " + refusal.reason, refusal.hint);
      groups_.push_back({at, count, place});
      at += count;
    }
  }

  // The parser's own view of the first groups.
  Parsed parse_up_to(size_t groups) const {
    const size_t count = groups == 0 ? 0 : groups_[groups - 1].at + groups_[groups - 1].count;
    return parse(std::span(texts_).first(count), ParseContext{[](int) -> Result<std::string> { return Error(ErrorKind::internal, "no descriptors here"); }, 63});
  }

  void parse_all() {
    Parsed parsed = parse_up_to(groups_.size());
    if (parsed.what == Parsed::What::run) {
      const std::string clash = check_combinations(parsed.options);
      if (!clash.empty()) mistake(name_, clash);
      if (parsed.options.hostname && !parsed.options.unshare_uts) mistake(place_of_option("--hostname"), "--hostname requires --unshare-uts");
      options_ = std::move(parsed.options);
      return;
    }
    // The parser knows no places: the first group with which it fails is the one. A layer waits for what follows it.
    size_t groups = 1;
    while (groups < groups_.size() && (words_[groups_[groups - 1].at].text == "--overlay-src" || parse_up_to(groups).what == Parsed::What::run)) ++groups;
    mistake(groups_[groups - 1].place, parsed.messages.empty() ? "cannot be read" : parsed.messages.back().text);
  }

  std::string place_of_option(std::string_view option) const {
    for (auto group = groups_.rbegin(); group != groups_.rend(); ++group)
      if (words_[group->at].text == option) return group->place;
    return "";
  }
  bool says(std::string_view option) const { return !place_of_option(option).empty(); }

  void set(const char* key, KeyValue value, const std::string& place) { result_.layer.values[key] = {std::move(value), place}; }

  // ---- what the options become

  void lower() {
    const Options& o = options_;
    const auto unshare = [&](bool given, const char* option, const char* other, const char* key, KeyValue value) {
      if (!given) return;
      std::string place = place_of_option(option);
      if (place.empty() && other != nullptr) place = place_of_option(other);
      set(key, std::move(value), place.empty() ? place_of_option("--unshare-all") : place);
    };
    unshare(o.unshare_net, "--unshare-net", nullptr, "net.mode", std::string("none"));
    if (!o.unshare_net && says("--share-net")) set("net.mode", std::string("host"), place_of_option("--share-net"));
    unshare(o.unshare_ipc, "--unshare-ipc", nullptr, "sandbox.ipc_namespace", true);
    unshare(o.unshare_uts, "--unshare-uts", nullptr, "sandbox.uts_namespace", true);
    unshare(o.unshare_cgroup || o.unshare_cgroup_try, "--unshare-cgroup", "--unshare-cgroup-try", "sandbox.cgroup_namespace", true);
    if (o.new_session) set("sandbox.new_session", true, place_of_option("--new-session"));
    if (o.uid) set("sandbox.uid", uint64_t{*o.uid}, place_of_option("--uid"));
    if (o.gid) set("sandbox.gid", uint64_t{*o.gid}, place_of_option("--gid"));
    if (o.hostname) set("sandbox.hostname", *o.hostname, place_of_option("--hostname"));
    capabilities();
    environment();
    operations();
    if (result_.mistakes.empty()) result_.layer.directory = working_directory();
    remarks();
  }

  void capabilities() {
    std::vector<std::string> kept;
    std::string place;
    for (const Group& group : groups_) {
      const std::string& option = words_[group.at].text;
      if (option != "--cap-add" && option != "--cap-drop") continue;
      place = group.place;
      std::string name = words_[group.at + 1].text;
      std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      if (option == "--cap-drop" && name == "all") kept.clear();
      else if (option == "--cap-drop") std::erase(kept, name);
      else if (!starts_with(name, "cap_")) return mistake(place, "--cap-add " + words_[group.at + 1].text + ": capabilities are named one by one here", "for instance --cap-add CAP_NET_BIND_SERVICE");
      else kept.push_back(name);
    }
    if (!place.empty()) set("hardening.capabilities", kept, place);
  }

  void environment() {
    std::set<std::string> passed;
    std::map<std::string, std::string> own;
    for (const auto& [name, value] : around_.environment)
      if (is_variable_name(name)) passed.insert(name);
    std::string cleared, changed;
    for (const Group& group : groups_) {
      const std::string& option = words_[group.at].text;
      if (option == "--clearenv") {
        passed.clear(), own.clear();
        cleared = group.place;
      } else if (option == "--setenv") {
        own[words_[group.at + 1].text] = words_[group.at + 2].text;
        changed = group.place;
      } else if (option == "--unsetenv") {
        passed.erase(words_[group.at + 1].text), own.erase(words_[group.at + 1].text);
      }
    }
    // With nothing said a program is looked up there.
    if (passed.count("PATH") == 0 && own.count("PATH") == 0) own["PATH"] = "/bin:/usr/bin";
    set("env.pass", std::vector<std::string>(passed.begin(), passed.end()), cleared.empty() ? kBaseOrigin : cleared);
    set("env.set", own, changed.empty() ? (cleared.empty() ? kBaseOrigin : cleared) : changed);
  }

  void operations() {
    std::vector<std::string> places;
    for (const Group& group : groups_)
      if (makes_operation(words_[group.at].text)) places.push_back(group.place);
    PolicyLayer& layer = result_.layer;
    size_t index = 0;
    for (const Operation& op : options_.operations) {
      const std::string place = index < places.size() ? places[index] : name_;
      ++index;
      if (op.kind == OperationKind::hostname) continue;
      if (op.dest.empty() || op.dest.find('\0') != std::string::npos) {
        mistake(place, op.option + ": the place inside is empty");
        continue;
      }
      const std::string dest = normalize_path(op.dest[0] == '/' ? op.dest : "/" + op.dest);
      // The engine looks at its sandbox through a /proc, and believes only what the kernel put there. A directory is made for it
      // in any case.
      const bool its_directory = op.kind == OperationKind::dir && dest == "/proc";
      const bool makes = op.kind != OperationKind::proc && op.kind != OperationKind::remount_ro && op.kind != OperationKind::chmod && !its_directory;
      if (makes && path_is_under(dest, "/proc")) {
        mistake(place, op.option + " on " + quoted(op.dest) + ": /proc is the sandbox's own", "--proc /proc");
        continue;
      }
      switch (op.kind) {
        case OperationKind::bind: {
          BindOp bind;
          bind.source = absolute(op.source);
          bind.target = dest;
          bind.read_only = op.access == Access::read_only;
          bind.devices = op.access == Access::devices;
          bind.optional = op.may_be_missing;
          // Everybody may read the system's own; what else is shared is somebody's, who stays its owner.
          static constexpr std::array<std::string_view, 9> kSystem = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc", "/nix/store"};
          bind.idmap = bind.source != "/" && std::none_of(kSystem.begin(), kSystem.end(), [&](std::string_view system) { return path_is_under(bind.source, system); });
          bind.origin = place;
          if (dest == "/" && bind.source != "/") mistake(place, op.option + " on /: sbx makes the root itself", "bind the entries of " + quoted(bind.source) + " one by one");
          layer.mounts.emplace_back(std::move(bind));
          break;
        }
        case OperationKind::tmp_overlay:
          if (op.lower.size() != 1) mistake(place, "--tmp-overlay of " + std::to_string(op.lower.size()) + " layers: sbx has overlays of one", "--overlay-src one directory that holds all");
          else layer.mounts.emplace_back(OverlayOp{absolute(op.lower[0]), dest, place});
          break;
        case OperationKind::proc:
          if (dest != "/proc") mistake(place, "--proc " + quoted(op.dest) + ": sbx has it at /proc only");
          else layer.mounts.emplace_back(ProcOp{});
          break;
        case OperationKind::dev:
          if (dest != "/dev") {
            mistake(place, "--dev " + quoted(op.dest) + ": sbx has it at /dev only");
          } else {
            layer.mounts.emplace_back(DevOp{});
            layer.mounts.emplace_back(PrivateDirOp{"/dev/shm", 0755});
          }
          break;
        case OperationKind::tmpfs:
          if (dest == "/") {
            if (!layer.mounts.empty()) mistake(place, "--tmpfs / after other operations would hide them");
          } else if (op.size != 0) {
            layer.mounts.emplace_back(TmpfsOp{dest, Bytes{op.size}, kTmpfsFiles, static_cast<uint32_t>(op.perms)});
          } else {
            layer.mounts.emplace_back(PrivateDirOp{dest, static_cast<uint32_t>(op.perms)});
          }
          break;
        case OperationKind::dir: layer.mounts.emplace_back(DirOp{dest, static_cast<uint32_t>(op.perms)}); break;
        case OperationKind::symlink: layer.mounts.emplace_back(SymlinkOp{dest, op.source}); break;
        case OperationKind::remount_ro:
          if (dest == "/") set("fs.read_only_root", true, place);
          else layer.mounts.emplace_back(ReadOnlyOp{dest});
          break;
        case OperationKind::chmod: change_mode(dest, static_cast<uint32_t>(op.perms), place); break;
        default: mistake(place, op.option + " is not translated", kRunIt); break;
      }
    }
    // Without --proc there is one all the same; what a payload sees there are its own processes.
    if (std::none_of(layer.mounts.begin(), layer.mounts.end(), [](const FsOp& op) { return std::holds_alternative<ProcOp>(op); })) {
      layer.mounts.emplace_back(ProcOp{});
    }
    // Where all of the host is the root, it is as writable as the bind is.
    for (const FsOp& op : layer.mounts) {
      const auto* bind = std::get_if<BindOp>(&op);
      if (bind != nullptr && bind->target == "/") set("fs.read_only_root", true, bind->origin);
    }
  }

  void change_mode(const std::string& dest, uint32_t mode, const std::string& place) {
    for (auto op = result_.layer.mounts.rbegin(); op != result_.layer.mounts.rend(); ++op) {
      if (auto* directory = std::get_if<DirOp>(&*op); directory != nullptr && directory->target == dest) return void(directory->mode = mode);
      if (auto* own = std::get_if<PrivateDirOp>(&*op); own != nullptr && own->target == dest) return void(own->mode = mode);
      if (auto* tmpfs = std::get_if<TmpfsOp>(&*op); tmpfs != nullptr && tmpfs->target == dest) return void(tmpfs->mode = mode);
    }
    mistake(place, "--chmod " + quoted(dest) + ": only what --dir and --tmpfs made before can be changed", "give the mode there: --perms OCTAL --dir " + shell_quote(dest));
  }

  std::string absolute(const std::string& path) const { return normalize_path(starts_with(path, "/") ? path : join_path(around_.directory, path)); }

  // --chdir; else the caller's directory where it is there inside; else HOME; else /.
  std::string working_directory() const {
    if (options_.chdir) return absolute(*options_.chdir);
    if (is_inside(around_.directory)) return around_.directory;
    std::string home = around_.home;
    if (const auto place = result_.layer.values.find("env.set"); place != result_.layer.values.end()) {
      const auto& map = std::get<std::map<std::string, std::string>>(place->second.value);
      if (const auto own = map.find("HOME"); own != map.end()) home = own->second;
    }
    return is_inside(home) ? normalize_path(home) : "/";
  }
  bool is_inside(const std::string& path) const {
    if (path.empty() || path[0] != '/') return false;
    for (auto op = result_.layer.mounts.rbegin(); op != result_.layer.mounts.rend(); ++op) {
      const std::string& target = std::visit([](const auto& any) -> const std::string& { return any.target; }, *op);
      if (!path_is_under(path, target)) continue;
      if (const auto* bind = std::get_if<BindOp>(&*op)) {
        const std::string rest = target == "/" ? path : path.substr(target.size());
        return around_.is_directory != nullptr && around_.is_directory(bind->source == "/" ? rest : bind->source + rest);
      }
      if (path == target) return !std::holds_alternative<SymlinkOp>(*op);
      if (!std::holds_alternative<DirOp>(*op)) return false;
    }
    return path == "/";
  }

  // What the file leaves open where bwrap itself runs it; sbx closes these by itself.
  void remarks() {
    const auto remark = [&](const char* name, RiskSeverity severity, const char* what, const char* fix, const std::string& place = "") {
      result_.layer.remarks.push_back({name, severity, what, fix, place.empty() ? name_ : place});
    };
    const Options& o = options_;
    if (!o.new_session) {
      remark("terminal-injection", RiskSeverity::medium, "run by bwrap itself, the payload may type into your terminal as if you had (TIOCSTI); sbx's filter refuses it", "--new-session");
    }
    remark("no-filter", RiskSeverity::medium, "run by bwrap itself, every system call reaches the kernel; under sbx its filter lies before it",
           "--seccomp FD; sbx policy show --bpf FILE writes a filter");
    for (const FsOp& op : result_.layer.mounts) {
      const auto* bind = std::get_if<BindOp>(&op);
      if (bind == nullptr || bind->read_only || path_is_under(bind->source, "/dev")) continue;
      remark("set-uid-programs", RiskSeverity::low,
             "run by bwrap itself, programs that the payload makes in a writable bind may carry set-uid bits, which hold on the host; sbx refuses them",
             "--ro-bind, or a host file system mounted nosuid", bind->origin);
      break;
    }
    if (!o.unshare_pid) {
      remark("host-processes", RiskSeverity::medium, "run by bwrap itself, the payload sees and signals your other processes; sbx never shares them", "--unshare-pid");
    }
    if (!o.disable_userns) {
      remark("nested-namespaces", RiskSeverity::medium, "run by bwrap itself, the payload may make user namespaces and hold every capability in them; sbx refuses it",
             "--unshare-user --disable-userns");
    }
    if (!o.die_with_parent) remark("outlives", RiskSeverity::low, "run by bwrap itself, the payload lives on when bwrap is killed; sbx ends it", "--die-with-parent");
    if (!says("--clearenv")) remark("whole-environment", RiskSeverity::low, "the payload reads every variable of your environment", "--clearenv, and --setenv for what it needs");
    for (const FsOp& op : result_.layer.mounts) {
      const auto* bind = std::get_if<BindOp>(&op);
      if (bind == nullptr || bind->source != "/") continue;
      remark("whole-host", RiskSeverity::high,
             bind->read_only ? "the payload reads every file that you can read: keys, histories, other projects" : "the payload reads and changes every file that you can",
             "bind what it needs: --ro-bind /usr /usr and the like", bind->origin);
    }
  }

  static constexpr uint64_t kTmpfsFiles = 100000;

  const std::string& name_;
  const Surroundings& around_;
  ParsedPolicy result_;
  std::vector<Word> words_;
  std::vector<std::string> texts_;
  std::vector<Group> groups_;
  Options options_;
};

}  // namespace

ParsedPolicy read_policy(std::string_view text, const std::string& name, const Surroundings& surroundings) { return Lowering(name, surroundings).run(text); }

void make_base(PolicyLayer& defaults, const Surroundings& surroundings) {
  const auto set = [&](const char* key, KeyValue value) { defaults.values[key] = {std::move(value), kBaseOrigin}; };
  set("sandbox.uid", uint64_t{surroundings.uid});
  set("sandbox.gid", uint64_t{surroundings.gid});
  set("sandbox.new_session", false);
  set("sandbox.ipc_namespace", false);
  set("sandbox.uts_namespace", false);
  set("sandbox.cgroup_namespace", false);
  set("net.mode", std::string("host"));
  set("fs.read_only_root", false);
  set("env.set", std::map<std::string, std::string>{});
  set("env.pass", std::vector<std::string>{});
  set("hardening.capabilities", std::vector<std::string>{});
}

void in_words_of_bwrap(std::vector<Risk>& risks, const PolicyLayer& layer) {
  static constexpr std::pair<std::string_view, const char*> kFixes[] = {
      {"host-network", "--unshare-net, and no --share-net"},
      {"host-ipc", "--unshare-ipc"},
      {"host-name", "--unshare-uts"},
      {"host-cgroups", "--unshare-cgroup-try"},
      {"terminal-injection", "--new-session"},
      {"capabilities", "leave --cap-add out"},
      {"writable-root", "--remount-ro / behind the other operations"},
      {"inside-root", "--uid 1000 --gid 1000"},
      {"secret-variable", "--unsetenv NAME, or --clearenv"},
      {"writable-system", "--ro-bind"},
      {"writable-share", "--ro-bind, or --overlay-src SRC --tmp-overlay DEST"},
      {"trusted-places", "--ro-bind, or --overlay-src SRC --tmp-overlay DEST"},
      {"no-disk-limit", "--ro-bind, or --overlay-src SRC --tmp-overlay DEST"},
      {"control-socket", "leave the bind out"},
      {"credentials", "leave the bind out, or hide the place: --tmpfs DEST"},
      {"home", "bind a directory below it"},
      {"system-settings", "bind a directory below it"},
      {"device", "leave the bind out: --dev /dev has what programs need"},
      {"socket-directory", "bind a directory below it, or --tmpfs over it"},
  };
  for (Risk& risk : risks) {
    if (risk.origin != kBaseOrigin && !starts_with(risk.origin, layer.name + ":")) continue;
    for (const auto& [name, fix] : kFixes)
      if (risk.name == name) risk.fix = fix;
  }
  for (const Risk& remark : layer.remarks) {
    const bool known = std::any_of(risks.begin(), risks.end(), [&](const Risk& risk) { return risk.name == remark.name && (risk.origin == remark.origin || risk.origin == kBaseOrigin); });
    if (!known) risks.push_back(remark);
  }
  std::stable_sort(risks.begin(), risks.end(), [](const Risk& a, const Risk& b) { return a.severity > b.severity; });
}

}  // namespace sbx::bwrap

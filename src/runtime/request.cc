// Theory of operation. A request goes through fixed stages, each a method of Execution, in the order of run():
//
//   requirements → policies → workspace and mounts → program and language → files placed → toolchain
//   → [compile: the build cache, or a sandbox of its own, its products copied out] → run: a sandbox → artifacts, sweep → hints
//
// Up to the toolchain nothing of the request's has run, and failures come back as Error. The compile step and the run
// are two sandboxes from the same layers; what goes from one to the other goes through descriptors of the supervisor,
// opened beneath the compile step's build directory as regular files, since the compiler's output is as hostile as
// the program's.
#include "runtime/request.h"

#include <dirent.h>
#include <sched.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/sys.h"
#include "base/text.h"
#include "policy/loader.h"
#include "policy/resolve.h"
#include "runtime/choose_cgroup.h"
#include "runtime/compile_step.h"
#include "runtime/digest.h"
#include "runtime/explain.h"
#include "runtime/hints.h"
#include "runtime/jvm.h"
#include "runtime/prepared.h"
#include "runtime/progress.h"
#include "runtime/program.h"
#include "runtime/progress.h"
#include "runtime/runner.h"
#include "runtime/session_ground.h"
#include "runtime/spec_text.h"
#include "runtime/toolchain.h"
#include "runtime/toolchain_paths.h"
#include "runtime/workspace.h"

extern char** environ;

namespace sbx::runtime {
namespace {

constexpr Millis kProbeTime{10000};
constexpr size_t kMostSaid = size_t{64} << 20;  // of its values, by a program that --eval runs
constexpr Bytes kProbeOutput{65536};
constexpr size_t kSearchedText = 65536;  // of the program: imports stand at its head
constexpr Millis kPrepareTime{600000};
constexpr Bytes kPrepareMemory{uint64_t{4} << 30};
constexpr Bytes kPrepareDisk{uint64_t{1} << 30};

std::map<std::string, std::string> process_environment() {
  std::map<std::string, std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

CgroupWish cgroup_wish(const RunRequest& request, const HostFacts& facts) {
  CgroupWish wish;
  wish.parent = request.cgroup_parent;
  wish.uid = facts.uid;
  // The service manager's own place for it, where the login did not say (su, sudo -u).
  const char* directory = std::getenv("XDG_RUNTIME_DIR");
  wish.runtime_directory = directory != nullptr && directory[0] == '/' ? directory : "/run/user/" + std::to_string(facts.uid);
  return wish;
}

// One thing to execute in a sandbox.
struct Step {
  std::vector<std::string> argv;
  std::string exec_path;
  std::vector<std::pair<std::string, std::string>> environment;
};

// The text of a list of CPUs for a limit in thousandths: as many as affinity leaves.
std::string online_cpus(uint64_t milli) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  const bool known = ::sched_getaffinity(0, sizeof mine, &mine) == 0;
  const uint64_t available = known ? static_cast<uint64_t>(CPU_COUNT(&mine)) : UINT64_MAX;
  const uint64_t count = std::min((milli + 999) / 1000, available);
  return count <= 1 ? "0\n" : "0-" + std::to_string(count - 1) + "\n";
}

// In front of what the policies and the caller put there.
void put_search_paths(const std::map<std::string, std::string>& paths, SandboxSpec& spec) {
  for (const auto& [name, value] : paths) {
    const std::string begin = name + "=";
    const auto entry = std::find_if(spec.environment.begin(), spec.environment.end(),
                                    [&](const std::string& variable) { return starts_with(variable, begin); });
    if (entry == spec.environment.end()) {
      spec.environment.push_back(begin + value);
    } else if (entry->size() == begin.size()) {
      *entry += value;
    } else {
      entry->insert(begin.size(), value + ":");
    }
  }
}

// A runner, or the alternative of it that is used, and where its tools are.
struct FoundTools {
  const RunnerSpec* runner = nullptr;  // borrowed
  Toolchain tool;
  std::map<std::string, Toolchain> used;  // by the language's name
};

// The first `limit` bytes at most, the descriptor's offset left alone.
Result<std::string> read_head(int fd, size_t limit) {
  std::string text(limit, '\0');
  const ssize_t got = ::pread(fd, text.data(), limit, 0);
  if (got < 0) return Error::from_errno(errno, "read the program");
  text.resize(static_cast<size_t>(got));
  return text;
}

class Execution {
 public:
  Execution(const RunRequest& request, const HostFacts& facts, const Observer& observer, const Engine& engine)
      : request_(request), facts_(facts), observer_(observer), engine_(engine), progress_(observer.progress) {}

  Result<Report> run();
  Result<Inspection> inspect();
  Result<std::vector<LanguageStatus>> languages();
  Result<LanguageCheck> check_file(const std::string& file);

  // A session's: everything that stays the same from cell to cell.
  Status prepare_session(const DriverOf& driver_of);
  const SandboxSpec& session_spec() const { return session_spec_; }
  Result<CgroupParent*> session_cgroups() { return cgroups(); }
  const RunnerSpec* session_runner() const { return language_.runner; }
  bool has_session_driver() const { return session_driver_; }
  const std::string& session_source() const { return source_; }
  Result<std::vector<CellStep>> cell_steps(const std::vector<std::string>& arguments) const;
  Report session_report() const;
  const std::vector<std::string>& guard_notes() const { return guard_notes_; }
  void sweep(Report& report) const;

 private:
  LanguageStatus status_of(const RunnerSpec& runner, const std::vector<std::string>& distributions,
                           const ProbeRunner& probe);
  Status check_requirements();
  // The end of what run() began: waits for the user manager where that is asked for a scope.
  Result<CgroupParent*> cgroups();
  Status load_policies();
  Status share_workspace();
  Status share_mounts();
  Status guard_directory(const std::string& source, const std::string& target);
  bool leads_out_of_workspace(const std::string& host_path) const;
  void keep_place(std::string_view inside, const std::string& target, bool read_only);
  void protect_ourselves(const std::string& source, const std::string& target);
  Status open_artifacts();
  Status choose_program();
  Status place_files();
  Status find_tool();
  Status prepare_tool();
  std::string prepared_by(const RunnerSpec& runner, const std::vector<FsOp>& hooks);
  Status choose_command();
  Status add_arguments_environment();

  ProbeRunner probe_runner();
  Result<std::map<std::string, Toolchain>> find_used(const RunnerSpec& runner, const ProbeRunner& probe) const;
  Result<FoundTools> find_tools(const RunnerSpec& runner, const ProbeRunner& probe) const;
  ToolchainRequest toolchain_request(const RunnerSpec* runner) const;
  void add_tool_and_files(std::vector<FsOp>& extra) const;
  StepValues step_values() const;
  std::string cache_directory() const;
  // `last`: no further one is made, and it takes the view of files with it.
  Result<SandboxSpec> make_spec(const Step& step, std::vector<FsOp> extra, bool compiling, bool last = false);
  Status plan_stdio();
  std::string inside_path_of(const std::string& host_path) const;
  bool is_visible(const std::string& host_path) const;
  void note(const std::string& line) const {
    if (request_.verbosity > 0 && observer_.note) observer_.note(line);
  }
  // For -v: what it took from the last call of this to here.
  void lap(const char* stage);
  void note_spec(const SandboxSpec& spec) const;
  void note_isolation(const Isolation& isolation) const;
  void describe(const SandboxSpec& spec, Report& report) const;
  void explain(const SandboxSpec& spec, Outcome& outcome) const;
  void note_outcome(const char* what, const Outcome& outcome) const;
  // Nobody would see them otherwise, and the program runs as if there were no hooks.
  bool wants_plots() const {
    return request_.plots && wants_artifacts() && language_.runner != nullptr && language_.runner->plots.has_value();
  }
  Status add_plot_hooks(Step& step, std::vector<FsOp>& extra);
  void add_driver(const SessionDriver& driver, std::vector<FsOp>& extra);
  void gather_plots(int directory, Report& report) const;
  // What a run reports when `interrupted_`.
  Report ended_early(Report report) const;
  Error interrupt(const Outcome& outcome) {
    interrupted_ = outcome.signal;
    return Error(ErrorKind::system, "interrupted by signal " + std::to_string(outcome.signal));
  }
  // A limit as the layers have it; nullopt when there is none.
  template <typename Unit>
  std::optional<Unit> limit_of(const char* key) const {
    const auto found = merged_.find(key);
    const Unit* value = found == merged_.end() ? nullptr : std::get_if<Unit>(&found->second.value);
    return value == nullptr ? std::nullopt : std::optional<Unit>(*value);
  }
  bool wants_artifacts() const { return request_.want_result || !request_.artifacts_directory.empty(); }

  // Runs the compile step, or takes what it made before. False: it failed, and the report says so.
  Result<bool> compile(const StepValues& values, Report& report, std::vector<Product>& products);
  Result<Report> run_step(Step step, std::vector<FsOp> extra, Report report);
  void not_compiled(Report& report, const std::string& failure) const;
  void gather_artifacts(RunResult& result, Report& report);
  void add_hints(Report& report) const;

  const RunRequest& request_;
  const HostFacts& facts_;
  std::optional<FsOp> prepared_;  // in tool_mounts_: what [prepare] made, which never changes under its name
  int interrupted_ = 0;  // the signal that was sent to sbx before the program's own sandbox was there
  const Observer& observer_;
  const Engine& engine_;
  Progress progress_;
  uint64_t lap_ns_ = 0;
  std::string laps_;

  std::optional<CgroupChoice> cgroup_choice_;
  std::optional<CgroupParent> cgroup_parent_;
  std::map<std::string, std::string> environment_ = process_environment();
  std::string caller_directory_;  // canonical; "" when it is gone
  PolicySearch search_;
  std::vector<PolicyLayer> layers_;
  // The default policy alone: for probes. A copy of layers_[0] where a policy may have replaced that.
  std::vector<PolicyLayer> own_base_;
  std::span<const PolicyLayer> base_layers() const { return own_base_.empty() ? std::span(layers_).first(1) : std::span<const PolicyLayer>(own_base_); }
  std::map<std::string, LayerValue> merged_;
  std::vector<FsOp> rootfs_;
  std::string resolv_conf_;
  std::vector<RunnerSpec> runners_;

  std::string workspace_;  // canonical; "" : /box is private
  // Host directories that the payload may write: looked at before the run, swept after it.
  struct Guarded {
    UniqueFd directory;
    WorkspaceGuard guard;
    std::string shown;
  };
  std::vector<Guarded> guarded_;  // a :rw workspace first
  std::vector<std::string> guard_notes_;
  bool whole_view_ = false;  // a policy says all that is seen: rootfs_ holds it for look-ups only
  std::string working_directory_ = kBoxDirectory;
  std::vector<FsOp> shared_;   // workspace, mounts
  std::vector<FsOp> placed_;   // program and extra files
  std::vector<FsOp> tool_mounts_;
  std::vector<UniqueFd> held_;  // what placed_ refers to
  std::vector<std::pair<std::string, UniqueFd>> files_in_box_;  // --file in a private /box: to tell what changed

  Program program_;
  bool program_shared_ = false;  // it stands in the workspace
  LanguageChoice language_;
  RunnerSpec adhoc_runner_;
  std::string source_;           // path of the program inside
  std::vector<std::string> sources_;
  Toolchain toolchain_;
  std::map<std::string, std::string> tools_;  // of the languages that the runner uses as well
  Step command_;                 // exec
  UniqueFd stdin_file_;
  UniqueFd artifacts_directory_;  // --artifacts
  StdioPlan stdio_;
  NetMode net_ = NetMode::none;
  SandboxSpec session_spec_;
  bool session_driver_ = false;
  std::optional<SessionDriver> driver_;  // --eval
};

// --require: a protection or mechanism without which the caller does not want to run.
Status Execution::check_requirements() {
  const std::vector<std::string> known = {"cgroup", "landlock", "seccomp"};
  for (const std::string& name : request_.require) {
    if (name == "seccomp") continue;  // in force in every run
    if (name == "landlock") {
      if (facts_.landlock_abi > 0) continue;
      return Error(ErrorKind::unsupported, "this kernel has no Landlock, and --require landlock asks for it")
          .with_hint("boot with lsm=landlock,… or leave --require landlock out: the namespaces protect without it");
    }
    if (name == "cgroup") continue;  // known when the choice has been made: cgroups()
    const std::string near = did_you_mean(name, known);
    return Error(ErrorKind::usage, "unknown requirement '" + printable(name) + "'" +
                                       (near.empty() ? "" : ": did you mean '" + near + "'?"))
        .with_origin("flag --require")
        .with_hint("known: " + join(known, ", "));
  }
  return {};
}

Result<CgroupParent*> Execution::cgroups() {
  if (!cgroup_choice_) return static_cast<CgroupParent*>(nullptr);
  if (cgroup_parent_) return &*cgroup_parent_;
  cgroup_parent_.emplace(SBX_TRY(cgroup_choice_->finish()));
  const CgroupParent& parent = *cgroup_parent_;
  if (!parent.path().empty()) note("cgroup " + printable(parent.path()) + ", controllers " + names_of(parent.controllers()));
  if (!parent.reason().empty()) note("cgroup: " + parent.reason());
  const bool required = std::find(request_.require.begin(), request_.require.end(), "cgroup") != request_.require.end();
  const Controllers missing = without(Controllers{true, true, true}, parent.controllers());
  if (required && missing.any()) {
    return Error(ErrorKind::unsupported, "--require cgroup asks for controllers that cannot be had here (" + names_of(missing) + "): " + parent.reason())
        .with_stage("cgroup")
        .with_hint(parent.remedy());
  }
  return &*cgroup_parent_;
}

Status Execution::add_arguments_environment() {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : request_.environment) {
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (name.empty() || entry.find('\0') != std::string::npos) {
      return Error(ErrorKind::usage, "'" + printable(entry) + "' names no variable")
          .with_origin("flag --env")
          .with_hint("--env NAME=VALUE, or --env NAME to take the caller's value");
    }
    if (equals != std::string::npos) {
      variables[name] = entry.substr(equals + 1);
      continue;
    }
    const auto own = environment_.find(name);
    if (own == environment_.end()) {
      return Error(ErrorKind::usage, "the variable '" + printable(name) + "' is not set here")
          .with_origin("flag --env")
          .with_hint("give it a value: --env " + shell_quote(name + "=VALUE"));
    }
    variables[name] = own->second;
  }
  if (variables.empty()) return {};
  PolicyLayer& flags = layers_.back();
  LayerValue& value = flags.values["env.set"];
  if (auto* map = std::get_if<std::map<std::string, std::string>>(&value.value); map != nullptr) {
    variables.insert(map->begin(), map->end());
  }
  value = LayerValue{std::move(variables), "flag --env"};
  return {};
}

Status Execution::load_policies() {
  const auto configured = environment_.find("XDG_CONFIG_HOME");
  search_.config_directory = user_policy_directory(configured == environment_.end() ? "" : configured->second, facts_.home);
  search_.workspace = workspace_;
  // The base is always the one that is built in; a user's own default.toml is a layer like any other.
  layers_.push_back(SBX_TRY(load_policy("default", PolicySearch{})));
  search_.dialect = request_.dialect;
  for (const std::string& name : request_.policies) layers_.push_back(SBX_TRY(load_policy(name, search_)));
  if (!request_.policies.empty()) {
    own_base_ = {layers_[0]};
    layers_[0] = base_layer(std::move(layers_[0]), std::span(layers_).subspan(1));
  }
  for (const PolicyLayer& layer : layers_) {
    if (!layer.whole_view) continue;
    whole_view_ = true;
    rootfs_.insert(rootfs_.end(), layer.mounts.begin(), layer.mounts.end());
    if (request_.exec && workspace_.empty()) working_directory_ = layer.directory;
  }
  layers_.push_back(request_.flags);
  SBX_TRY(add_arguments_environment());

  merged_ = SBX_TRY(merge_layers(layers_));
  const auto text_of = [&](const char* key) {
    const auto found = merged_.find(key);
    const std::string* text = found == merged_.end() ? nullptr : std::get_if<std::string>(&found->second.value);
    return text == nullptr ? std::string() : *text;
  };
  if (text_of("net.mode") == "host") resolv_conf_ = host_resolver_config();
  if (whole_view_) return {};
  const std::string manifest = text_of("fs.root");
  rootfs_ = SBX_TRY_CTX(expand_manifest(manifest), "the view of files '" + manifest + "'");
  return {};
}

Status Execution::share_workspace() {
  if (Result<std::string> directory = sys::getcwd(); directory.ok()) {
    Result<std::string> real = sys::realpath(directory.value());
    caller_directory_ = real.ok() ? real.take() : directory.take();
  }
  if (!request_.workspace.has_value()) return {};
  const WorkspaceArgument& argument = *request_.workspace;
  const std::string shown = "'" + printable(argument.directory) + "'";
  Result<std::string> real = sys::realpath(argument.directory);
  if (!real.ok()) {
    const int errnum = real.error().errnum();
    if (errnum == ENOENT) {
      return Error(ErrorKind::usage, "no such directory: " + shown)
          .with_origin("flag --workspace")
          .with_hint("make it first: mkdir -p " + shell_quote(argument.directory));
    }
    return Error(kind_of_bad_path(errnum), "cannot use " + shown + ": " + errno_text(errnum))
        .with_origin("flag --workspace")
        .with_hint("--workspace DIR takes a directory that you may read");
  }
  workspace_ = real.take();
  const struct stat info = SBX_TRY(sys::stat(workspace_));
  if (!S_ISDIR(info.st_mode)) {
    return Error(ErrorKind::usage, shown + " is not a directory")
        .with_origin("flag --workspace")
        .with_hint("share one file with --file " + shell_quote(argument.directory));
  }
  if (!request_.allow_sensitive_mount) {
    SBX_TRY(check_mount_source(workspace_, info.st_mode, facts_, "flag --workspace"));
  }
  if (!caller_directory_.empty() && path_is_under(caller_directory_, workspace_)) {
    working_directory_ = normalize_path(kBoxDirectory + ("/" + caller_directory_.substr(workspace_.size())));
  }
  switch (argument.mode) {
    case WorkspaceMode::read_only:
    case WorkspaceMode::read_write: {
      BindOp bind;
      bind.source = workspace_;
      bind.target = kBoxDirectory;
      bind.read_only = argument.mode == WorkspaceMode::read_only;
      bind.idmap = true;
      bind.source_mode = info.st_mode;
      bind.no_links = true;
      bind.origin = "flag --workspace";
      shared_.emplace_back(std::move(bind));
      break;
    }
    case WorkspaceMode::overlay:
      shared_.emplace_back(OverlayOp{workspace_, kBoxDirectory, "flag --workspace"});
      break;
  }
  return {};
}

Status Execution::guard_directory(const std::string& source, const std::string& target) {
  Guarded entry;
  entry.shown = source;
  // Real paths come here: as in the mount itself, a link that takes a directory's place meanwhile is not followed.
  entry.directory = SBX_TRY(sys::openat2(AT_FDCWD, source, O_RDONLY | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS));
  entry.guard = SBX_TRY_CTX(guard_workspace(entry.directory.get(), target, !request_.allow_sensitive_write, ArtifactBounds{}),
                            "looking at '" + source + "' before it is shared for writing");
  shared_.insert(shared_.end(), entry.guard.ops.begin(), entry.guard.ops.end());
  // The directory of the result file keeps its place: a payload that moved it away could put another there, with a
  // result of its own making.
  const std::string& result = request_.result_directory;
  if (result != source && path_is_under(result, source)) keep_place(result.substr(source.size()), target, false);
  if (!request_.allow_sensitive_write) protect_ourselves(source, target);
  guard_notes_.insert(guard_notes_.end(), entry.guard.notes.begin(), entry.guard.notes.end());
  guarded_.push_back(std::move(entry));
  return {};
}

// `inside`: a path below the writable directory that stands at `target`.
void Execution::keep_place(std::string_view inside, const std::string& target, bool read_only) {
  while (starts_with(inside, "/")) inside.remove_prefix(1);
  for (size_t slash = inside.find('/');; slash = inside.find('/', slash + 1)) {
    const std::string place = join_path(target, inside.substr(0, slash));
    if (slash == std::string::npos && read_only) {
      shared_.emplace_back(ReadOnlyOp{place});
    } else {
      shared_.emplace_back(PinOp{place});
    }
    if (slash == std::string::npos) return;
  }
}

// What the next sbx trusts, should it lie in a writable share: its own program, what it remembers of toolchains and
// builds (CI systems like to have XDG_CACHE_HOME in the project), the user's policies.
void Execution::protect_ourselves(const std::string& source, const std::string& target) {
  std::vector<std::string> places = {"/proc/self/exe", cache_directory()};
  if (!search_.config_directory.empty()) places.push_back(dir_name(search_.config_directory));
  for (const std::string& path : places) {
    // What is not there cannot be mounted over.
    if (path_is_under(path, source)) (void)make_directories(path, 0700);
    const Result<std::string> real = sys::realpath(path);
    if (!real.ok() || real.value() == source || !path_is_under(real.value(), source)) continue;
    keep_place(std::string_view(real.value()).substr(source.size()), target, true);
  }
}

Status Execution::share_mounts() {
  if (request_.workspace.has_value() && request_.workspace->mode == WorkspaceMode::read_write) {
    SBX_TRY(guard_directory(workspace_, kBoxDirectory));
  }
  for (const MountArgument& mount : request_.mounts) {
    const std::string shown = "'" + printable(mount.source) + "'";
    Result<std::string> real = sys::realpath(mount.source);
    if (!real.ok()) {
      const int errnum = real.error().errnum();
      return Error(kind_of_bad_path(errnum), (errnum == ENOENT ? "no such file or directory: " + shown
                                                               : "cannot use " + shown + ": " + errno_text(errnum)))
          .with_origin("flag --mount")
          .with_hint("--mount takes SRC[:DST][:ro|:rw], SRC being a path of this host");
    }
    const struct stat info = SBX_TRY(sys::stat(real.value()));
    if (!request_.allow_sensitive_mount) {
      SBX_TRY(check_mount_source(real.value(), info.st_mode, facts_, "flag --mount"));
    }
    std::string target = mount.target;
    if (target.empty()) {
      target = mount.source[0] == '/' ? mount.source : join_path(SBX_TRY(sys::getcwd()), mount.source);
    } else if (target[0] != '/') {
      return Error(ErrorKind::usage, "the target '" + printable(target) + "' is not an absolute path")
          .with_origin("flag --mount")
          .with_hint("for a place in the working directory: --mount " + shell_quote(mount.source + ":/box/" + target));
    }
    target = normalize_path(target);
    for (const char* taken : {"/proc", "/sys", "/dev", "/run/sbx"}) {
      // Below /dev only what somebody who shares devices asks for.
      const bool device = std::string_view(taken) == "/dev" && target != "/dev" && request_.allow_sensitive_mount;
      if (path_is_under(target, taken) && !device) {
        return Error(ErrorKind::usage, "nothing can be mounted at '" + printable(target) + "': " + taken +
                                           " belongs to the sandbox")
            .with_origin("flag --mount")
            .with_hint("name another place: --mount " + shell_quote(mount.source + ":/mnt"));
      }
    }
    if (target == "/") {
      return Error(ErrorKind::usage, "nothing can be mounted at '/'")
          .with_origin("flag --mount")
          .with_hint("name another place: --mount " + shell_quote(mount.source + ":/mnt"));
    }
    BindOp bind;
    bind.source = real.take();
    bind.target = target;
    bind.read_only = mount.read_only;
    bind.devices = request_.allow_sensitive_mount && (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode));
    bind.idmap = true;
    bind.source_mode = info.st_mode;
    bind.no_links = true;
    bind.sockets = request_.allow_sensitive_mount;
    bind.origin = "flag --mount";
    const std::string source = bind.source;
    shared_.emplace_back(std::move(bind));
    if (!mount.read_only && S_ISDIR(info.st_mode)) SBX_TRY(guard_directory(source, target));
  }
  // Whoever asked for it: what the host trusts in a directory of its own is guarded.
  for (const PolicyLayer& layer : layers_) {
    for (const FsOp& op : layer.mounts) {
      const BindOp* bind = std::get_if<BindOp>(&op);
      if (bind == nullptr || bind->read_only || !S_ISDIR(bind->source_mode)) continue;
      // All of the host, writable, with --allow-sensitive-mount: what it trusts is everywhere, and policy check says so.
      if (!layer.whole_host.empty() && bind->origin == layer.whole_host) continue;
      SBX_TRY(guard_directory(bind->source, bind->target));
    }
  }
  return {};
}

// Where a file of the workspace is seen inside; "" when it lies outside or leads out of it by a link.
std::string Execution::inside_path_of(const std::string& host_path) const {
  if (workspace_.empty() || host_path.empty()) return "";
  Result<std::string> real = sys::realpath(host_path);
  Result<std::string> parent = sys::realpath(dir_name(host_path));
  if (!real.ok() || !parent.ok()) return "";
  if (!path_is_under(real.value(), workspace_) || !path_is_under(parent.value(), workspace_)) return "";
  // Under the name that the caller used for it, so that tracebacks read right.
  return normalize_path(kBoxDirectory + parent.value().substr(workspace_.size()) + "/" + base_name(host_path));
}

// A file that is named inside the workspace and lies elsewhere: an untrusted checkout could have its own choice of the
// caller's files shown as a program.
bool Execution::leads_out_of_workspace(const std::string& host_path) const {
  if (workspace_.empty() || host_path.empty()) return false;
  const Result<std::string> real = sys::realpath(host_path);
  const Result<std::string> directory = sys::getcwd();
  const std::string named = host_path[0] == '/' || !directory.ok() ? host_path : join_path(directory.value(), host_path);
  const Result<std::string> parent = sys::realpath(dir_name(host_path));
  if (!real.ok() || path_is_under(real.value(), workspace_)) return false;
  return path_is_under(normalize_path(named), workspace_) || (parent.ok() && path_is_under(parent.value(), workspace_));
}

// Before the run, and before the state of a writable workspace is looked at: what the payload puts in the destination's
// place, a link to somewhere else, must lead nobody there.
Status Execution::open_artifacts() {
  if (request_.artifacts_directory.empty()) return {};
  Result<UniqueFd> opened = open_artifacts_destination(request_.artifacts_directory);
  if (!opened.ok()) {
    const int errnum = opened.error().errnum();
    return Error(kind_of_bad_path(errnum), "cannot use '" + printable(request_.artifacts_directory) + "': " + errno_text(errnum))
        .with_origin("flag --artifacts")
        .with_hint("--artifacts takes a directory that you may write; it is made if missing");
  }
  artifacts_directory_ = opened.take();
  return {};
}

Status Execution::choose_program() {
  Result<Program> program = read_program(request_.program);
  if (!program.ok()) {
    // "sbx run python main.py": the FILE that is missing is the name of a language.
    const std::string& word = request_.program.value;
    const bool missing = request_.program.kind == ProgramSource::Kind::file && !request_.arguments.empty() && !sys::lstat(word).ok();
    if (missing && request_.language.empty()) {
      const std::vector<RunnerSpec> runners = SBX_TRY(load_runners(search_, word));
      const bool language = std::any_of(runners.begin(), runners.end(), [&](const RunnerSpec& runner) {
        return runner.name == word || std::find(runner.aliases.begin(), runner.aliases.end(), word) != runner.aliases.end();
      });
      if (language) {
        return program.take_error().with_hint(language_first_hint(word, request_.arguments));
      }
    }
    // "sbx run --workspace DIR main.py": FILE is a path of here, not of the workspace.
    if (request_.workspace && request_.program.kind == ProgramSource::Kind::file && !sys::lstat(word).ok()) {
      const std::string within = join_path(request_.workspace->directory, word);
      if (sys::lstat(within).ok()) return program.take_error().with_hint("FILE is a path from here: sbx run --workspace " + shell_quote(request_.workspace->directory) + " " + shell_quote(within));
    }
    return program.take_error();
  }
  program_ = program.take();
  // One language is cheaper to read than all. Only when that one does not do (an alias in another case, an unknown
  // word) the whole list is needed, for the choice or for the error's text.
  std::string mention = request_.language;
  if (mention.empty()) {
    const size_t dot = program_.name.rfind('.');
    mention = dot == std::string::npos || dot == 0 ? shebang_interpreter(program_.head) : program_.name.substr(dot);
  }
  if (!mention.empty()) {
    runners_ = SBX_TRY(load_runners(search_, mention));
    if (Result<LanguageChoice> choice =
            choose_language(runners_, request_.language, program_.name, program_.head); choice.ok()) {
      language_ = choice.take();
    }
  }
  if (language_.runner == nullptr) {
    runners_ = SBX_TRY(load_runners(search_));
    language_ = SBX_TRY(choose_language(runners_, request_.language, program_.name, program_.head));
  }
  const RunnerSpec& runner = *language_.runner;
  const bool unnamed = program_.name.empty();
  if (unnamed) {
    program_.name = runner.source_name;
    SBX_TRY(put_prefix(program_, runner.text_prefix, runner.text_prefix_unless));
  }
  if (!request_.compile_flags.empty() && !runner.compile.has_value()) {
    return Error(ErrorKind::usage, runner.title + " has no compile step, so --compile-flag has no meaning")
        .with_origin("flag --compile-flag")
        .with_hint("leave it out; arguments of the program follow FILE");
  }
  source_ = inside_path_of(program_.host_path);
  program_shared_ = !source_.empty();
  if (!program_shared_ && leads_out_of_workspace(program_.host_path) && !request_.allow_sensitive_mount) {
    return Error(ErrorKind::usage, "'" + printable(program_.host_path) + "' is a link that leads out of the workspace")
        .with_hint("whoever made the workspace chose what it leads to; name the file itself if you mean it");
  }
  if (!program_shared_) {
    if (runner.has_hook(RunnerHook::java_source_name)) {
      program_.name = java_source_name(SBX_TRY(program_text(program_)), program_.name);
    }
    source_ = join_path(workspace_.empty() ? kBoxDirectory : kSourceDirectory, program_.name);
  }
  if (!runner.limits.values.empty()) {
    // Above the default policy, below everything that the caller chose.
    layers_.insert(layers_.begin() + 1, runner.limits);
    merged_ = SBX_TRY(merge_layers(layers_));
  }
  note("language " + runner.name + ", by " + language_.why);
  if (request_.evaluator) driver_ = SBX_TRY(request_.evaluator(runner.name));
  return {};
}

Status Execution::place_files() {
  const bool private_box = workspace_.empty();
  const std::string place = private_box ? kBoxDirectory : kSourceDirectory;
  if (!private_box && (!request_.files.empty() || (!request_.exec && !program_shared_))) {
    placed_.emplace_back(DirOp{kSourceDirectory, 0755});
  }
  std::vector<std::string> taken;
  if (!request_.exec && !program_shared_) {
    taken.push_back(program_.name);
    placed_.emplace_back(
        CopyFdOp{source_, FdNumber{program_.content.get()}, program_.executable ? uint32_t{0755} : uint32_t{0644}});
  }
  if (!request_.exec) sources_.push_back(source_);
  std::vector<std::string> directories;
  for (const FileArgument& argument : request_.files) {
    SBX_TRY(check_file_name(argument));
    if (std::find(taken.begin(), taken.end(), argument.name) != taken.end()) {
      const bool own = !request_.exec && argument.name == program_.name;
      return Error(ErrorKind::usage, "two files would be '" + printable(argument.name) + "'" +
                                         (own ? ": that is the program's own name" : ""))
          .with_origin("flag --file")
          .with_hint("give one another name: --file " + shell_quote(argument.source + ":NAME"));
    }
    taken.push_back(argument.name);
    ExtraFile file = SBX_TRY(open_extra_file(argument));
    for (size_t slash = argument.name.find('/'); slash != std::string::npos; slash = argument.name.find('/', slash + 1)) {
      const std::string directory = place + "/" + argument.name.substr(0, slash);
      if (std::find(directories.begin(), directories.end(), directory) != directories.end()) continue;
      directories.push_back(directory);
      placed_.emplace_back(DirOp{directory, 0755});
    }
    placed_.emplace_back(CopyFdOp{place + "/" + argument.name, FdNumber{file.content.get()},
                                  file.executable ? uint32_t{0755} : uint32_t{0644}});
    if (!request_.exec && is_source_of(*language_.runner, argument.name)) sources_.push_back(place + "/" + argument.name);
    if (private_box) files_in_box_.emplace_back(argument.name, SBX_TRY(sys::dup(file.content.get())));
    held_.push_back(std::move(file.content));
  }
  return {};
}

ToolchainRequest Execution::toolchain_request(const RunnerSpec* runner) const {
  ToolchainRequest wanted;
  wanted.runner = runner;
  wanted.choose = request_.toolchain;
  wanted.venv = request_.venv;
  wanted.working_directory = caller_directory_;
  wanted.environment = environment_;
  wanted.cache_directory = cache_directory();
  return wanted;
}

// The caller's own; "": none.
std::string Execution::cache_directory() const {
  const auto cache = environment_.find("XDG_CACHE_HOME");
  if (cache != environment_.end() && starts_with(cache->second, "/")) return normalize_path(cache->second + "/sbx");
  return facts_.home.empty() ? "" : facts_.home + "/.cache/sbx";
}

// Runs what finds an interpreter: the default policy, nothing of the caller's but the mounts that the finder names.
ProbeRunner Execution::probe_runner() {
  return [this](const ProbeSpec& probe) -> Result<std::string> {
    if (probe.argv.empty()) return Error(ErrorKind::internal, "a probe without a command");
    ResolveInput input;
    if (!whole_view_) input.rootfs = rootfs_;
  input.box_in_whole_view = !request_.exec || !request_.files.empty();
    if (!probe.working_directory.empty() && probe.working_directory != "/") {
      input.working_directory = probe.working_directory;
      const Result<std::string> real = sys::realpath(probe.working_directory);
      // Rustup looks at the name of the directory that it is called in.
      if (!real.ok() || !is_system_path(real.value())) input.extra.emplace_back(DirOp{probe.working_directory, 0755});
    }
    for (const BindOp& mount : probe.mounts) input.extra.emplace_back(mount);
    input.argv = probe.argv;
    input.exec_path = probe.argv[0];
    SandboxSpec spec = SBX_TRY(resolve(base_layers(), facts_, std::move(input)));
    // A shim needs the caller's PATH and choice of version, whatever the policy says of them.
    for (const std::string& variable : probe.environment) {
      const std::string name = variable.substr(0, variable.find('=') + 1);
      std::erase_if(spec.environment, [&](const std::string& entry) { return starts_with(entry, name); });
      spec.environment.push_back(variable);
    }
    spec.limits.wall = kProbeTime;
    spec.limits.output = kProbeOutput;
    spec.net = NetMode::none;
    RunOptions options;
    options.stdio.out.capture = true;
    options.stdio.out.capture_limit = kProbeOutput.value;
    options.stdio.err.capture = true;
    options.stdio.err.capture_limit = kProbeOutput.value;
    options.progress = &progress_;
    RunResult result = engine_(spec, facts_, options);
    Outcome& outcome = result.outcome;
    if (outcome.verdict == Verdict::setup_failed && outcome.setup_error.has_value()) {
      return Error(*outcome.setup_error).with_context("asking '" + printable(probe.argv[0]) + "'");
    }
    if (outcome.verdict == Verdict::exited && outcome.exit_code == 0) return std::move(outcome.out.kept);
    if (outcome.verdict == Verdict::killed) return interrupt(outcome);
    std::string tail(trim(outcome.err.kept.empty() ? outcome.stderr_tail : outcome.err.kept));
    if (tail.size() > 256) tail = tail.substr(tail.size() - 256);
    const std::string what = outcome.verdict == Verdict::exited
                                 ? "ended with status " + std::to_string(outcome.exit_code)
                                 : std::string(verdict_name(outcome.verdict));
    return Error(ErrorKind::not_found, "'" + printable(probe.argv[0]) + "' " + what +
                                           (tail.empty() ? "" : ": " + printable(tail)));
  };
}

// Where the tool's companions lie: behind the links of /usr/bin, which may lead to another version for each of them. Looked
// up only for a runner that has words for it.
std::string tool_directory(const RunnerSpec& runner, const Toolchain& tool) {
  std::vector<std::string> words = runner.run_argv;
  const auto add = [&](const std::vector<std::string>& argv, const std::map<std::string, std::string>& environment) {
    words.insert(words.end(), argv.begin(), argv.end());
    for (const auto& [name, value] : environment) words.push_back(value);
  };
  add({}, runner.environment);
  if (runner.compile) add(runner.compile->argv, runner.compile->environment);
  if (runner.prepare) add(runner.prepare->argv, runner.prepare->environment);
  const bool used = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.find("{tool_dir}") != std::string::npos;
  });
  if (!used) return dir_name(tool.executable);
  const Result<std::string> real = sys::realpath(tool.executable);
  return dir_name(real.ok() && is_system_path(real.value()) ? real.value() : tool.executable);
}

// The tools of the languages that `runner` uses as well, with what they need to be seen.
Result<std::map<std::string, Toolchain>> Execution::find_used(const RunnerSpec& runner, const ProbeRunner& probe) const {
  std::map<std::string, Toolchain> found;
  for (const std::string& name : runner.uses) {
    const std::vector<RunnerSpec> runners = SBX_TRY(load_runners(search_, name));
    const auto other = std::find_if(runners.begin(), runners.end(),
                                    [&](const RunnerSpec& candidate) { return candidate.name == name; });
    if (other == runners.end()) {
      return Error(ErrorKind::policy, "no language is called '" + printable(name) + "'").with_origin(runner.origin);
    }
    ToolchainRequest wanted = toolchain_request(&*other);
    wanted.choose.clear();
    wanted.venv.clear();
    found.emplace(name, SBX_TRY_CTX(find_toolchain(wanted, facts_, probe), runner.title + " needs " + other->title));
  }
  return found;
}

// The first of the runner and its alternatives whose tools are all there. Error: the one of the runner itself.
Result<FoundTools> Execution::find_tools(const RunnerSpec& runner, const ProbeRunner& probe) const {
  std::vector<const RunnerSpec*> candidates = {&runner};
  for (const RunnerSpec& other : runner.alternatives) candidates.push_back(&other);
  // A path says by its name which of them is meant.
  if (request_.toolchain.find('/') != std::string::npos) {
    const std::string name = base_name(request_.toolchain);
    std::stable_partition(candidates.begin(), candidates.end(), [&](const RunnerSpec* candidate) {
      return std::find(candidate->commands.begin(), candidate->commands.end(), name) != candidate->commands.end();
    });
  }
  std::optional<Error> first;
  for (const RunnerSpec* candidate : candidates) {
    FoundTools tools;
    tools.runner = candidate;
    Result<Toolchain> tool = find_toolchain(toolchain_request(candidate), facts_, probe);
    if (tool.ok()) {
      tools.tool = tool.take();
      Result<std::map<std::string, Toolchain>> used = find_used(*candidate, probe);
      if (used.ok()) {
        tools.used = used.take();
        return tools;
      }
      if (!first || candidate == &runner) first = used.take_error();
      continue;
    }
    if (!first) first = tool.take_error();
  }
  return std::move(*first);
}

Status Execution::find_tool() {
  const ProbeRunner probe = probe_runner();
  progress_.begin("looking for " + language_.runner->title);
  FoundTools found = SBX_TRY(find_tools(*language_.runner, probe));
  language_.runner = found.runner;
  toolchain_ = std::move(found.tool);
  if (request_.want_result && toolchain_.version.empty()) {
    // Only said, never needed: a tool that does not tell its version still runs.
    if (Result<std::string> version = toolchain_version(toolchain_request(found.runner), toolchain_, probe); version.ok()) {
      toolchain_.version = version.take();
    }
  }
  progress_.end();
  for (const BindOp& mount : toolchain_.mounts) tool_mounts_.emplace_back(mount);
  note("tool " + toolchain_.executable + (toolchain_.version.empty() ? "" : " " + toolchain_.version) + ", by " +
       toolchain_.origin);
  for (auto& [name, used] : found.used) {
    tools_[name] = used.executable;
    for (const BindOp& mount : used.mounts) {
      const FsOp op = mount;
      if (std::find(tool_mounts_.begin(), tool_mounts_.end(), op) == tool_mounts_.end()) tool_mounts_.push_back(op);
    }
    toolchain_.path_prepend.insert(toolchain_.path_prepend.end(), used.path_prepend.begin(), used.path_prepend.end());
    toolchain_.environment.merge(used.environment);
    note("tool " + used.executable + ", by " + used.origin);
  }
  return {};
}

// The host directory with what `runner`, which has `prepare`, makes once; "" : there is none. `hooks`: what is to be
// seen in that sandbox besides the toolchain.
std::string Execution::prepared_by(const RunnerSpec& runner, const std::vector<FsOp>& hooks) {
  PrepareRequest wanted;
  wanted.runner = &runner;
  wanted.tool = &toolchain_;
  wanted.values.tool = toolchain_.executable;
  wanted.values.tool_directory = tool_directory(runner, toolchain_);
  wanted.values.tools = tools_;
  wanted.values.memory = kPrepareMemory;
  wanted.cache_directory = toolchain_request(&runner).cache_directory;
  const PrepareRunner run = [&](const std::vector<std::string>& argv,
                                const std::vector<std::pair<std::string, std::string>>& environment) -> Result<UniqueFd> {
    progress_.begin("preparing " + runner.title + ", once for this toolchain");
    ResolveInput input;
    input.rootfs = rootfs_;
    input.extra = tool_mounts_;
    input.extra.insert(input.extra.end(), hooks.begin(), hooks.end());
    input.extra.emplace_back(PrivateDirOp{kPreparedDirectory, 0755});
    input.argv = argv;
    input.exec_path = argv[0];
    input.environment.assign(toolchain_.environment.begin(), toolchain_.environment.end());
    input.environment.insert(input.environment.end(), environment.begin(), environment.end());
    input.path_prepend = toolchain_.path_prepend;
    SandboxSpec spec = SBX_TRY(resolve(base_layers(), facts_, std::move(input)));
    spec.limits.wall = kPrepareTime;
    spec.limits.memory = kPrepareMemory;
    spec.limits.disk = kPrepareDisk;
    spec.limits.file_size = kPrepareDisk;
    spec.net = NetMode::none;
    RunOptions options;
    options.stdio.out.capture = options.stdio.err.capture = true;
    options.stdio.out.capture_limit = options.stdio.err.capture_limit = kProbeOutput.value;
    options.keep_directories = {kPreparedDirectory};
    RunResult result = engine_(spec, facts_, options);
    progress_.end();
    note_outcome("prepare", result.outcome);
    const Outcome& outcome = result.outcome;
    if (outcome.setup_error.has_value()) return *outcome.setup_error;
    if (outcome.verdict == Verdict::killed) return interrupt(outcome);
    if (outcome.verdict != Verdict::exited || outcome.exit_code != 0 || result.kept_directories.empty()) {
      std::string tail(trim(outcome.err.kept));
      if (tail.size() > 256) tail = tail.substr(tail.size() - 256);
      return Error(ErrorKind::not_found, std::string(verdict_name(outcome.verdict)) + ", status " +
                                             std::to_string(outcome.exit_code) + (tail.empty() ? "" : ": " + printable(tail)));
    }
    return std::move(result.kept_directories[0]);
  };
  return prepared_directory(wanted, run, [this](const std::string& line) { note(line); });
}

// What the tools need besides themselves: [files], and what [prepare] makes once, where the steps of this run see it.
Status Execution::prepare_tool() {
  const RunnerSpec& runner = *language_.runner;
  if (!runner.files.empty()) tool_mounts_.emplace_back(DirOp{kFilesDirectory, 0755});
  for (const auto& [name, text] : runner.files) {
    tool_mounts_.emplace_back(FileOp{join_path(kFilesDirectory, name), text, 0644});
  }
  if (!runner.prepare.has_value()) return {};
  const std::string directory = prepared_by(runner, {});
  if (directory.empty()) {
    // Each step does the work for itself then.
    tool_mounts_.emplace_back(PrivateDirOp{kPreparedDirectory, 0755});
  } else if (runner.prepare->writable) {
    prepared_ = OverlayOp{directory, kPreparedDirectory, runner.origin};
  } else {
    BindOp bind;
    bind.source = directory;
    bind.target = kPreparedDirectory;
    bind.no_links = true;
    bind.origin = runner.origin;
    prepared_ = std::move(bind);
  }
  if (prepared_) tool_mounts_.push_back(*prepared_);
  return {};
}

// Whether a host path is seen inside at the same path through the root manifest, a policy's mounts or what the caller shares.
bool Execution::is_visible(const std::string& host_path) const {
  Result<std::string> real = sys::realpath(host_path);
  const auto covered = [&](const std::string& path) {
    std::vector<const std::vector<FsOp>*> lists{&rootfs_, &shared_};
    for (const PolicyLayer& layer : layers_) lists.push_back(&layer.mounts);
    for (const std::vector<FsOp>* list : lists) {
      for (const FsOp& op : *list) {
        const BindOp* bind = std::get_if<BindOp>(&op);
        if (bind != nullptr && bind->source == bind->target && path_is_under(path, bind->target)) return true;
      }
    }
    return false;
  };
  // The name as well as what it leads to: a virtual environment's python is a link into /usr, and is not /usr's.
  Result<std::string> directory = sys::realpath(dir_name(host_path));
  return real.ok() && covered(real.value()) && directory.ok() && covered(directory.value());
}

// exec: what the command's first word means inside.
Status Execution::choose_command() {
  if (request_.command.empty() || request_.command[0].empty()) {
    return Error(ErrorKind::usage, "no command given").with_hint("for instance: sbx exec -- ls -l /");
  }
  const std::string& word = request_.command[0];
  command_.argv = request_.command;
  command_.exec_path = word;
  if (whole_view_) {  // what there is, and where, the policy says
    if (word.find('/') != std::string::npos && word[0] != '/') command_.exec_path = normalize_path(working_directory_ + "/" + word);
    return {};
  }
  if (word.find('/') != std::string::npos) {
    if (word[0] != '/') {
      command_.exec_path = normalize_path(working_directory_ + "/" + word);
      // A relative path is one of the sandbox. Somebody who means a file here and shared nothing is told so.
      const bool placed = std::any_of(request_.files.begin(), request_.files.end(), [&](const FileArgument& file) {
        return normalize_path("/box/" + file.name) == command_.exec_path;
      });
      const Result<struct stat> here = sys::stat(word);
      if (workspace_.empty() && !placed && here.ok()) {
        if (S_ISREG(here.value().st_mode) && (here.value().st_mode & 0111) == 0) {
          return Error(ErrorKind::not_executable, "'" + printable(word) + "' is not executable")
              .with_hint("source code runs with: sbx run " + shell_quote(word) + "; a program needs: chmod +x " +
                         shell_quote(word));
        }
        const std::vector<std::string> flags = {"--file", word};
        const std::string command = command_with(request_, flags);
        return Error(ErrorKind::not_found, "'" + printable(word) + "' is here, but not in the sandbox")
            .with_hint("share it: " + (command.empty() ? "add --file " + shell_quote(word) : command));
      }
      return {};
    }
    const std::string path = normalize_path(word);
    const auto seen = [&](const FsOp& op) {
      const BindOp* bind = std::get_if<BindOp>(&op);
      return bind != nullptr && path_is_under(path, bind->target);
    };
    const bool visible = is_visible(path) || std::any_of(shared_.begin(), shared_.end(), seen) ||
                         path_is_under(path, kBoxDirectory);
    if (!visible && sys::stat(path).ok()) {
      // What the policy makes at this very place (the synthetic /etc/passwd) is there, whatever the host's is; and only the
      // sandbox knows what is below a tree or a link of a policy's.
      const SandboxSpec spec = SBX_TRY(make_spec(command_, shared_, false));
      const auto made_there = [&](const FsOp& op) {
        const bool leads_on = std::holds_alternative<BindOp>(op) || std::holds_alternative<SymlinkOp>(op);
        return std::visit([&](const auto& any) { return any.target == path || (leads_on && path_is_under(path, any.target)); }, op);
      };
      if (std::any_of(spec.fs.begin(), spec.fs.end(), made_there)) return {};
      Error error(ErrorKind::not_found, "'" + printable(word) + "' is on this host, but not in the sandbox");
      const Result<std::string> directory = sys::realpath(dir_name(path));
      if (!directory.ok() || !check_mount_source(directory.value(), 0, facts_, "").ok()) {
        return std::move(error).with_hint("copy it in: sbx exec --file " + shell_quote(path) + " -- " +
                                          shell_quote("./" + base_name(path)));
      }
      const std::vector<std::string> flags = {"--mount", dir_name(path)};
      const std::string command = command_with(request_, flags);
      return std::move(error).with_hint("share its directory: " +
                                        (command.empty() ? "add --mount " + shell_quote(dir_name(path)) : command));
    }
    return {};
  }
  const auto path = environment_.find("PATH");
  if (path == environment_.end()) return {};
  for (const std::string& directory : split(path->second, ':')) {
    if (directory.empty() || directory[0] != '/') continue;
    const std::string candidate = join_path(directory, word);
    const Result<struct stat> info = sys::stat(candidate);
    if (!info.ok() || !S_ISREG(info.value().st_mode) || ::access(candidate.c_str(), X_OK) != 0) continue;
    // Seen inside at the same path: the sandbox's own PATH has it, and the engine looks it up there.
    if (is_visible(candidate)) return {};
    runners_ = SBX_TRY(load_runners(search_));
    const RunnerSpec* runner = runner_of_command(runners_, word);
    if (runner != nullptr) adhoc_runner_ = *runner;
    else adhoc_runner_.name = adhoc_runner_.title = word;
    adhoc_runner_.commands = {word};
    language_ = {nullptr, ""};
    const ToolchainRequest wanted = toolchain_request(&adhoc_runner_);
    progress_.begin("looking for " + printable(word, 40));
    Result<Toolchain> found = find_toolchain(wanted, facts_, probe_runner());
    progress_.end();
    if (!found.ok()) {
      note("'" + printable(candidate) + "' cannot be shown inside: " + found.error().text());
      return {};
    }
    toolchain_ = found.take();
    for (const BindOp& mount : toolchain_.mounts) tool_mounts_.emplace_back(mount);
    command_.exec_path = toolchain_.executable;
    // Interpreters find their own library by argv[0]: a bare "python3" would be looked up in the PATH inside, and the
    // one found take /usr's.
    command_.argv[0] = toolchain_.executable;
    note("command " + toolchain_.executable + ", by " + toolchain_.origin);
    return {};
  }
  // On no PATH, but here: a source file that is not shared, most likely.
  const Result<struct stat> here = sys::stat(word);
  if (workspace_.empty() && request_.files.empty() && here.ok() && S_ISREG(here.value().st_mode)) {
    return Error(ErrorKind::not_found, "'" + printable(word) + "' is a file here, and no command")
        .with_hint("source code runs with: sbx run " + shell_quote(word) + "; a program with: sbx exec --file " + shell_quote(word) + " -- " +
                   shell_quote("./" + word));
  }
  return {};
}

Result<SandboxSpec> Execution::make_spec(const Step& step, std::vector<FsOp> extra, bool compiling, bool last) {
  ResolveInput input;
  input.rootfs = last ? std::move(rootfs_) : rootfs_;
  input.extra = std::move(extra);
  input.argv = step.argv;
  input.exec_path = step.exec_path;
  input.working_directory = working_directory_;
  if ((stdio_.stdin_tty || stdio_.out.tty || stdio_.err.tty) && !compiling) {
    if (const auto term = environment_.find("TERM"); term != environment_.end()) input.environment.push_back(*term);
  }
  input.environment.insert(input.environment.end(), toolchain_.environment.begin(), toolchain_.environment.end());
  input.environment.insert(input.environment.end(), step.environment.begin(), step.environment.end());
  input.path_prepend = toolchain_.path_prepend;
  input.allow_sensitive_mount = request_.allow_sensitive_mount;
  input.private_box = workspace_.empty();
  input.caller_environment = environment_;
  input.resolv_conf = resolv_conf_;
  input.compile_step = compiling;
  if (const std::optional<uint64_t> cpus = limit_of<uint64_t>("limits.cpus"); cpus.has_value()) {
    // Affinity holds the limit, and some runtimes count by it. The C library counts by this file (os.cpu_count() of
    // Python, std::thread::hardware_concurrency()), and the machine's own is not shown.
    const std::string folder = "/sys/devices/system/cpu";
    for (size_t slash = folder.find('/', 1); slash != std::string::npos; slash = folder.find('/', slash + 1)) {
      input.extra.emplace_back(DirOp{folder.substr(0, slash), 0755});
    }
    input.extra.emplace_back(DirOp{folder, 0755});
    input.extra.emplace_back(FileOp{folder + "/online", online_cpus(*cpus), 0444});
  }
  input.merged = &merged_;
  return resolve(layers_, facts_, std::move(input));
}

Status Execution::plan_stdio() {
  StdioPlan& plan = stdio_;
  const bool program_on_stdin = !request_.exec && request_.program.kind == ProgramSource::Kind::standard_input;
  if (!request_.stdin_file.empty()) {
    Result<UniqueFd> opened = sys::open(request_.stdin_file, O_RDONLY | O_NOCTTY);
    const std::string shown = "'" + printable(request_.stdin_file) + "'";
    if (!opened.ok()) {
      const int errnum = opened.error().errnum();
      return Error(kind_of_bad_path(errnum), errnum == ENOENT ? "no such file: " + shown
                                                              : "cannot open " + shown + ": " + errno_text(errnum))
          .with_origin("flag --stdin")
          .with_hint("--stdin FILE gives the program its input; for none: --stdin /dev/null");
    }
    const struct stat info = SBX_TRY(sys::fstat(opened.value().get()));
    if (S_ISDIR(info.st_mode)) {
      return Error(ErrorKind::usage, shown + " is a directory")
          .with_origin("flag --stdin")
          .with_hint("--stdin takes a file");
    }
    stdin_file_ = opened.take();
    plan.stdin_fd = stdin_file_.get();
  } else if (!program_on_stdin) {
    plan.stdin_fd = STDIN_FILENO;
  }
  plan.out.capture = plan.err.capture = request_.capture_streams;
  if (!request_.capture_streams) {
    plan.out.forward_fd = STDOUT_FILENO;
    plan.err.forward_fd = STDERR_FILENO;
  }
  const bool automatic = request_.tty == TtyMode::automatic;
  const bool always = request_.tty == TtyMode::always;
  if (request_.tty != TtyMode::never) {
    // Input from --stdin is a file's content, whatever --tty says. Captured output is bytes for a machine unless a
    // terminal was asked for.
    plan.stdin_tty = plan.stdin_fd == STDIN_FILENO && (always || ::isatty(STDIN_FILENO) == 1);
    plan.out.tty = always || (plan.out.forward_fd >= 0 && automatic && ::isatty(STDOUT_FILENO) == 1);
    plan.err.tty = always || (plan.err.forward_fd >= 0 && automatic && ::isatty(STDERR_FILENO) == 1);
  }
  if (plan.stdin_tty || plan.out.tty || plan.err.tty) {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      if (plan.terminal_fd < 0 && ::isatty(fd) == 1) plan.terminal_fd = fd;
    }
  }
  return {};
}

void Execution::note_spec(const SandboxSpec& spec) const {
  if (request_.verbosity <= 0 || !observer_.note) return;
  for (const std::string& line : split(spec_text(spec), '\n')) {
    if (line.empty()) continue;
    const std::string key = line.substr(0, line.find(' '));
    const auto origin = spec.origins.find(key);
    note("plan: " + printable(line, 400) + (origin == spec.origins.end() ? "" : "  (" + origin->second + ")"));
  }
}

void Execution::lap(const char* stage) {
  if (request_.verbosity <= 0) return;
  const uint64_t now = sys::monotonic_ns();
  if (lap_ns_ != 0) laps_ += (laps_.empty() ? "" : ", ") + (std::string(stage) + " " + std::to_string((now - lap_ns_) / 1000)) + " us";
  lap_ns_ = now;
}

// What stood between payload and host, one protection a line.
void Execution::note_isolation(const Isolation& isolation) const {
  if (isolation.namespaces.empty()) return;  // it never came to that
  note("protection: namespaces of its own: " + join(isolation.namespaces, ", "));
  note("protection: runs as " + isolation.identity + ", without capabilities but those of the policy, and gains none (no_new_privs)");
  note("protection: " + std::string(isolation.network == "none" ? "no network but its own loopback" : "none for the network: it is the host's"));
  if (isolation.seccomp_policy != "none") {
    note("protection: system call filter " + isolation.seccomp_policy +
         (isolation.seccomp_digest.empty() ? "" : ", sha256 " + isolation.seccomp_digest));
  } else {
    note("protection: no system call filter");
  }
  note(isolation.landlock_abi > 0 ? "protection: Landlock, ABI " + std::to_string(isolation.landlock_abi) + ": writes only where the plan says writable"
                                  : "protection: no Landlock: " + isolation.landlock_note);
}

void Execution::describe(const SandboxSpec& spec, Report& report) const {
  report.argv = spec.argv;
  report.limits = spec.limits;
  if (!request_.want_result) return;  // a twentieth of our own time, for a field that nobody would see
  report.policy_digest = spec_digest(spec);
  report.policy_origins.assign(spec.origins.begin(), spec.origins.end());
}

// Not for a quiet success: it takes the texts of the shipped policies, a millisecond.
void Execution::explain(const SandboxSpec& spec, Outcome& outcome) const {
  if (request_.want_result || request_.verbosity > 0 || exit_status(outcome) != 0) explain_denials(spec, outcome.denials);
}

void Execution::note_outcome(const char* what, const Outcome& outcome) const {
  if (request_.verbosity <= 0 || !observer_.note) return;
  std::string line = std::string(what) + ": " + verdict_name(outcome.verdict) + ", wall " +
                     std::to_string(outcome.usage.wall.value / 1000) + " ms";
  note(line);
  std::string times;
  for (const StageTime& stage : outcome.setup_times) {
    times += (times.empty() ? "" : ", ") + stage.stage + " " + std::to_string(stage.duration.value) + " us";
  }
  if (!laps_.empty()) note("before the sandbox: " + laps_);
  note_isolation(outcome.isolation);
  if (!times.empty()) note("set-up: " + times);
  for (const auto& [limit, holder] : outcome.isolation.limits_held_by) note("limit " + limit + " held by " + holder);
  for (const std::string& sentence : outcome.isolation.not_held) note("not held: " + sentence);
  if (exit_status(outcome) != 0) return;  // then they stand among the hints
  for (const Denial& denial : outcome.denials) note(denial_line(denial));
}

Result<bool> Execution::compile(const StepValues& values, Report& report, std::vector<Product>& products) {
  const RunnerSpec& runner = *language_.runner;
  StepValues own = values;
  own.memory = limit_of<Bytes>("limits.compile_memory");
  Step step;
  step.argv = SBX_TRY(expand_words(runner.compile->argv, own, runner.origin));
  step.exec_path = step.argv[0];
  step.environment = SBX_TRY(expand_environment(runner.compile->environment, own, runner.origin));
  // What the compiler makes goes to the build directory; the workspace it only reads.
  std::vector<FsOp> extra = read_only_view(shared_);
  add_tool_and_files(extra);
  extra.emplace_back(PrivateDirOp{kBuildDirectory, 0755});
  const SandboxSpec spec = SBX_TRY(make_spec(step, std::move(extra), true));
  note_spec(spec);

  CompileWish wish;
  const bool needed = std::any_of(runner.run_argv.begin(), runner.run_argv.end(),
                                  [](const std::string& word) { return word == "{out}"; });
  if (needed) wish.needed = base_name(values.output);
  wish.capture = request_.want_result;
  wish.forward = !request_.capture_streams;
  wish.cgroups = SBX_TRY(cgroups());
  if (request_.build_cache && !runner.compile->watch.empty() && !cache_directory().empty()) {
    BuildMemory& memory = wish.memory.emplace();
    memory.cache_directory = cache_directory();
    memory.watch = runner.compile->watch;
    memory.watch.push_back(values.tool);
    memory.uncached_words = runner.compile->uncached_words;
    memory.program_fd = program_.content.get();
    memory.vouched = rootfs_;
    if (prepared_) memory.vouched.push_back(*prepared_);
    memory.note = [this](const std::string& line) { note(line); };
  }
  wish.progress = &progress_;
  if (request_.verbosity > 1) wish.show_call = observer_.call;
  progress_.begin("compiling " + printable(program_.name));
  CompileResult result = SBX_TRY(run_compile_step(spec, facts_, wish, engine_));
  progress_.end();
  explain(spec, result.report.outcome);
  if (!result.report.cached) note_outcome("compile", result.report.outcome);
  report.compile = std::move(result.report);
  products = std::move(result.products);
  if (result.succeeded) return true;

  const Outcome& compiled = report.compile->outcome;
  describe(spec, report);
  report.outcome.isolation = compiled.isolation;
  report.outcome.setup_times = compiled.setup_times;
  if (compiled.verdict == Verdict::setup_failed || compiled.verdict == Verdict::killed) {
    report.outcome.verdict = compiled.verdict;
    report.outcome.signal = compiled.signal;
    report.outcome.setup_error = compiled.setup_error;
    report.exit_status = exit_status(compiled);
  } else {
    not_compiled(report, result.failure);
  }
  return false;
}

// compile_failed: the compiler said no, or (`failure`) what it made cannot be run.
void Execution::not_compiled(Report& report, const std::string& failure) const {
  const Outcome& compiled = report.compile->outcome;
  report.outcome.verdict = Verdict::compile_failed;
  report.outcome.exit_code = compiled.exit_code;
  report.outcome.signal = compiled.signal;
  report.exit_status = failure.empty() ? exit_status(compiled) : 1;
  if (!failure.empty()) report.hints.push_back(failure);
}

// Whether the file still holds what was placed there; both ends are read side by side.
bool same_content(int left, int right) {
  char a[16384];
  char b[16384];
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(left, a, sizeof a, at);
    const ssize_t other = ::pread(right, b, sizeof b, at);
    if (got != other || got < 0) return false;
    if (got == 0) return true;
    if (!std::equal(a, a + got, b)) return false;
    at += got;
  }
}

// Whatever the caller wants to see: set-id bits and what the host would trust never stay behind.
void Execution::sweep(Report& report) const {
  for (const Guarded& entry : guarded_) {
    if (Result<SweepReport> swept = sweep_workspace(entry.directory.get(), entry.guard); swept.ok()) {
      for (std::string& line : swept.value().notes) report.artifact_notes.push_back(std::move(line));
    } else {
      report.artifact_notes.push_back("'" + printable(entry.shown) + "' could not be swept: " + swept.error().text());
    }
  }
}

void Execution::gather_artifacts(RunResult& result, Report& report) {
  if (!wants_artifacts()) return;
  ArtifactBounds bounds;
  int directory = -1;
  const bool overlay = request_.workspace.has_value() && request_.workspace->mode == WorkspaceMode::overlay;
  const bool writable = request_.workspace.has_value() && request_.workspace->mode == WorkspaceMode::read_write;
  const Baseline nothing;
  const Baseline& before = writable ? guarded_[0].guard.before : nothing;
  if (writable) {
    if (!guarded_[0].guard.before_complete) {
      report.artifact_notes.push_back("the workspace has too many files to tell which of them are new");
      return;
    }
    directory = guarded_[0].directory.get();
  } else if ((workspace_.empty() || overlay) && !result.kept_directories.empty() && result.kept_directories[0].valid()) {
    directory = result.kept_directories[0].get();
  }
  if (directory < 0) return;
  bounds.private_tree = !writable;

  std::vector<std::string> exclude;
  if (!request_.exec && workspace_.empty()) exclude.push_back(program_.name);
  for (const auto& [name, content] : files_in_box_) {
    constexpr unsigned long long kBeneath =
        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
    Result<UniqueFd> now = sys::openat2(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0, kBeneath);
    if (!now.ok()) continue;
    Result<struct stat> info = sys::fstat(now.value().get());
    if (!info.ok() || !S_ISREG(info.value().st_mode)) continue;
    if (same_content(now.value().get(), content.get())) exclude.push_back(name);
  }
  Result<ArtifactList> list = list_artifacts(directory, before, exclude, overlay, bounds);
  if (!list.ok()) {
    report.artifact_notes.push_back("the artifacts could not be listed: " + list.error().text());
    return;
  }
  report.artifacts = list.take();
  if (!artifacts_directory_.valid()) return;
  Status copied = copy_artifacts(directory, report.artifacts, artifacts_directory_.get(), bounds);
  if (copied.ok()) return;
  report.artifact_notes.push_back("the artifacts could not be copied: " + copied.error().text());
  if (report.exit_status == 0) report.exit_status = 1;  // what was asked for is not there
}

Status Execution::add_plot_hooks(Step& step, std::vector<FsOp>& extra) {
  const RunnerPlots& plots = *language_.runner->plots;
  std::vector<FsOp> hooks = {DirOp{kHooksDirectory, 0755}};
  std::string all;
  for (const std::string& name : plots.files) {
    const std::string_view* content = embedded_file("policies/lang/hooks/" + name);
    if (content == nullptr) return Error(ErrorKind::internal, "the hook '" + name + "' is not embedded");
    hooks.emplace_back(FileOp{join_path(kHooksDirectory, name), std::string(*content), 0644});
    all += *content;
  }
  std::string directory;
  if (!plots.prepare.empty()) {
    RunnerSpec preparing = *language_.runner;
    // The digest is there to tell the hooks of one sbx from those of another.
    preparing.prepare = RunnerPrepare{plots.prepare, {{"SBX_HOOKS", sha256_hex(all)}}};
    const Result<std::string> text = read_head(program_.content.get(), kSearchedText);
    const auto mentioned = [&](const std::string& word) { return text.ok() && text.value().find(word) != std::string::npos; };
    if (std::any_of(plots.thorough_for.begin(), plots.thorough_for.end(), mentioned)) {
      preparing.prepare->environment.emplace("SBX_THOROUGH", "1");
    }
    directory = prepared_by(preparing, hooks);
  }
  if (directory.empty()) {
    extra.insert(extra.end(), hooks.begin(), hooks.end());
  } else {
    BindOp bind;
    bind.source = directory;
    bind.target = kHooksDirectory;
    bind.no_links = true;
    bind.origin = language_.runner->origin;
    extra.emplace_back(std::move(bind));
  }
  extra.emplace_back(PrivateDirOp{kPlotsDirectory, 0755});
  step.environment.emplace_back("SBX_PLOTS", kPlotsDirectory);
  step.environment.insert(step.environment.end(), plots.environment.begin(), plots.environment.end());
  return {};
}

// The files of a driver, as it has compiled them where that can be kept.
void Execution::add_driver(const SessionDriver& driver, std::vector<FsOp>& extra) {
  std::vector<FsOp> files = {DirOp{driver.directory, 0755}};
  std::string all;
  for (const auto& [name, content] : driver.files) {
    files.emplace_back(FileOp{join_path(driver.directory, name), content, 0644});
    all += content;
  }
  std::string prepared;
  if (!driver.prepare.empty()) {
    RunnerSpec preparing = *language_.runner;
    // The digest tells the driver of one sbx from that of another.
    preparing.prepare = RunnerPrepare{driver.prepare, {{"SBX_DRIVER", sha256_hex(all)}}};
    prepared = prepared_by(preparing, files);
  }
  if (prepared.empty()) {
    extra.insert(extra.end(), std::make_move_iterator(files.begin()), std::make_move_iterator(files.end()));
    return;
  }
  BindOp bind;
  bind.source = prepared;
  bind.target = driver.directory;
  bind.no_links = true;
  bind.origin = language_.runner->origin;
  extra.emplace_back(std::move(bind));
}

Report Execution::ended_early(Report report) const {
  report.outcome.verdict = Verdict::killed;
  report.outcome.signal = interrupted_;
  report.exit_status = exit_status(report.outcome);
  sweep(report);
  return report;
}

void Execution::gather_plots(int directory, Report& report) const {
  Result<PlotList> plots = collect_plots(directory, artifacts_directory_.get(), PlotBounds{});
  if (plots.ok()) {
    report.plots = plots.take();
    return;
  }
  report.artifact_notes.push_back("the plots could not be kept: " + plots.error().text());
  if (report.exit_status == 0) report.exit_status = 1;
}

void Execution::add_hints(Report& report) const {
  HintContext context;
  context.request = &request_;
  context.report = &report;
  context.runner = language_.runner;
  context.net = net_;
  if (!request_.exec && workspace_.empty() && !program_.host_path.empty()) {
    context.source_directory = dir_name(program_.host_path);
    context.source_directory_shown = dir_name(request_.program.value);
    context.siblings = names_beside(context.source_directory, program_.name);
  }
  if (request_.exec && workspace_.empty() && report.exit_status != 0 && !caller_directory_.empty()) {
    context.source_directory = caller_directory_;
    context.source_directory_shown = ".";
    context.siblings = names_beside(caller_directory_, "");
  }
  std::vector<std::string> lines = make_hints(context);
  report.hints.insert(report.hints.end(), std::make_move_iterator(lines.begin()), std::make_move_iterator(lines.end()));
}

Result<Report> Execution::run_step(Step step, std::vector<FsOp> extra, Report report) {
  if (wants_plots()) SBX_TRY(add_plot_hooks(step, extra));
  if (interrupted_ != 0) return ended_early(std::move(report));
  SandboxSpec spec = SBX_TRY(make_spec(step, std::move(extra), false, true));
  if (wants_plots()) put_search_paths(language_.runner->plots->search_paths, spec);
  net_ = spec.net;
  RunOptions options;
  options.stdio = stdio_;
  const bool rewritten_box = !request_.workspace.has_value() || request_.workspace->mode == WorkspaceMode::overlay;
  if (wants_artifacts() && rewritten_box) options.keep_directories.emplace_back(kBoxDirectory);
  if (wants_plots()) options.keep_directories.emplace_back(kPlotsDirectory);
  options.cgroups = SBX_TRY(cgroups());
  if (driver_) options.side_limit = kMostSaid;
  if (!wants_artifacts() && !wants_plots() && guarded_.empty()) options.ended = observer_.ending;
  note_spec(spec);

  describe(spec, report);
  lap("plan");
  if (request_.verbosity > 1) options.show_call = observer_.call;
  report.artifact_notes = guard_notes_;
  RunResult result = engine_(spec, facts_, options);
  explain(spec, result.outcome);
  note_outcome("run", result.outcome);
  report.outcome = std::move(result.outcome);
  report.said = std::move(result.side);
  report.exit_status = exit_status(report.outcome);
  sweep(report);
  gather_artifacts(result, report);
  if (wants_plots() && !result.kept_directories.empty() && result.kept_directories.back().valid()) {
    gather_plots(result.kept_directories.back().get(), report);
  }
  add_hints(report);
  return report;
}

Result<Report> Execution::run() {
  lap("");
  SBX_TRY(check_requirements());
  cgroup_choice_.emplace(CgroupChoice::begin(cgroup_wish(request_, facts_)));
  SBX_TRY(share_workspace());
  SBX_TRY(load_policies());
  lap("policies");
  if (!request_.exec) SBX_TRY(choose_program());
  SBX_TRY(open_artifacts());
  SBX_TRY(share_mounts());
  SBX_TRY(place_files());
  SBX_TRY(plan_stdio());
  lap("program and files");

  Report report;
  std::vector<FsOp> extra = shared_;
  if (request_.exec) {
    const Status chosen = choose_command();
    if (interrupted_ != 0) return ended_early(std::move(report));
    SBX_TRY(chosen);
    lap("command");
    report.tool = toolchain_.executable;
    add_tool_and_files(extra);
    return run_step(command_, std::move(extra), std::move(report));
  }

  const Status tool_found = find_tool();
  if (tool_found.ok()) SBX_TRY(prepare_tool());
  if (interrupted_ != 0) return ended_early(std::move(report));
  SBX_TRY(tool_found);
  lap("toolchain");
  const RunnerSpec& runner = *language_.runner;
  report.language = runner.name;
  report.tool = toolchain_.executable;
  report.tool_version = toolchain_.version;
  add_tool_and_files(extra);

  StepValues values = step_values();
  values.sources = sources_;
  values.output = join_path(kBuildDirectory, output_name(base_name(source_)));
  values.arguments = request_.arguments;
  values.flags = request_.compile_flags;
  Step step;
  step.argv = SBX_TRY(expand_words(driver_ ? driver_->argv : runner.run_argv, values, runner.origin));
  step.exec_path = step.argv[0];
  step.environment = SBX_TRY(expand_environment(runner.environment, values, runner.origin));
  if (driver_) {
    add_driver(*driver_, extra);
    step.environment.insert(step.environment.end(), driver_->environment.begin(), driver_->environment.end());
  }

  std::vector<Product> products;
  if (runner.compile.has_value()) {
    // The run's own settings are checked before the compiler is started: a wrong one is told at once.
    SBX_TRY(make_spec(step, extra, false));
    if (!SBX_TRY(compile(values, report, products))) {
      sweep(report);
      add_hints(report);
      return report;
    }
    if (runner.has_hook(RunnerHook::jvm_main_class)) {
      Result<std::string> found = jvm_main_class(products, output_name(base_name(source_)));
      if (!found.ok()) {
        describe(SBX_TRY(make_spec(step, extra, false)), report);
        not_compiled(report, found.error().text());
        sweep(report);
        return report;
      }
      values.main_class = found.take();
      step.argv = SBX_TRY(expand_words(runner.run_argv, values, runner.origin));
    }
    std::vector<FsOp> placed = place_products(products);
    extra.insert(extra.end(), std::make_move_iterator(placed.begin()), std::make_move_iterator(placed.end()));
  }
  // `products` lives until here: the run's operations borrow its descriptors.
  return run_step(step, std::move(extra), std::move(report));
}

Result<Inspection> Execution::inspect() {
  SBX_TRY(share_workspace());
  SBX_TRY(load_policies());
  SBX_TRY(share_mounts());
  for (const PolicyLayer& layer : layers_) {
    const auto passed = layer.values.find("env.pass");
    if (passed == layer.values.end()) continue;
    for (const std::string& name : std::get<std::vector<std::string>>(passed->second.value)) environment_.try_emplace(name);
  }
  Inspection inspection;
  inspection.spec = SBX_TRY(make_spec(Step{{"true"}, "true", {}}, shared_, false));
  inspection.layers = layers_;
  const bool writable = request_.workspace.has_value() && request_.workspace->mode == WorkspaceMode::read_write;
  if (writable && !request_.allow_sensitive_write) inspection.guarded.emplace_back(kBoxDirectory);
  return inspection;
}

// ---- sessions --------------------------------------------------------------------------------------------------

void Execution::add_tool_and_files(std::vector<FsOp>& extra) const {
  extra.insert(extra.end(), tool_mounts_.begin(), tool_mounts_.end());
  extra.insert(extra.end(), placed_.begin(), placed_.end());
}

// What does not depend on the step.
StepValues Execution::step_values() const {
  StepValues values;
  values.tool = toolchain_.executable;
  values.tool_directory = tool_directory(*language_.runner, toolchain_);
  values.tools = tools_;
  values.source = source_;
  values.memory = limit_of<Bytes>("limits.memory");
  values.cpus_milli = limit_of<uint64_t>("limits.cpus");
  return values;
}

Status Execution::prepare_session(const DriverOf& driver_of) {
  SBX_TRY(check_requirements());
  cgroup_choice_.emplace(CgroupChoice::begin(cgroup_wish(request_, facts_)));
  SBX_TRY(share_workspace());
  SBX_TRY(load_policies());
  runners_ = SBX_TRY(load_runners(search_, request_.language));
  Result<LanguageChoice> choice = choose_language(runners_, request_.language, "", "");
  if (!choice.ok()) {
    runners_ = SBX_TRY(load_runners(search_));
    choice = SBX_TRY(choose_language(runners_, request_.language, "", ""));
  }
  language_ = choice.take();
  if (!language_.runner->limits.values.empty()) {
    layers_.insert(layers_.begin() + 1, language_.runner->limits);
    merged_ = SBX_TRY(merge_layers(layers_));
  }
  SBX_TRY(share_mounts());
  SBX_TRY(place_files());
  const Status found = find_tool();
  if (found.ok()) SBX_TRY(prepare_tool());
  if (interrupted_ != 0) return Error(ErrorKind::system, "interrupted by signal " + std::to_string(interrupted_));
  SBX_TRY(found);

  const RunnerSpec& runner = *language_.runner;
  source_ = join_path(workspace_.empty() ? kBoxDirectory : kSourceDirectory, runner.source_name);
  std::vector<FsOp> extra = shared_;
  add_tool_and_files(extra);
  const StepValues values = step_values();
  Step step{{"true"}, "true", {}};
  if (const std::optional<SessionDriver> driver = driver_of(runner.name)) {
    session_driver_ = true;
    add_driver(*driver, extra);
    step.argv = SBX_TRY(expand_words(driver->argv, values, runner.origin));
    step.exec_path = step.argv[0];
    step.environment = SBX_TRY(expand_environment(runner.environment, values, runner.origin));
  } else {
    if (!workspace_.empty()) extra.emplace_back(PrivateDirOp{kSourceDirectory, 0755});
    if (runner.compile) extra.emplace_back(PrivateDirOp{kBuildDirectory, 0755});
  }
  extra.emplace_back(PrivateDirOp{kCellInputDirectory, 0755});
  session_spec_ = SBX_TRY(make_spec(step, std::move(extra), false));
  note_spec(session_spec_);
  return {};
}

Result<std::vector<CellStep>> Execution::cell_steps(const std::vector<std::string>& arguments) const {
  const RunnerSpec& runner = *language_.runner;
  if (runner.has_hook(RunnerHook::jvm_main_class) || runner.has_hook(RunnerHook::java_source_name)) {
    return Error(ErrorKind::usage, runner.title + " has no cells").with_hint("sbx session exec runs programs in the session, sbx run a " + runner.title + " program of its own");
  }
  StepValues values = step_values();
  values.sources = {source_};
  values.output = join_path(kBuildDirectory, output_name(base_name(source_)));
  values.arguments = arguments;
  values.flags = request_.compile_flags;
  const auto step = [&](const std::vector<std::string>& words, const std::map<std::string, std::string>& environment) -> Result<CellStep> {
    CellStep made;
    made.argv = SBX_TRY(expand_words(words, values, runner.origin));
    made.environment = session_spec_.environment;
    for (const auto& [name, value] : SBX_TRY(expand_environment(environment, values, runner.origin))) {
      std::erase_if(made.environment, [&, &key = name](const std::string& entry) { return starts_with(entry, key + "="); });
      made.environment.push_back(name + "=" + value);
    }
    return made;
  };
  std::vector<CellStep> steps;
  if (runner.compile) steps.push_back(SBX_TRY(step(runner.compile->argv, runner.compile->environment)));
  steps.push_back(SBX_TRY(step(runner.run_argv, runner.environment)));
  return steps;
}

Report Execution::session_report() const {
  Report report;
  report.language = language_.runner->name;
  report.tool = toolchain_.executable;
  report.tool_version = toolchain_.version;
  report.argv = session_spec_.argv;
  report.limits = session_spec_.limits;
  report.policy_digest = spec_digest(session_spec_);
  report.policy_origins.assign(session_spec_.origins.begin(), session_spec_.origins.end());
  return report;
}

// Owns what an Execution borrows.
class PreparedSession final : public SessionGround {
 public:
  PreparedSession(RunRequest request, const HostFacts& facts, const Observer& observer)
      : request_(std::move(request)), facts_(facts), observer_(observer), execution_(request_, facts_, observer_, engine_) {}
  Status prepare(const DriverOf& driver_of) { return execution_.prepare_session(driver_of); }

  const SandboxSpec& spec() const override { return execution_.session_spec(); }
  Result<CgroupParent*> cgroups() override { return execution_.session_cgroups(); }
  const std::string& language() const override { return execution_.session_runner()->name; }
  bool has_driver() const override { return execution_.has_session_driver(); }
  std::string cell_path() const override { return execution_.session_source().substr(1); }
  Result<std::vector<CellStep>> cell_steps(const std::vector<std::string>& arguments) const override { return execution_.cell_steps(arguments); }
  Report blank_report() const override { return execution_.session_report(); }
  std::vector<std::string> notes() const override { return execution_.guard_notes(); }
  std::vector<std::string> sweep() const override {
    Report report;
    execution_.sweep(report);
    return report.artifact_notes;
  }

 private:
  const RunRequest request_;
  const HostFacts facts_;
  const Observer observer_;
  const Engine engine_ = run_sandbox;
  Execution execution_;
};

// ID and ID_LIKE of os-release(5), most specific first.
std::vector<std::string> distribution_names() {
  std::vector<std::string> names;
  Result<std::string> text = read_file("/etc/os-release", 65536);
  if (!text.ok()) text = read_file("/usr/lib/os-release", 65536);
  if (!text.ok()) return names;
  for (const char* key : {"ID=", "ID_LIKE="}) {
    for (const std::string& line : split(text.value(), '\n')) {
      if (!starts_with(line, key)) continue;
      std::string value = line.substr(std::string_view(key).size());
      std::erase(value, '"');
      for (const std::string& name : split(value, ' ')) names.push_back(name);
    }
  }
  return names;
}

// What `sbx langs` tells of one language.
LanguageStatus Execution::status_of(const RunnerSpec& runner, const std::vector<std::string>& distributions,
                                    const ProbeRunner& probe) {
  LanguageStatus status;
  status.name = runner.name;
  status.title = runner.title;
  status.aliases = runner.aliases;
  status.extensions = runner.extensions;
  for (const std::string& distribution : distributions) {
    const auto package = runner.packages.find(distribution);
    if (package != runner.packages.end() && status.package.empty()) status.package = package->second;
  }
  progress_.begin("looking for " + runner.title);
  const Result<FoundTools> found = find_tools(runner, probe);
  if (!found.ok()) {
    status.problem = found.error().text();
    return status;
  }
  const Toolchain& tool = found.value().tool;
  status.found = true;
  status.tool = tool.executable;
  status.version = tool.version;
  status.origin = tool.origin;
  if (!status.version.empty()) return status;
  Result<std::string> version = toolchain_version(toolchain_request(found.value().runner), tool, probe);
  if (version.ok()) status.version = version.take();
  else note(runner.name + ": " + version.error().text());
  return status;
}

Result<std::vector<LanguageStatus>> Execution::languages() {
  SBX_TRY(share_workspace());
  SBX_TRY(load_policies());
  runners_ = SBX_TRY(load_runners(search_));
  const std::vector<std::string> distributions = distribution_names();
  const ProbeRunner probe = probe_runner();
  std::vector<LanguageStatus> result;
  for (const RunnerSpec& runner : runners_) {
    result.push_back(status_of(runner, distributions, probe));
    if (interrupted_ != 0) return Error(ErrorKind::system, "interrupted by signal " + std::to_string(interrupted_));
  }
  progress_.end();
  std::sort(result.begin(), result.end(),
            [](const LanguageStatus& left, const LanguageStatus& right) { return left.name < right.name; });
  return result;
}

Result<LanguageCheck> Execution::check_file(const std::string& file) {
  SBX_TRY(share_workspace());
  SBX_TRY(load_policies());
  // Not what one would wait for, as a FIFO, or read for ever.
  if (const Result<struct stat> status = sys::stat(file); status.ok() && !S_ISREG(status.value().st_mode)) {
    return Error(ErrorKind::usage, quoted_path(file) + " is not a regular file")
        .with_hint("sbx langs check takes the file of a language; docs/adding-a-language.md shows one");
  }
  Result<std::string> text = read_file(file);
  if (!text.ok()) {
    if (text.error().errnum() != ENOENT) return Error(ErrorKind::policy, text.error().text());
    return Error(ErrorKind::usage, "no such file: '" + printable(file) + "'")
        .with_hint("sbx langs check takes the file of a language; docs/adding-a-language.md shows one");
  }
  const RunnerSpec runner = SBX_TRY(parse_runner_toml(text.value(), file));
  LanguageCheck check;
  runners_ = SBX_TRY(load_runners(search_));
  for (const RunnerSpec& other : runners_) {
    if (other.name == runner.name) {
      if (other.origin.find('/') == std::string::npos) check.notes.push_back("it replaces the " + other.title + " that comes with sbx");
      continue;
    }
    for (const std::string& extension : runner.extensions) {
      if (is_source_of(other, "x" + extension)) check.notes.push_back("it takes " + printable(extension) + " from " + other.title);
    }
    for (const std::string& alias : runner.aliases) {
      const bool taken = other.name == alias || std::find(other.aliases.begin(), other.aliases.end(), alias) != other.aliases.end();
      if (taken) check.notes.push_back("it takes the name '" + printable(alias) + "' from " + other.title);
    }
  }
  std::vector<std::string> names;
  for (const RunnerSpec& other : runners_) names.push_back(other.name);
  for (const std::string& used : runner.uses) {
    if (std::find(names.begin(), names.end(), used) != names.end()) continue;
    const std::string guess = did_you_mean(used, names);
    return Error(ErrorKind::policy, "no language is called " + quoted(used) + ", which uses names")
        .with_origin(file)
        .with_hint(guess.empty() ? "sbx langs lists them" : "did you mean \"" + guess + "\"?");
  }
  check.status = status_of(runner, distribution_names(), probe_runner());
  progress_.end();
  if (!search_.config_directory.empty()) {
    const std::string place = join_path(join_path(search_.config_directory, "lang"), base_name(file));
    const Result<std::string> here = sys::realpath(file);
    const Result<std::string> there = sys::realpath(place);
    if (!there.ok() || !here.ok() || here.value() != there.value()) check.place = place;
  }
  return check;
}

}  // namespace

Result<std::unique_ptr<SessionGround>> prepare_session(RunRequest request, const HostFacts& facts, const Observer& observer,
                                                       const DriverOf& driver_of) {
  request.exec = true;  // there is no program, whose name could be taken
  auto prepared = std::make_unique<PreparedSession>(std::move(request), facts, observer);
  SBX_TRY(prepared->prepare(driver_of));
  return std::unique_ptr<SessionGround>(std::move(prepared));
}

Result<std::vector<LanguageStatus>> list_languages(const HostFacts& facts, const Observer& observer,
                                                   const Engine& engine) {
  RunRequest request;
  request.exec = true;
  request.verbosity = observer.note ? 1 : 0;
  return Execution(request, facts, observer, engine).languages();
}

Result<Inspection> inspect(const RunRequest& request, const HostFacts& facts) {
  const Observer silent;
  const Engine none;  // nothing is run
  return Execution(request, facts, silent, none).inspect();
}

Result<LanguageCheck> check_language(const std::string& file, const HostFacts& facts, const Observer& observer,
                                     const Engine& engine) {
  RunRequest request;
  request.exec = true;
  request.verbosity = observer.note ? 1 : 0;
  return Execution(request, facts, observer, engine).check_file(file);
}

Result<Report> execute(const RunRequest& request, const HostFacts& facts, const Observer& observer,
                       const Engine& engine) {
  Execution execution(request, facts, observer, engine);
  return execution.run();
}

}  // namespace sbx::runtime

// RunRequest: what a front end asks for, before anything has been looked at. prepare() turns it into specs; execute()
// runs them (compile step first) and gathers one Report. Shared by run and exec, later by sessions, HTTP, MCP, batch.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/host_facts.h"
#include "policy/layer.h"
#include "runtime/artifacts.h"
#include "runtime/outcome.h"
#include "runtime/plots.h"
#include "runtime/sandbox.h"

namespace sbx::runtime {

enum class TtyMode { automatic, always, never };
enum class WorkspaceMode { read_only, read_write, overlay };

struct ProgramSource {
  enum class Kind { file, text, standard_input };
  Kind kind = Kind::file;
  std::string value;  // path, or the text of -c
};
struct FileArgument {
  std::string source;
  std::string name;  // relative path inside, checked: no "..", not absolute, not the program's own name
};
struct WorkspaceArgument {
  std::string directory;
  WorkspaceMode mode = WorkspaceMode::read_only;
};
struct MountArgument {
  std::string source;
  std::string target;  // "" : the same path
  bool read_only = true;
};

// The interpreter that keeps what cells leave behind, or tells what one program's last expression is, for a language
// that has one.
struct SessionDriver {
  std::string directory;                                     // inside; read-only
  std::vector<std::pair<std::string, std::string>> files;    // names in it, and their contents
  std::vector<std::string> argv;                             // {tool} is the language's
  std::vector<std::string> prepare;                          // fills {prepared} with what takes the directory's place; empty: nothing does
  std::vector<std::pair<std::string, std::string>> environment;
};
using DriverOf = std::function<std::optional<SessionDriver>(const std::string& language)>;

struct RunRequest {
  bool exec = false;                     // `sbx exec`: command holds the argv; else a language run
  std::vector<std::string> command;      // exec: CMD ARGS…
  std::string language;                  // --lang; "" : by extension or #!
  ProgramSource program;
  std::vector<std::string> arguments;    // the payload's
  std::vector<FileArgument> files;
  std::optional<WorkspaceArgument> workspace;
  std::vector<MountArgument> mounts;
  std::vector<std::string> environment;  // "K=V" or "K"
  std::vector<std::string> policies;
  std::string dialect;  // of the files among them; "": by their extension
  PolicyLayer flags{.name = "command line", .values = {}, .mounts = {}, .syscall_rules = {}};  // --memory … by key table
  std::vector<std::string> compile_flags;
  bool build_cache = true;
  std::string toolchain;
  std::string venv;
  std::string stdin_file;                // --stdin FILE
  TtyMode tty = TtyMode::automatic;
  std::string artifacts_directory;       // --artifacts DIR; "" : not copied out
  bool want_result = false;              // --result or --json: hash and list artifacts
  std::string result_directory;          // where --result goes, a real path; "" : to no file
  bool plots = true;                     // false: --no-plots
  bool capture_streams = false;          // --json
  // --eval: the program is run by this driver, which tells on descriptor 3 what its last expression is.
  std::function<Result<SessionDriver>(const std::string& language)> evaluator;
  bool allow_sensitive_mount = false;
  bool allow_sensitive_write = false;
  std::vector<std::string> require;      // --require NAME
  std::string cgroup_parent;             // --cgroup-parent; "": chosen, "none": no cgroup
  int verbosity = 0;
  // For hints that can be pasted: the words of the sbx command line and where further flags may be inserted so that
  // they win. Empty for callers that are no command line.
  std::vector<std::string> invocation;
  size_t invocation_insert = 0;
};

struct CompileReport {
  Outcome outcome;
  std::vector<std::string> argv;
  Limits limits;                         // as resolved for the compile step
  bool cached = false;                   // not run: what it made before was taken; no usage and no set-up then
};

struct Report {
  std::string language;                  // "" for exec
  std::string tool;                      // path of the interpreter or compiler
  std::string tool_version;
  std::vector<std::string> argv;
  std::optional<CompileReport> compile;
  Outcome outcome;                       // compile_failed when the compile step failed
  int exit_status = 125;
  std::string said;                      // with an evaluator: the bytes of descriptor 3, as hostile as all output
  ArtifactList artifacts;
  std::vector<std::string> artifact_notes;
  PlotList plots;
  std::vector<std::string> hints;        // one line each
  std::string policy_digest;             // sha256 over spec_text() of the resolved spec
  std::vector<std::pair<std::string, std::string>> policy_origins;
  Limits limits;                         // as resolved for the run
};

// Progress and diagnostics for a person; never called between clone and exec of the child.
struct Observer {
  std::function<void(const std::string&)> note;     // -v lines
  std::function<void(const std::string&)> call;     // -vv: a system call of the set-up, about to be made
  // One line in place of the one before; "" takes it away. Called once something takes long, and never while output of
  // a payload is passed on to stderr.
  std::function<void(const std::string&)> progress;
  // The last sandbox of the request is dead, and next to nothing is left to do: no artifacts, no shared directory to sweep.
  std::function<void()> ending;
};

// What runs a sandbox: run_sandbox, or a stand-in of a test.
using Engine = std::function<RunResult(const SandboxSpec&, const HostFacts&, const RunOptions&)>;

// Runs the request to its end. Errors of usage, policy and toolchain come back as Error (nothing ran); everything
// after that is in the Report.
Result<Report> execute(const RunRequest& request, const HostFacts& facts, const Observer& observer,
                       const Engine& engine = run_sandbox);

// What a request comes to, without a run: policies, workspace and mounts, for `sbx policy explain` and `check`. The
// program, its language and toolchain have no part in it.
struct Inspection {
  std::vector<PolicyLayer> layers;     // the built-in default first, the flags last
  SandboxSpec spec;
  std::vector<std::string> guarded;    // targets of writable shares whose places that the host trusts are protected
};
// Errors: those that a run would meet up to there. Variables named in env.pass that are not set count as set to "".
Result<Inspection> inspect(const RunRequest& request, const HostFacts& facts);

// One language, as `sbx langs` tells of it.
struct LanguageStatus {
  std::string name;
  std::string title;
  std::vector<std::string> aliases;
  std::vector<std::string> extensions;
  bool found = false;
  std::string tool;     // path, when found
  std::string version;  // "" when it does not tell
  std::string origin;   // how it was found: "PATH", "pyenv shim, cached"
  std::string package;  // what brings it on this distribution; "" when the runner does not know
  std::string problem;  // why it was not found
};
// Looks for the tool of every language; versions are asked for in sandboxes.
Result<std::vector<LanguageStatus>> list_languages(const HostFacts& facts, const Observer& observer,
                                                   const Engine& engine = run_sandbox);

// A language's file, looked at before it is put in its place.
struct LanguageCheck {
  LanguageStatus status;           // of the language that the file describes, as this host has it
  std::vector<std::string> notes;  // sentences: what of other languages it takes over
  std::string place;               // where the file would have to lie; "" when it lies there
};
// Errors: usage when there is no such file; policy, with place and did-you-mean, when it is wrong.
Result<LanguageCheck> check_language(const std::string& file, const HostFacts& facts, const Observer& observer,
                                     const Engine& engine = run_sandbox);

// The caller's facts; asks the kernel, cheap (tens of microseconds).
HostFacts probe_host();

// The JSON object of design section 4 (schema "sbx-result", version 1), pretty-printed with two spaces, UTF-8.
// `with_streams`: stdout and stderr inside (--json).
std::string result_json(const Report& report, bool with_streams);
// The object for an Error before anything ran: verdict setup_failed and the error.
std::string error_json(const Error& error, int exit_status);

}  // namespace sbx::runtime

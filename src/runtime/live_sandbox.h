// A sandbox that outlives the programs in it: started empty, then asked to start one program after the other or several
// at once, each with the filter, limits, identity and streams that the program of a run has. For sessions.
//
// Init forks them (ns/plan.h, SpawnVerb), so a program is never a process of ours that has joined the sandbox: it has at
// no time more than init has, holds none of our memory or descriptors, and its executable is never ours.
//
// Destroying it ends everything inside. SIGKILL of this process does so as well.
#pragma once

#include <sys/types.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "ns/plan.h"
#include "policy/host_facts.h"
#include "policy/spec.h"
#include "runtime/choose_cgroup.h"
#include "runtime/outcome.h"

namespace sbx::runtime {

struct ProgramStart {
  std::vector<std::string> argv;
  std::string exec_path;                 // as SandboxSpec::exec_path
  std::vector<std::string> environment;
  std::string working_directory = "/";
  int stdio[3] = {-1, -1, -1};           // borrowed, given to the sandbox's user if they are pipes; -1: /dev/null
  std::vector<int> extra;                // borrowed: at most two, which become 3 and 4
};

struct StartedProgram {
  pid_t pid = 0;        // as the sandbox sees it
  UniqueFd listener;    // for DenialLog; invalid: the filter answers by itself
};

class LiveSandbox {
 public:
  // Returns when the sandbox stands. Errors: those of a run's set-up, with stage and hint. `spec` is borrowed for ever,
  // its command is not looked at. Process-wide: SIGPIPE must be ignored.
  static Result<std::unique_ptr<LiveSandbox>> start(const SandboxSpec& spec, const HostFacts& facts, CgroupParent* cgroups);
  virtual ~LiveSandbox() = default;

  // Returns when the program runs. Errors: usage for more text than fits; those of exec, as in a run; system when the
  // sandbox is gone.
  virtual Result<StartedProgram> start_program(const ProgramStart& program) = 0;
  // To the program's process group; nothing when it has ended.
  virtual void signal(pid_t pid, int signal) = 0;
  // The program goes on in another process, a child of the one that it was: that one is killed, the program keeps its name.
  // Where there is no such child the program has ended.
  virtual void let_succeed(pid_t pid, pid_t heir) = 0;
  // True: one of these two was asked for, and may come yet. News tell of the change.
  virtual bool is_settling() const = 0;
  // Ends every process but init, at one instant. News of the ends follow, then one without a pid.
  virtual void kill_all() = 0;

  // Readable: news. `over`: no process is left, init among them.
  virtual int news_fd() const = 0;
  virtual std::optional<ns::SpawnEvent> next_news() = 0;
  virtual int pidfd() const = 0;
  // What init died of; "" where it could not say, or lives.
  virtual std::string last_words() const = 0;

  // All borrowed.
  virtual const SandboxCgroup* cgroup() const = 0;
  virtual bool samples_memory() const = 0;
  virtual int proc_fd() const = 0;    // the sandbox's /proc
  virtual int root_fd() const = 0;    // its root directory, with everything mounted there
  virtual int space_fd() const = 0;   // on its private tmpfs; -1
  virtual uint32_t host_uid() const = 0;  // whom files made inside belong to, outside
  virtual uint32_t host_gid() const = 0;
  virtual const Isolation& isolation() const = 0;
  virtual std::string denials_note() const = 0;  // of a program without a listener
};

}  // namespace sbx::runtime

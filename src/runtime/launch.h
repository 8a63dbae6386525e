// From a planned child to a running payload: clone3 with every namespace, the id maps, the go byte.
// Theory of operation: head of ns/child.cc.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "ns/build_plan.h"
#include "ns/id_map.h"
#include "policy/spec.h"
#include "runtime/choose_cgroup.h"

namespace sbx::runtime {

// Shared memory with the child, unmapped at the end.
class SharedPage {
 public:
  static Result<SharedPage> create();
  SharedPage(SharedPage&& other) noexcept : page_(other.page_) { other.page_ = nullptr; }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  SharedPage& operator=(SharedPage&&) = delete;
  ~SharedPage();
  ns::StatusPage* get() const { return page_; }

 private:
  explicit SharedPage(ns::StatusPage* page) : page_(page) {}
  ns::StatusPage* page_;
};

struct LaunchInput {
  const SandboxSpec* spec = nullptr;    // borrowed
  ns::PlannedChild* child = nullptr;    // borrowed; its descriptors are filled in here
  ns::IdPair ids;
  bool root_identity = false;
  int stdio[3] = {-1, -1, -1};
  bool tty[3] = {};
  const SandboxCgroup* cgroup = nullptr;  // borrowed; nullptr: the child stays in ours
  int extra = -1;                         // borrowed; the payload's descriptor 3; -1: none
  int session = -1;                       // borrowed: init's end, see ns::SpawnVerb; the child's plan has the area
};

// One launched sandbox. Destroying it kills what still runs and waits for it.
class Launched {
 public:
  Launched(SharedPage page) : page_(std::move(page)) {}
  Launched(Launched&&) = default;
  ~Launched();

  const ns::StatusPage& page() const { return *page_.get(); }
  int pidfd() const { return pidfd_.get(); }
  int exec_pipe() const { return exec_pipe_.get(); }
  int event_pipe() const { return event_pipe_.get(); }

  // The descriptors that init handed over, by slot; call once, after the exec pipe's end of file. Slots not filled are
  // invalid. Nothing that the payload wrote can come this way: its end is closed on exec.
  std::vector<UniqueFd> receive();
  // To init, which forwards TERM, INT, HUP … to the payload; SIGKILL ends the sandbox. Fails silently when it is gone.
  void send_signal(int signal) const;
  // Waits for init's end (and with it that of everything inside); its usage includes all that it reaped.
  void wait_for_end(struct rusage& usage);
  bool ended() const { return ended_; }

 private:
  friend Result<Launched> launch(const LaunchInput& input);
  SharedPage page_;
  UniqueFd pidfd_, hold_write_, exec_pipe_, event_pipe_, hand_over_;
  pid_t pid_ = 0;  // ours to wait for: its number is its own until then
  bool ended_ = true;
};

// Whether fewer threads are running than there are CPUs for us. A helper that has to wait for one costs more than it saves.
bool a_cpu_is_free();
// For Stage::clone, and Stage::network of the child's.
Error namespaces_error(int errnum, ns::Stage stage);
// What was sent to the socket so far, by slot.
std::vector<UniqueFd> receive_slots(int hand_over);

// Errors: with stage "clone", "cgroup" or "id maps", and a hint where the host forbids user namespaces.
Result<Launched> launch(const LaunchInput& input);

}  // namespace sbx::runtime

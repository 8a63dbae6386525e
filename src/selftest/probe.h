// The probes: each an attack that a sandbox must stop, in a form that harms nobody, with the control that shows that
// it would have worked.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "policy/spec.h"
#include "runtime/request.h"
#include "selftest/bait.h"

namespace sbx::selftest {

enum class Safety {
  anywhere,      // harms nothing wherever an unprivileged process makes it: under other tools too, and without a sandbox
  sandbox_only,  // uses up what only the limits of our own sandbox hold
};

// One attempt. What it does is `make`, run in a process of its own inside.
struct Try {
  const char* name;
  const char* call;  // the system call whose refusal by the filter is reported; "" : none is telling
  long (*make)(const Bait& bait);
  // Errnos that say that the kernel was reached and looked at the arguments, which are wrong on purpose: open.
  std::vector<int> reached = {};
};

// The same sandbox with only the protection taken away. Never made on the bare host.
struct Control {
  const char* change;  // for people: "without the filter", "with --net host"
  void (*ask)(runtime::RunRequest& request, Bait& bait) = nullptr;  // before policies are read
  void (*weaken)(SandboxSpec& spec) = nullptr;                      // after everything is resolved
  bool costly = false;     // takes a second or uses memory: only with --controls
};

struct Probe {
  const char* name;
  const char* category;
  const char* attack;    // one sentence
  const char* blocked_by;  // what should
  const char* harmless;  // why trying it hurts nobody
  Safety safety;
  std::vector<Try> tries;
  // What a try that finds nothing there, or an errno that has other reasons elsewhere, was stopped by.
  const char* hidden_by = "view of files";
  std::vector<std::pair<int, const char*>> by = {};
  std::vector<Control> controls = {};  // the first that opens counts
  const char* no_control = "";         // why there is none
  // Of the sandbox, in both runs.
  void (*setup)(runtime::RunRequest& request) = nullptr;
};

// In the order of the table.
const std::vector<Probe>& probes();
const Probe* find_probe(std::string_view name);  // nullptr: none

}  // namespace sbx::selftest

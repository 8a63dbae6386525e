#include "runtime/hint_reference.h"

#include <cerrno>
#include <utility>
#include <vector>

#include "base/text.h"
#include "policy/loader.h"
#include "runtime/hints.h"
#include "runtime/mending.h"

namespace sbx::runtime {
namespace {

// Text for a cell of a table: a bar would end it.
std::string cell(std::string_view text) { return join(split(text, '|'), "\\|"); }

std::string code(std::string_view text) { return "`" + cell(text) + "`"; }

// "it wanted the network; allow it: " → "it wanted the network; allow it".
std::string without_colon(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == ':')) text.remove_suffix(1);
  return std::string(text);
}

std::string limits() {
  std::string text = "| sbx says | raise it with | when compiling |\n|---|---|---|\n";
  std::string_view last;
  for (const LimitText& limit : limit_texts()) {
    if (limit.said == last) continue;  // the same limit under a second name
    last = limit.said;
    text += "| the program " + std::string(limit.said) + " … | " + code(limit.flag) + " | " +
            (limit.compile_flag != nullptr ? code(limit.compile_flag) : "the same") + " |\n";
  }
  return text;
}

std::string messages() {
  std::string text = "| the program printed one of | sbx says | remedy |\n|---|---|---|\n";
  for (const MessageText& message : message_texts()) {
    std::vector<std::string> phrases;
    for (const std::string_view phrase : message.phrases) phrases.push_back(code(phrase));
    text += "| " + join(phrases, ", ") + " | " + cell(without_colon(message.said)) + " | " +
            (message.flag != nullptr ? code(std::string(message.flag) + " " + message.value) : "write there") + " |\n";
  }
  return text;
}

// What is said in a row, and what it is said for; a key that is there already is added to.
using Rows = std::vector<std::pair<std::string, std::vector<std::string>>>;
std::vector<std::string>& row_of(Rows& rows, const std::string& key) {
  for (auto& [name, values] : rows) {
    if (name == key) return values;
  }
  return rows.emplace_back(key, std::vector<std::string>()).second;
}

// One row a hint, in which each pattern stands once with the languages that it belongs to.
Result<std::string> languages() {
  std::vector<std::pair<std::string, Rows>> hints;
  for (const RunnerSpec& runner : SBX_TRY(load_runners(PolicySearch()))) {
    for (const HintPattern& pattern : runner.hints) {
      const std::string flag = pattern.raise.empty() ? "as it says" : code("--" + join(split(pattern.raise, '_'), "-"));
      const std::string said = cell(pattern.hint) + " | " + flag;
      size_t at = 0;
      while (at < hints.size() && hints[at].first != said) ++at;
      if (at == hints.size()) hints.emplace_back(said, Rows());
      row_of(hints[at].second, code(trim(pattern.pattern))).push_back(cell(runner.title));
    }
  }
  std::string text = "| the program printed | sbx says | raise |\n|---|---|---|\n";
  for (const auto& [said, patterns] : hints) {
    std::vector<std::string> parts;
    for (const auto& [pattern, titles] : patterns) parts.push_back(join(titles, ", ") + ": " + pattern);
    text += "| " + join(parts, "<br>") + " | " + said + " |\n";
  }
  return text;
}

void add(std::string& text, const Mending& mending) {
  const std::string row = "| " + cell(mending.cause) + " | " + cell(mending.remedy.empty() ? "–" : mending.remedy) + " |\n";
  if (text.find(row) == std::string::npos) text += row;
}

// Every answer of mending.cc, by asking it about hosts of each kind.
std::string hosts() {
  std::string text = "| sbx says | what helps |\n|---|---|\n";
  NamespaceKnobs user;
  user.uid = 1000;
  add(text, mend_namespaces(user, NamespaceStep::make, ENOSYS));
  NamespaceKnobs knobs = user;
  knobs.max_user_namespaces = 0;
  add(text, mend_namespaces(knobs, NamespaceStep::make, ENOSPC));
  add(text, mend_namespaces(user, NamespaceStep::make, ENOSPC));
  knobs = user;
  knobs.unprivileged_clone = 0;
  add(text, mend_namespaces(knobs, NamespaceStep::make, EPERM));
  knobs = user;
  knobs.chrooted = true;
  add(text, mend_namespaces(knobs, NamespaceStep::make, EPERM));
  knobs = user;
  knobs.apparmor_restrict = 1;
  add(text, mend_namespaces(knobs, NamespaceStep::make, EACCES));
  knobs.container = "docker";
  add(text, mend_namespaces(knobs, NamespaceStep::use, EPERM));
  add(text, mend_namespaces(user, NamespaceStep::use, EPERM));
  add(text, mend_namespaces(user, NamespaceStep::make, EINVAL));
  for (const char* container : {"docker", "podman", "kubernetes", "lxc", "systemd-nspawn"}) {
    knobs = user;
    knobs.container = container;
    Mending mending = mend_namespaces(knobs, NamespaceStep::make, EPERM);
    mending.cause += " (" + knobs.container + ")";
    add(text, mending);
  }
  for (const char* container : {"docker", "podman", "kubernetes"}) {
    knobs = user;
    knobs.container = container;
    Mending mending = mend_masked_proc(knobs);
    mending.cause += " (" + knobs.container + ")";
    add(text, mending);
  }
  knobs = NamespaceKnobs();
  knobs.capabilities = 0;
  knobs.leases_uids = true;
  add(text, mend_capabilities(knobs));
  add(text, {"as root, no uid lease can be had: the file system is read-only", mend_uid_lease(EROFS, "/run/sbx")});
  add(text, mend_landlock(EOPNOTSUPP, ""));
  add(text, mend_landlock(ENOSYS, ""));
  return text;
}

}  // namespace

Result<std::string> hint_reference_markdown() {
  return "# 9. Troubleshooting\n\n"
         "Written from the tables that hints are made of (`src/runtime/hints.cc`, `src/runtime/mending.cc`, `policies/lang/`); do not\n"
         "edit (`make reference` writes it anew). sbx itself prints these lines, with a command made for your case where\n"
         "one can be made: copy that one. No hint appears after a success, or with `-q`.\n\n"
         "Not sure whether it is the host? `sbx doctor` tries every need and says what mends it ([doctor.md](../doctor.md)).\n"
         "Not sure what sbx did? `-v` shows the plan, the protections and the times. What people get wrong on the command line,\n"
         "with the answers: [wrong-uses.txt](../../tests/errors/wrong-uses.txt).\n\n"
         "## The run reached a limit\n\n"
         "A fact: the kernel or sbx counted. [limits.md](../limits.md) says what holds each.\n\n" +
         limits() +
         "\n## A system call was refused\n\n"
         "`denied: CALL by PROCESS (pid N), rule … of policy …; allow it with --allow-syscall CALL`: do that only where you know why the\n"
         "program needs it. Many programs try a call and go on without it. [seccomp.md](../seccomp.md)\n\n"
         "## The program complained\n\n"
         "A guess from the last 4 KiB of the program's stderr, and marked so; it never changes a verdict.\n\n" +
         messages() +
         "\nAnd by language:\n\n" + SBX_TRY(languages()) +
         "\n## No sandbox on this host (status 125)\n\n"
         "The errno tells sbx the cause; `sbx doctor` finds the same before the first run.\n\n" +
         hosts() +
         "\nNext: [10. How it works](10-how-it-works.md)\n";
}

}  // namespace sbx::runtime

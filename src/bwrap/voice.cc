#include "bwrap/voice.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/sys.h"
#include "policy/bwrap/parse.h"

namespace sbx::bwrap {
namespace {

constexpr int kError = 3, kWarning = 4;  // sd-daemon(3)

// One write, so that lines of several processes do not mix. Where it goes cannot be helped.
void line(int level, bool with_level, const std::string& text) {
  const std::string whole = (with_level ? "<" + std::to_string(level) + ">" : std::string()) + "bwrap: " + text + "\n";
  (void)sys::write_all(STDERR_FILENO, whole).ok();
}

}  // namespace

void Voice::warn(const std::string& text) const { line(kWarning, level_prefix, text); }
void Voice::warn_as_error(const std::string& text) const { line(kError, level_prefix, text); }

void Voice::hint(const std::string& text) const {
  const char* wanted = std::getenv("SBX_HINTS");
  const bool forced = wanted != nullptr && std::strcmp(wanted, "1") == 0;
  if (!text.empty() && (forced || ::isatty(STDERR_FILENO) != 0)) line(kError, level_prefix, "hint: " + text);
}

void Voice::hint(runtime::NamespaceStep step, int errnum) const {
  if (errnum != EPERM && errnum != EACCES && errnum != ENOSPC && errnum != EINVAL && errnum != EUSERS) return;
  hint(runtime::mend_namespaces(runtime::read_namespace_knobs(), step, errnum).text());
}

void Voice::die(const std::string& text) const {
  line(kError, level_prefix, text);
  ::_exit(1);
}

void Voice::die(const std::string& text, int errnum) const { die(text + ": " + plain_errno_text(errnum)); }
void Voice::die(const std::string& text, int errnum, runtime::NamespaceStep step) const {
  warn_as_error(text + ": " + plain_errno_text(errnum));
  hint(step, errnum);
  ::_exit(1);
}

void Voice::die_mount(const std::string& text, int errnum) const { die(text + ": " + mount_errno_text(errnum)); }

std::string mount_errno_text(int errnum) {
  if (errnum == ENOSPC) return "Limit exceeded (ENOSPC): more mounts than /proc/sys/fs/mount-max allows";
  return plain_errno_text(errnum);
}

}  // namespace sbx::bwrap

// The program: descriptors in order, then the command; the last resort for what a library throws.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <exception>
#include <new>

#include "cli/command.h"
#include "cli/output.h"

namespace {
constexpr int kInternal = 125;
}

int main(int argc, char** argv) {
  // A caller may have closed some of 0, 1, 2; what we open next must not become the payload's stdout.
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) return kInternal;
  }
  // A start allocates some 300 KiB once. By glibc's standard it asks the kernel for them in eight pieces, and gives two
  // back while it ends.
  ::mallopt(M_TOP_PAD, 1 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 16 << 20);
  try {
    return sbx::cli::dispatch(std::vector<std::string>(argv, argv + argc));
  } catch (const std::bad_alloc&) {
    sbx::cli::say("out of memory");
  } catch (const std::exception& error) {
    sbx::cli::say(std::string("internal error: ") + error.what());
  }
  return kInternal;
}

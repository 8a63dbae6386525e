// `sbx cp` both ways between a tree of the host and one that a payload made and goes on changing. The payload's side
// brings nothing of the host's in, and no link, no set-id bit and nothing outside the target out.
#include <string>

#include "base/text.h"
#include "copy_bounds.h"
#include "fuzz.h"
#include "looks.h"
#include "session/copy.h"
#include "tree.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sbx;
  using namespace sbx::session;
  fuzz::Bytes bytes(data, size);
  const uint8_t flags = bytes.byte();
  CopyBounds bounds = fuzz::small_bounds(bytes);
  // Paths as a caller might give them.
  static const char* const known[] = {"/box", "/box/", "box", "box/a", "/box/d", "/", "", "box/../box", "/box/d/..", "..", "/box/a/", "//box//d", "box/out.txt", "a"};
  std::string inside = known[bytes.byte() % std::size(known)];
  if ((flags & 1) != 0) inside += "/" + fuzz::TreeScript::name_of(bytes);

  const fuzz::Scratch scratch;
  const UniqueFd root = scratch.directory("root"), box = scratch.directory("root/box"), host = scratch.directory("host");
  const std::string canary = scratch.path("canary");
  fuzz::TreeScript payload(box.get(), canary);
  payload.run(bytes, 24);
  // The host's own tree; `sbx cp` is given one name in it, which may be there already.
  fuzz::TreeScript(host.get(), canary, false).run(bytes, 12);
  const std::string outside = scratch.path("host/") + ((flags & 2) != 0 ? fuzz::TreeScript::name_of(bytes) : "");

  size_t turns = 0;
  const fuzz::Looks looks([&] {
    if (turns++ < 24 && bytes.left() > 0) payload.step(bytes);
  });
  const Inside at{root.get(), 0, 0};
  Result<CopyReport> report = (flags & 4) != 0 ? copy_out(at, inside, outside, bounds) : copy_in(outside, at, inside, bounds);
  if (report.ok()) {
    HOLDS(report.value().bytes <= bounds.max_bytes);
    HOLDS(report.value().files <= bounds.max_entries);
    HOLDS(report.value().skipped.size() <= 20 && report.value().skipped.size() <= report.value().skipped_count);
    for (const std::string& sentence : report.value().skipped) HOLDS(is_valid_utf8(printable(sentence)) && !sentence.empty());
  } else {
    HOLDS(!report.error().text().empty());
  }
  fuzz::after_look = nullptr;
  fuzz::check_no_secret(root.get());
  fuzz::check_no_secret(host.get());
  return 0;
}

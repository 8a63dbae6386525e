// A stored bwrap argument file: it is read to its end, every mistake has a place, and what it becomes is absolute.
#include <string>

#include "fuzz.h"
#include "policy/bwrap/policy_file.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sbx;
  if (size > 4096) return 0;  // a mistake is looked for group by group: long ones take long
  bwrap::Surroundings around;
  around.directory = "/work";
  around.home = "/home/u";
  around.environment = {{"A", "b"}, {"PATH", "/bin"}};
  const ParsedPolicy parsed = bwrap::read_policy(fuzz::text_of(data, size), "x", around);
  for (const Error& error : parsed.mistakes) HOLDS(error.origin().rfind("x", 0) == 0 && !error.text().empty());
  if (!parsed.mistakes.empty()) return 0;
  HOLDS(parsed.layer.whole_view);
  HOLDS(!parsed.layer.directory.empty() && parsed.layer.directory[0] == '/');
  bool proc = false;
  for (const FsOp& op : parsed.layer.mounts) {
    HOLDS(std::visit([](const auto& any) { return !any.target.empty() && any.target[0] == '/'; }, op));
    if (const auto* bind = std::get_if<BindOp>(&op)) HOLDS(!bind->source.empty() && bind->source[0] == '/' && !bind->origin.empty());
    proc = proc || std::holds_alternative<ProcOp>(op);
  }
  HOLDS(proc);
  for (const auto& [key, value] : parsed.layer.values) HOLDS(find_key(key) != nullptr && !value.origin.empty());
  return 0;
}

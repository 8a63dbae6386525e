// The collectors of artifacts and plots on a tree that a payload made, and that changes at every look they take: nothing
// outside is read or written, every limit is kept, what is copied is what was listed.
#include <set>
#include <string>

#include "base/text.h"
#include "fuzz.h"
#include "looks.h"
#include "runtime/artifacts.h"
#include "runtime/digest.h"
#include "runtime/plots.h"
#include "runtime/tree_walk.h"
#include "tree.h"

namespace {

using namespace sbx;
using namespace sbx::runtime;

void check_sentence(const std::string& text) {
  HOLDS(!text.empty() && is_valid_utf8(text));
  for (const char c : text) HOLDS(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}

void check_list(const ArtifactList& list, const ArtifactBounds& bounds) {
  static const std::string secret = sha256_hex(fuzz::kSecret);
  HOLDS(list.artifacts.size() <= bounds.max_entries);
  uint64_t hashed = 0;
  const Artifact* before = nullptr;
  for (const Artifact& artifact : list.artifacts) {
    HOLDS(before == nullptr || before->path < artifact.path);
    before = &artifact;
    const std::vector<std::string> parts = split(artifact.path, '/');
    HOLDS(parts.size() <= bounds.max_depth);
    for (const std::string& part : parts) HOLDS(!part.empty() && part != "." && part != "..");
    HOLDS(artifact.sha256.empty() || (artifact.sha256.size() == 64 && artifact.type == Artifact::Type::file));
    HOLDS(artifact.sha256 != secret);
    if (!artifact.sha256.empty()) hashed += artifact.size;
    switch (artifact.type) {
      case Artifact::Type::file: HOLDS(!artifact.sha256.empty() || !artifact.note.empty()); break;
      case Artifact::Type::directory:
      case Artifact::Type::deleted: break;
      default: HOLDS(!artifact.note.empty() && artifact.size == 0);
    }
  }
  HOLDS(hashed <= bounds.max_bytes);
  for (const std::string& sentence : list.dropped) check_sentence(sentence);
}

void check_plots(const PlotList& list, const PlotBounds& bounds, bool copied) {
  HOLDS(list.plots.size() <= bounds.max_files);
  uint64_t bytes = 0;
  std::set<std::string> files;
  for (const Plot& plot : list.plots) {
    bytes += plot.size;
    HOLDS(!plot.format.empty() && plot.index >= 1 && is_valid_utf8(plot.title));
    HOLDS(plot.content.find(fuzz::kSecret) == std::string::npos);
    for (const char c : plot.library) HOLDS((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'));
    if (!copied) HOLDS(plot.size == plot.content.size() && plot.file.empty());
    else HOLDS(starts_with(plot.file, std::string(kPlotsFolder) + "/") && files.insert(plot.file).second);
  }
  HOLDS(bytes <= bounds.max_bytes);
  for (const std::string& sentence : list.dropped) check_sentence(sentence);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Bytes bytes(data, size);
  ArtifactBounds bounds;
  bounds.max_entries = bytes.byte() % 24 + 1;
  bounds.max_bytes = bytes.byte() * uint64_t{64};
  bounds.max_depth = bytes.byte() % 40 + 1;
  bounds.max_scan = bytes.byte() % 160 + 1;
  const uint8_t flags = bytes.byte();
  bounds.private_tree = (flags & 1) != 0;
  const bool overlay = (flags & 2) != 0, compare = (flags & 4) != 0, keep_plots = (flags & 8) != 0;

  const fuzz::Scratch scratch;
  const UniqueFd tree = scratch.directory("tree"), destination = scratch.directory("destination");
  const std::string canary = scratch.path("canary");
  fuzz::TreeScript(destination.get(), canary).run(bytes, 8);
  fuzz::TreeScript(tree.get(), canary).run(bytes);
  Baseline before;
  if (compare) {
    Result<Baseline> taken = take_baseline(tree.get(), bounds);
    if (taken.ok()) before = taken.take();
    HOLDS(before.size() <= bounds.max_scan);
    fuzz::TreeScript(tree.get(), canary).run(bytes, 8);
  }

  fuzz::TreeScript payload(tree.get(), canary);
  size_t turns = 0;
  const fuzz::Looks looks([&] {
    if (turns++ < 24 && bytes.left() > 0) payload.step(bytes);
  });
  Result<ArtifactList> listed = list_artifacts(tree.get(), before, {"main.py", "d/a"}, overlay, bounds);
  HOLDS(listed.ok());
  {
    ArtifactList list = listed.take();
    check_list(list, bounds);
    turns = 0;
    const bool whole = copy_artifacts(tree.get(), list, destination.get(), bounds).ok();
    check_list(list, bounds);
    for (const Artifact& artifact : list.artifacts) {
      HOLDS(artifact.path != "main.py" && artifact.path != "d/a" && !starts_with(artifact.path, "d/a/"));
      if (!whole || artifact.sha256.empty() || !artifact.note.empty()) continue;
      struct stat info {};
      const Result<UniqueFd> copied = open_beneath(destination.get(), artifact.path, O_RDONLY | O_NONBLOCK);
      HOLDS(copied.ok());
      const int copy = copied.value().get();
      HOLDS(::fstat(copy, &info) == 0);
      HOLDS(S_ISREG(info.st_mode) && (info.st_mode & 07022) == 0 && static_cast<uint64_t>(info.st_size) == artifact.size);
      std::string content(artifact.size, '\0');
      HOLDS(::pread(copy, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()));
      HOLDS(sha256_hex(content) == artifact.sha256);
    }
  }

  turns = 0;
  const PlotBounds plot_bounds{bounds.max_entries, bounds.max_bytes, bounds.max_scan};
  const Result<PlotList> plots = collect_plots(tree.get(), keep_plots ? -1 : destination.get(), plot_bounds);
  if (plots.ok()) check_plots(plots.value(), plot_bounds, !keep_plots);
  return 0;
}

// The archive of `sbx session restore`, read into a tree that a payload made and goes on changing: nothing lands outside,
// the bounds are kept, one that is refused changes nothing; and what is saved of that tree is restored as it was.
#include <sys/mman.h>

#include <cstring>
#include <string>

#include "base/text.h"
#include "copy_bounds.h"
#include "fuzz.h"
#include "looks.h"
#include "session/copy.h"
#include "tree.h"

namespace {

using namespace sbx;
using namespace sbx::session;

constexpr size_t kBlock = 512;

sbx::UniqueFd memory_file(const std::string& content) {
  sbx::UniqueFd file(::memfd_create("archive", MFD_CLOEXEC));
  HOLDS(file.valid() && ::write(file.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()));
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

// Gives every header the magic and the checksum that no mutation finds, stepping over contents as a reader does.
void mend(std::string& archive) {
  for (size_t at = 0; at + kBlock <= archive.size();) {
    if (archive[at + 257] != 'u') archive.replace(at + 257, 8, std::string("ustar  \0", 8));
    archive.replace(at + 148, 8, "        ");
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(archive[at + i]);
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    archive.replace(at + 148, 7, std::string(digits, 7));
    uint64_t size = 0;
    for (size_t i = 124; i < 136 && archive[at + i] >= '0' && archive[at + i] <= '7'; ++i) size = size << 3 | static_cast<uint64_t>(archive[at + i] - '0');
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Bytes bytes(data, size);
  const uint8_t flags = bytes.byte();
  CopyBounds bounds = fuzz::small_bounds(bytes);

  const fuzz::Scratch scratch;
  const UniqueFd root = scratch.directory("root"), box = scratch.directory("root/box"), again = scratch.directory("again");
  const std::string canary = scratch.path("canary");
  fuzz::TreeScript payload(box.get(), canary);
  payload.run(bytes, 24);

  std::string archive(bytes.rest());
  std::replace(archive.begin(), archive.end(), fuzz::kSecret[0], '_');
  if ((flags & 1) != 0) mend(archive);
  {
    fuzz::Bytes turns(data, size);
    const fuzz::Looks looks([&] {
      if ((flags & 2) != 0) payload.step(turns);
    });
    const UniqueFd file = memory_file(archive);
    const std::vector<std::string> before = fuzz::listing_of(root.get());
    const Result<CopyReport> report = read_archive(file.get(), {root.get(), 0, 0}, (flags & 4) != 0 ? "box/d" : "box", bounds);
    if (report.ok()) {
      HOLDS(report.value().bytes <= bounds.max_bytes);
      HOLDS(report.value().files <= bounds.max_entries);
      HOLDS(report.value().skipped.size() <= report.value().skipped_count);
    } else {
      HOLDS(!report.error().text().empty() && is_valid_utf8(printable(report.error().text())));
      // All or nothing. (A payload that acts meanwhile changes the tree itself.)
      if ((flags & 2) == 0) HOLDS(fuzz::listing_of(root.get()) == before);
    }
  }
  // Beside the box there is still nothing.
  std::vector<std::string> beside;
  for (const std::string& line : fuzz::listing_of(root.get())) {
    if (!starts_with(line, "box/")) beside.push_back(line);
  }
  HOLDS(beside.empty());
  fuzz::check_no_secret(root.get());

  const UniqueFd saved = memory_file("");
  const Result<CopyReport> out = write_archive({root.get(), 0, 0}, "box", saved.get(), bounds);
  if (!out.ok()) return 0;
  HOLDS(out.value().bytes <= bounds.max_bytes && out.value().files <= bounds.max_entries);
  ::lseek(saved.get(), 0, SEEK_SET);
  // Long names and directories are entries of their own there.
  const Result<CopyReport> in = read_archive(saved.get(), {again.get(), 0, 0}, "", {bounds.max_bytes + (size_t{1} << 20), 100000, 1000});
  HOLDS(in.ok());
  HOLDS(in.value().files == out.value().files && in.value().skipped_count == 0);
  if (out.value().skipped_count == 0) HOLDS(fuzz::listing_of(again.get()) == fuzz::listing_of(box.get()));
  fuzz::check_no_secret(again.get());
  return 0;
}

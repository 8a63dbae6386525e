#include "runtime/build_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/digest.h"

namespace sbx::runtime {
namespace {

constexpr uint64_t kMostBytes = uint64_t{512} << 20;
constexpr uint64_t kMostBytesOfOne = uint64_t{64} << 20;
constexpr size_t kMostEntries = 1000;
constexpr size_t kMostMessages = size_t{1} << 20;  // bytes of each stream of the compiler's
constexpr size_t kMostProducts = 4096;
constexpr size_t kDeepest = 64;
constexpr std::string_view kHead = "sbx-build 1";

bool is_dots(const std::string& name) { return name == "." || name == ".."; }

int64_t nanos(const struct timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

// Collects the state of files, in an order that does not depend on the file system's.
class Watcher {
 public:
  explicit Watcher(size_t most) : left_(most) {}

  bool add_pattern(const std::string& pattern) {
    note(pattern);
    glob_t found{};
    const int answer = ::glob(pattern.c_str(), GLOB_NOCHECK, nullptr, &found);
    const std::unique_ptr<glob_t, void (*)(glob_t*)> guard(&found, ::globfree);
    if (answer != 0) return false;
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      if (!add(AT_FDCWD, found.gl_pathv[i], 0)) return false;
    }
    return true;
  }

  WatchState state() const { return {sha256_hex(text_), newest_}; }

 private:
  void note(std::string_view text) {
    text_ += text;
    text_ += '\0';
  }
  void note(const struct stat& info) {
    const uint64_t numbers[] = {info.st_dev, info.st_ino, info.st_mode, static_cast<uint64_t>(info.st_size),
                                static_cast<uint64_t>(nanos(info.st_mtim)), static_cast<uint64_t>(nanos(info.st_ctim))};
    text_.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
    newest_ = std::max({newest_, nanos(info.st_mtim), nanos(info.st_ctim)});
  }

  bool add(int dirfd, const std::string& name, size_t depth) {
    if (left_ == 0 || depth > kDeepest) return false;
    --left_;
    struct stat info {};
    if (::fstatat(dirfd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      note(errno_text(errno));  // its absence is a state as well
      return errno == ENOENT || errno == ENOTDIR;
    }
    note(name);
    note(info);
    const bool is_link = S_ISLNK(info.st_mode);
    if (is_link && ::fstatat(dirfd, name.c_str(), &info, 0) == 0) note(info);
    // A pattern may name a directory through a link (/lib); below a directory, links are not followed.
    if (!S_ISDIR(info.st_mode) || (is_link && depth > 0)) return true;
    const auto directory = sys::openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (!directory.ok()) return directory.error().errnum() == EACCES;  // neither can the compiler, which has our rights
    const Result<sys::Directory> stream = sys::list(directory.value().get());
    if (!stream.ok()) return false;
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(stream.value().get())) {
      if (!is_dots(entry->d_name)) names.emplace_back(entry->d_name);
      if (names.size() > left_) return false;
    }
    std::sort(names.begin(), names.end());
    for (const std::string& below : names) {
      if (!add(directory.value().get(), below, depth + 1)) return false;
    }
    note("/");  // the end of this directory
    return true;
  }

  std::string text_;
  int64_t newest_ = 0;
  size_t left_;
};

// CACHE/builds when it is a directory that only we can write to.
std::optional<UniqueFd> open_cache(const std::string& cache_directory) {
  if (cache_directory.empty()) return std::nullopt;
  auto fd = sys::open(join_path(cache_directory, "builds"), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!fd.ok()) return std::nullopt;
  const auto info = sys::fstat(fd.value().get());
  if (!info.ok() || info.value().st_uid != ::geteuid() || (info.value().st_mode & 077) != 0) return std::nullopt;
  return fd.take();
}

// Entries have no directories of their own below them.
void remove_entry(int cache, const std::string& name) {
  auto entry = sys::openat(cache, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!entry.ok()) return;
  if (const Result<sys::Directory> stream = sys::list(entry.value().get()); stream.ok()) {
    while (const dirent* file = ::readdir(stream.value().get())) {
      if (!is_dots(file->d_name)) (void)::unlinkat(entry.value().get(), file->d_name, 0);
    }
  }
  (void)::unlinkat(cache, name.c_str(), AT_REMOVEDIR);
}

// Makes room: the least recently used entries go until the rest, and `wanted` bytes, are within the bounds. What a
// killed run left half made goes as well, by its age.
void make_room(int cache, uint64_t wanted) {
  struct Entry {
    std::string name;
    int64_t used;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  const Result<sys::Directory> stream = sys::list(cache);
  if (!stream.ok()) return;
  uint64_t bytes = wanted;
  while (const dirent* item = ::readdir(stream.value().get())) {
    const std::string name = item->d_name;
    if (is_dots(name)) continue;
    auto entry = sys::openat(cache, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!entry.ok()) continue;
    const auto info = sys::fstat(entry.value().get());
    if (!info.ok()) continue;
    uint64_t size = 0;
    const Result<sys::Directory> files = sys::list(entry.value().get());
    while (const dirent* file = files.ok() ? ::readdir(files.value().get()) : nullptr) {
      const auto of = sys::fstatat(entry.value().get(), file->d_name, AT_SYMLINK_NOFOLLOW);
      if (of.ok() && S_ISREG(of.value().st_mode)) size += static_cast<uint64_t>(of.value().st_size);
    }
    bytes += size;
    entries.push_back({name, nanos(info.value().st_mtim), size});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  size_t count = entries.size() + 1;
  for (const Entry& entry : entries) {
    if (bytes <= kMostBytes && count <= kMostEntries) return;
    remove_entry(cache, entry.name);
    bytes -= entry.bytes;
    --count;
  }
}

bool copy_content(int from, int to) {
  char buffer[65536];
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(from, buffer, sizeof buffer, at);
    if (got == 0) return true;
    if (got < 0 || !sys::write_all(to, std::string_view(buffer, static_cast<size_t>(got))).ok()) return false;
    at += got;
  }
}

bool is_plain_name(const std::string& name) {
  if (name.empty() || name.size() > 1024 || name.find('\n') != std::string::npos) return false;
  const std::vector<std::string> parts = split(name, '/');
  return std::none_of(parts.begin(), parts.end(),
                      [](const std::string& part) { return part.empty() || is_dots(part); });
}

bool write_file(int directory, const std::string& name, std::string_view content) {
  auto file = sys::openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  return file.ok() && sys::write_all(file.value().get(), content).ok();
}

std::optional<std::string> read_whole(int directory, const std::string& name, size_t most) {
  auto file = sys::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file.ok()) return std::nullopt;
  auto text = sys::read_all(file.value().get(), most);
  if (!text.ok()) return std::nullopt;
  return text.take();
}

}  // namespace

std::optional<WatchState> look_at(std::span<const std::string> patterns, size_t most) {
  Watcher watcher(most);
  for (const std::string& pattern : patterns) {
    if (!watcher.add_pattern(pattern)) return std::nullopt;
  }
  return watcher.state();
}

std::optional<CachedBuild> load_build(const std::string& cache_directory, const std::string& key) {
  const std::optional<UniqueFd> cache = open_cache(cache_directory);
  if (!cache.has_value()) return std::nullopt;
  auto entry = sys::openat(cache->get(), key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!entry.ok()) return std::nullopt;
  const int directory = entry.value().get();
  const std::optional<std::string> index = read_whole(directory, "index", size_t{8} << 20);
  std::optional<std::string> out = read_whole(directory, "out", kMostMessages);
  std::optional<std::string> err = read_whole(directory, "err", kMostMessages);
  if (!index || !out || !err || index->empty() || index->back() != '\n') return std::nullopt;
  const std::vector<std::string> lines = split(std::string_view(*index).substr(0, index->size() - 1), '\n');
  if (lines.front() != kHead) return std::nullopt;
  CachedBuild build{{}, std::move(*out), std::move(*err)};
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> words = split(lines[i], ' ');  // mode size name, which may have spaces
    if (words.size() < 3 || (words[0] != "x" && words[0] != "-")) return std::nullopt;
    const auto size = parse_integer(words[1]);
    Product product;
    product.executable = words[0] == "x";
    product.name = lines[i].substr(words[0].size() + words[1].size() + 2);
    if (!size.ok() || !is_plain_name(product.name)) return std::nullopt;
    auto file = sys::openat(directory, std::to_string(i - 1), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!file.ok()) return std::nullopt;
    const auto info = sys::fstat(file.value().get());
    if (!info.ok() || !S_ISREG(info.value().st_mode) || static_cast<uint64_t>(info.value().st_size) != size.value()) {
      return std::nullopt;
    }
    product.content = file.take();
    build.products.push_back(std::move(product));
  }
  (void)::futimens(directory, nullptr);  // used now
  return build;
}

bool store_build(const std::string& cache_directory, const std::string& key, std::span<const Product> products,
                 const std::string& out, const std::string& err) {
  if (cache_directory.empty() || products.size() > kMostProducts || out.size() > kMostMessages ||
      err.size() > kMostMessages) {
    return false;
  }
  uint64_t bytes = 0;
  std::string index = std::string(kHead) + "\n";
  for (const Product& product : products) {
    const auto info = sys::fstat(product.content.get());
    if (!info.ok() || !is_plain_name(product.name)) return false;
    bytes += static_cast<uint64_t>(info.value().st_size);
    index += (product.executable ? "x " : "- ") + std::to_string(info.value().st_size) + " " + product.name + "\n";
  }
  if (bytes > kMostBytesOfOne) return false;
  if (!make_directories(join_path(cache_directory, "builds"), 0700).ok()) return false;
  const std::optional<UniqueFd> cache = open_cache(cache_directory);
  if (!cache.has_value()) return false;
  make_room(cache->get(), bytes);

  const std::string aside = key + "." + std::to_string(::getpid());
  remove_entry(cache->get(), aside);
  if (!sys::mkdirat(cache->get(), aside, 0700).ok()) return false;
  bool whole = false;
  if (auto entry = sys::openat(cache->get(), aside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW); entry.ok()) {
    const int directory = entry.value().get();
    whole = write_file(directory, "index", index) && write_file(directory, "out", out) && write_file(directory, "err", err);
    for (size_t i = 0; whole && i < products.size(); ++i) {
      auto file = sys::openat(directory, std::to_string(i), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
      whole = file.ok() && copy_content(products[i].content.get(), file.value().get());
    }
  }
  // ENOTEMPTY: another run was quicker, and stored the same.
  if (whole && ::renameat(cache->get(), aside.c_str(), cache->get(), key.c_str()) == 0) return true;
  remove_entry(cache->get(), aside);
  return false;
}

}  // namespace sbx::runtime

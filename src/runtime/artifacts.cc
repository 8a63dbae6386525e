#include "runtime/artifacts.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sha256.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/tree_walk.h"

namespace sbx::runtime {
namespace {

constexpr size_t kHeadSize = 512;         // bytes that mime_type() gets to see
constexpr size_t kBlockSize = 128 * 1024;
// Reading starts with O_NONBLOCK: between the look and the open a FIFO may have taken the file's place.
constexpr int kReadFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
// Below a destination that the caller named, mounts are the caller's own business; links are not.
constexpr unsigned long long kDestinationBeneath = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

int64_t nanoseconds(const struct timespec& time) { return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec; }

WalkLimits walk_limits(const ArtifactBounds& bounds) { return {bounds.max_scan, bounds.max_depth, bounds.private_tree}; }

class Sha256 {
 public:
  Sha256() { SHA256Init(&context_); }
  void update(const char* bytes, size_t size) { SHA256Update(&context_, reinterpret_cast<const uint8_t*>(bytes), size); }
  std::string finish() {
    char hex[SHA256_DIGEST_STRING_LENGTH];
    SHA256End(&context_, hex);
    return hex;
  }

 private:
  SHA2_CTX context_{};
};

// Reads exactly `size` bytes and hands them to `sink`; "" or why the content is not what was listed.
template <typename Sink>
Result<std::string> read_exactly(int fd, uint64_t size, Sink sink) {
  std::vector<char> block(kBlockSize);
  uint64_t left = size;
  for (;;) {
    // One byte more than announced is asked for, so that a file that grows is noticed and an endless one is not read.
    const size_t want = static_cast<size_t>(std::min<uint64_t>(block.size(), left + 1));
    Result<size_t> got = sys::read(fd, block.data(), want);
    if (!got.ok()) return std::string("could not be read: ") + errno_text(got.error().errnum());
    if (got.value() == 0) return std::string(left == 0 ? "" : "became shorter while it was read");
    if (got.value() > left) return std::string("became longer while it was read");
    SBX_TRY(sink(block.data(), got.value()));
    left -= got.value();
  }
}

Artifact::Type type_of(const struct stat& info) {
  switch (info.st_mode & S_IFMT) {
    case S_IFREG: return Artifact::Type::file;
    case S_IFDIR: return Artifact::Type::directory;
    case S_IFLNK: return Artifact::Type::symlink;
    case S_IFIFO: return Artifact::Type::fifo;
    case S_IFSOCK: return Artifact::Type::socket;
    default: return Artifact::Type::device;
  }
}

// Fills mime, sha256 and note of a file within the byte limit.
void describe_file(int parent_fd, const std::string& name, const struct stat& seen, Artifact& artifact) {
  Result<UniqueFd> fd = open_beneath(parent_fd, name, kReadFlags);
  if (!fd.ok()) {
    artifact.note = "could not be opened: " + errno_text(fd.error().errnum());
    return;
  }
  struct stat info {};
  if (::fstat(fd.value().get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_dev != seen.st_dev ||
      info.st_ino != seen.st_ino) {
    artifact.note = "replaced while it was looked at";
    return;
  }
  Sha256 hash;
  std::string head;
  auto sink = [&](const char* bytes, size_t size) -> Status {
    if (head.size() < kHeadSize) head.append(bytes, std::min(size, kHeadSize - head.size()));
    hash.update(bytes, size);
    return {};
  };
  Result<std::string> problem = read_exactly(fd.value().get(), artifact.size, sink);
  artifact.mime = mime_type(head, name);
  if (!problem.ok() || !problem.value().empty()) {
    artifact.note = problem.ok() ? problem.value() : problem.error().text();
    return;
  }
  artifact.sha256 = hash.finish();
}

// Files over the byte limit still get their type from the first bytes: a read of half a kilobyte is always affordable.
std::string mime_of_head(int parent_fd, const std::string& name, const struct stat& seen) {
  Result<UniqueFd> fd = open_beneath(parent_fd, name, kReadFlags);
  struct stat info {};
  if (!fd.ok() || ::fstat(fd.value().get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_ino != seen.st_ino) return "";
  char head[kHeadSize];
  Result<size_t> got = sys::read(fd.value().get(), head, sizeof head);
  return got.ok() ? mime_type(std::string_view(head, got.value()), name) : "";
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

bool excluded_path(const std::set<std::string>& exclude, const std::string& path) {
  if (exclude.empty()) return false;
  for (size_t end = path.size(); end != std::string::npos && end > 0; end = path.rfind('/', end - 1)) {
    if (exclude.count(path.substr(0, end)) != 0) return true;
  }
  return false;
}

// Opens, making what is missing, the directory `path` ("" is the root) below the destination.
Result<UniqueFd> open_destination_directory(int destination_fd, const std::string& path) {
  UniqueFd current = SBX_TRY(sys::openat(destination_fd, ".", O_RDONLY | O_DIRECTORY));
  if (path.empty()) return current;
  for (const std::string& part : split(path, '/')) {
    if (part.empty() || part == "." || part == "..") return Error::from_errno(EINVAL, "use directory " + quoted_path(path));
    if (Status made = sys::mkdirat(current.get(), part, 0755); !made.ok() && made.error().errnum() != EEXIST) {
      return Error::from_errno(made.error().errnum(), "create directory " + quoted_path(path));
    }
    Result<UniqueFd> next = sys::openat2(current.get(), part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, kDestinationBeneath);
    if (!next.ok()) return Error::from_errno(next.error().errnum(), "use directory " + quoted_path(path));
    current = next.take();
  }
  return current;
}

// A file of a directory of the destination under a temporary name, removed unless it is kept.
class NewFile {
 public:
  static Result<NewFile> make(int directory, mode_t mode) {
    for (unsigned attempt = 0;; ++attempt) {
      std::string name = ".sbx-copy-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
      Result<UniqueFd> made = sys::openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
      if (made.ok()) return NewFile(directory, std::move(name), made.take());
      if (made.error().errnum() != EEXIST || attempt > 1000) return made.take_error();
    }
  }
  NewFile(NewFile&& other) noexcept
      : directory_(other.directory_), name_(std::exchange(other.name_, "")), fd_(std::move(other.fd_)) {}
  ~NewFile() {
    if (!name_.empty()) ::unlinkat(directory_, name_.c_str(), 0);  // nothing can be done about a failure here
  }
  int fd() const { return fd_.get(); }
  // rename(2) replaces a link instead of following it, and refuses to replace a directory.
  Status keep_as(const std::string& name, const std::string& what) {
    if (::renameat(directory_, name_.c_str(), directory_, name.c_str()) != 0) return Error::from_errno(errno, what);
    name_.clear();
    return {};
  }

 private:
  NewFile(int directory, std::string name, UniqueFd fd) : directory_(directory), name_(std::move(name)), fd_(std::move(fd)) {}
  int directory_;
  std::string name_;
  UniqueFd fd_;
};

// Copies one file into `directory` under a temporary name and renames it into place. Returns "" or the reason why the
// source was refused; an Error concerns the destination.
Result<std::string> copy_file(int source_root, const Artifact& artifact, int directory, const std::string& name) {
  Result<UniqueFd> source = open_beneath(source_root, artifact.path, kReadFlags);
  if (!source.ok()) return "not copied: it could not be opened any more: " + errno_text(source.error().errnum());
  struct stat info {};
  if (::fstat(source.value().get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return std::string("not copied: it is not a regular file any more");
  }
  if (static_cast<uint64_t>(info.st_size) != artifact.size) return std::string("not copied: its size has changed");

  // The umask of the caller applies to the final mode too: it is theirs to say who may read.
  NewFile target = SBX_TRY(NewFile::make(directory, (info.st_mode & S_IXUSR) != 0 ? 0755 : 0644));
  Sha256 hash;
  auto sink = [&](const char* bytes, size_t size) -> Status {
    hash.update(bytes, size);
    return sys::write_all(target.fd(), std::string_view(bytes, size));
  };
  const std::string problem = SBX_TRY_CTX(read_exactly(source.value().get(), artifact.size, sink), quoted_path(artifact.path));
  if (!problem.empty()) return "not copied: it " + problem;
  if (hash.finish() != artifact.sha256) return std::string("not copied: its content has changed");
  SBX_TRY(target.keep_as(name, "put artifact " + quoted_path(artifact.path) + " in place"));
  return std::string();
}

}  // namespace

FileStamp stamp_of(const struct stat& info) {
  FileStamp stamp;
  stamp.device = info.st_dev;
  stamp.inode = info.st_ino;
  stamp.size = static_cast<uint64_t>(info.st_size);
  stamp.mtime_ns = nanoseconds(info.st_mtim);
  stamp.ctime_ns = nanoseconds(info.st_ctim);
  return stamp;
}

Result<Baseline> take_baseline(int dirfd, const ArtifactBounds& bounds) {
  Baseline baseline;
  WalkVisitor visitor;
  visitor.entry = [&](const WalkEntry& entry) {
    baseline.emplace(entry.path(), stamp_of(entry.info));
    return true;
  };
  const WalkReport report = SBX_TRY(walk_tree(dirfd, walk_limits(bounds), visitor));
  if (report.scan_limit_hit) {
    return Error(ErrorKind::resource, "the directory holds more than " + std::to_string(bounds.max_scan) +
                                          " entries: what a run changes in it cannot be told");
  }
  return baseline;
}

Result<ArtifactList> list_artifacts(int dirfd, const Baseline& before, const std::vector<std::string>& exclude,
                                    bool overlay_upper, const ArtifactBounds& bounds) {
  ArtifactList list;
  const std::set<std::string> excluded(exclude.begin(), exclude.end());
  std::set<std::string> seen;  // paths of `before` that are still there
  uint64_t not_listed = 0;
  std::string first_not_listed;
  uint64_t bytes_left = bounds.max_bytes;
  uint64_t over_bytes = 0;
  std::string pending_directory;  // new; listed if the walk finds it empty

  auto add = [&](Artifact artifact) {
    if (list.artifacts.size() >= bounds.max_entries) {
      if (not_listed++ == 0) first_not_listed = artifact.path;
      return;
    }
    list.artifacts.push_back(std::move(artifact));
  };

  WalkVisitor visitor;
  visitor.entry = [&](const WalkEntry& entry) {
    std::string path = entry.path();
    if (excluded_path(excluded, path)) return false;
    const auto known = before.find(path);
    if (known != before.end()) seen.insert(path);
    if (S_ISDIR(entry.info.st_mode)) {
      pending_directory = known == before.end() ? path : "";
      return true;
    }
    if (known != before.end() && known->second == stamp_of(entry.info)) return false;

    Artifact artifact;
    artifact.path = std::move(path);
    artifact.type = type_of(entry.info);
    switch (artifact.type) {
      case Artifact::Type::symlink: artifact.note = "link, not followed"; break;
      case Artifact::Type::fifo: artifact.note = "named pipe, not opened"; break;
      case Artifact::Type::socket: artifact.note = "socket, not opened"; break;
      case Artifact::Type::device:
        if (overlay_upper && S_ISCHR(entry.info.st_mode) && entry.info.st_rdev == makedev(0, 0)) {
          artifact.type = Artifact::Type::deleted;
        } else {
          artifact.note = "device, not opened";
        }
        break;
      case Artifact::Type::file: {
        artifact.size = static_cast<uint64_t>(entry.info.st_size);
        if (list.artifacts.size() >= bounds.max_entries) break;  // it is not going to be listed
        if (artifact.size > bytes_left) {
          artifact.mime = mime_of_head(entry.parent_fd, entry.name, entry.info);
          artifact.note = "over the byte limit";
          ++over_bytes;
          break;
        }
        bytes_left -= artifact.size;
        describe_file(entry.parent_fd, entry.name, entry.info, artifact);
        break;
      }
      case Artifact::Type::directory:
      case Artifact::Type::deleted: break;
    }
    add(std::move(artifact));
    return false;
  };
  visitor.entered = [&](int, const std::string& path, std::span<const std::string> names) {
    if (names.empty() && !path.empty() && path == pending_directory) {
      Artifact artifact;
      artifact.path = path;
      artifact.type = Artifact::Type::directory;
      add(std::move(artifact));
    }
    pending_directory.clear();
  };
  const WalkReport report = SBX_TRY(walk_tree(dirfd, walk_limits(bounds), visitor));

  // What was there before and is gone. Only a whole walk can tell; an overlay's upper directory never holds what was
  // left alone, so nothing follows from absence there.
  if (!overlay_upper && report.complete()) {
    for (const auto& [path, stamp] : before) {
      const std::string parent = parent_of(path);
      const bool parent_gone = !parent.empty() && before.count(parent) != 0 && seen.count(parent) == 0;
      if (seen.count(path) != 0 || parent_gone || excluded_path(excluded, path)) continue;
      Artifact artifact;
      artifact.path = path;
      artifact.type = Artifact::Type::deleted;
      add(std::move(artifact));
    }
  }

  std::sort(list.artifacts.begin(), list.artifacts.end(),
            [](const Artifact& left, const Artifact& right) { return left.path < right.path; });
  if (not_listed > 0) {
    list.dropped.push_back(std::to_string(not_listed) + " more than the " + std::to_string(bounds.max_entries) +
                           " entries listed, the first " + quoted_path(first_not_listed));
  }
  if (over_bytes > 0) {
    list.dropped.push_back(std::to_string(over_bytes) + " listed without digest, and not copied: over the limit of " +
                           format_size(Bytes{bounds.max_bytes}) + " for all files together");
  }
  for (std::string& sentence : report.sentences(walk_limits(bounds))) list.dropped.push_back(std::move(sentence));
  return list;
}

Result<UniqueFd> open_artifacts_destination(const std::string& destination) {
  Result<UniqueFd> existing = sys::open(destination, O_RDONLY | O_DIRECTORY);
  if (existing.ok() || existing.error().errnum() != ENOENT) return existing;
  SBX_TRY(make_directories(destination, 0755));
  return sys::open(destination, O_RDONLY | O_DIRECTORY);
}

Status copy_artifacts(int dirfd, ArtifactList& list, int destination_fd, const ArtifactBounds& bounds) {
  std::optional<Error> first_error;
  uint64_t bytes_left = bounds.max_bytes;
  size_t copied = 0;
  for (Artifact& artifact : list.artifacts) {
    if (artifact.type != Artifact::Type::file || artifact.sha256.empty()) continue;
    if (copied >= bounds.max_entries || artifact.size > bytes_left) {
      artifact.note = "not copied: over the limit";
      list.dropped.push_back(quoted_path(artifact.path) + " not copied: over the limit");
      continue;
    }
    const std::string parent = parent_of(artifact.path);
    const std::string name = parent.empty() ? artifact.path : artifact.path.substr(parent.size() + 1);
    auto copy = [&]() -> Result<std::string> {
      const UniqueFd directory = SBX_TRY(open_destination_directory(destination_fd, parent));
      return copy_file(dirfd, artifact, directory.get(), name);
    };
    Result<std::string> refused = copy();
    if (refused.ok() && refused.value().empty()) {
      bytes_left -= artifact.size;
      ++copied;
      continue;
    }
    artifact.note = refused.ok() ? refused.value() : "not copied: " + refused.error().text();
    list.dropped.push_back(quoted_path(artifact.path) + " " + artifact.note);
    if (refused.ok()) continue;
    // A full disk fails for everything that follows; something in the way of one file does not.
    const bool full = refused.error().kind() == ErrorKind::resource;
    if (!first_error.has_value()) first_error = refused.take_error();
    if (full) break;
  }
  if (first_error.has_value()) return *std::move(first_error);
  return {};
}

Status put_artifact(int destination_fd, const std::string& path, std::string_view content) {
  const std::string frame = "put artifact " + quoted_path(path) + " in place";
  const std::string parent = parent_of(path);
  const UniqueFd directory = SBX_TRY_CTX(open_destination_directory(destination_fd, parent), frame);
  NewFile target = SBX_TRY_CTX(NewFile::make(directory.get(), 0644), frame);
  SBX_TRY_CTX(sys::write_all(target.fd(), content), frame);
  return target.keep_as(parent.empty() ? path : path.substr(parent.size() + 1), frame);
}

// ---- MIME types ----------------------------------------------------------------------------------------------

namespace {

struct Signature {
  size_t offset;
  std::string_view bytes;
  const char* mime;
};

using namespace std::string_view_literals;

// First match wins. Formats that wrap others (RIFF, ISO media) are told apart by a second look in mime_type().
constexpr Signature kSignatures[] = {
    {0, "\x89PNG\r\n\x1a\n"sv, "image/png"},
    {0, "\xff\xd8\xff"sv, "image/jpeg"},
    {0, "GIF87a"sv, "image/gif"},
    {0, "GIF89a"sv, "image/gif"},
    {8, "WEBP"sv, "image/webp"},
    {0, "II*\0"sv, "image/tiff"},
    {0, "MM\0*"sv, "image/tiff"},
    {0, "\0\0\1\0"sv, "image/vnd.microsoft.icon"},
    {0, "%PDF-"sv, "application/pdf"},
    {0, "%!PS"sv, "application/postscript"},
    {0, "PK\3\4"sv, "application/zip"},
    {0, "PK\5\6"sv, "application/zip"},
    {0, "\x1f\x8b"sv, "application/gzip"},
    {0, "\xfd" "7zXZ\0"sv, "application/x-xz"},
    {0, "\x28\xb5\x2f\xfd"sv, "application/zstd"},
    {0, "BZh"sv, "application/x-bzip2"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "application/x-7z-compressed"},
    {257, "ustar"sv, "application/x-tar"},
    {0, "\x7f" "ELF"sv, "application/x-elf"},
    {0, "\xca\xfe\xba\xbe"sv, "application/java-vm"},
    {0, "\0asm"sv, "application/wasm"},
    {0, "!<arch>\n"sv, "application/x-archive"},
    {0, "SQLite format 3\0"sv, "application/vnd.sqlite3"},
    {0, "PAR1"sv, "application/vnd.apache.parquet"},
    {0, "ARROW1"sv, "application/vnd.apache.arrow.file"},
    {0, "\x93NUMPY"sv, "application/x-npy"},
    {0, "\x89HDF\r\n\x1a\n"sv, "application/x-hdf5"},
    {8, "WAVE"sv, "audio/wav"},
    {8, "AVI "sv, "video/x-msvideo"},
    {0, "ID3"sv, "audio/mpeg"},
    {0, "\xff\xfb"sv, "audio/mpeg"},
    {0, "\xff\xf3"sv, "audio/mpeg"},
    {0, "OggS"sv, "application/ogg"},
    {0, "fLaC"sv, "audio/flac"},
    {4, "ftypavif"sv, "image/avif"},
    {4, "ftypheic"sv, "image/heic"},
    {4, "ftypM4A "sv, "audio/mp4"},
    {4, "ftyp"sv, "video/mp4"},
    {0, "\x1a\x45\xdf\xa3"sv, "video/webm"},
    {0, "wOFF"sv, "font/woff"},
    {0, "wOF2"sv, "font/woff2"},
    {0, "OTTO"sv, "font/otf"},
    {0, "\0\1\0\0\0"sv, "font/ttf"},
};

struct Extension {
  const char* suffix;
  const char* mime;
};

// A name only chooses among text formats: it cannot turn bytes into a picture.
constexpr Extension kTextExtensions[] = {
    {".csv", "text/csv"},
    {".tsv", "text/tab-separated-values"},
    {".json", "application/json"},
    {".ipynb", "application/x-ipynb+json"},
    {".jsonl", "application/jsonl"},
    {".ndjson", "application/jsonl"},
    {".geojson", "application/geo+json"},
    {".html", "text/html"},
    {".htm", "text/html"},
    {".svg", "image/svg+xml"},
    {".xml", "application/xml"},
    {".md", "text/markdown"},
    {".yaml", "application/yaml"},
    {".yml", "application/yaml"},
    {".toml", "application/toml"},
    {".css", "text/css"},
    {".js", "text/javascript"},
    {".mjs", "text/javascript"},
    {".ts", "text/x-typescript"},
    {".py", "text/x-python"},
    {".r", "text/x-r"},
    {".sh", "text/x-shellscript"},
    {".c", "text/x-c"},
    {".h", "text/x-c"},
    {".cc", "text/x-c++"},
    {".cpp", "text/x-c++"},
    {".hpp", "text/x-c++"},
    {".java", "text/x-java"},
    {".go", "text/x-go"},
    {".rs", "text/x-rust"},
    {".rb", "text/x-ruby"},
    {".php", "text/x-php"},
    {".pl", "text/x-perl"},
    {".lua", "text/x-lua"},
    {".sql", "application/sql"},
    {".tex", "text/x-tex"},
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// Text: valid UTF-8 without control characters that no text has. A head that was cut inside a character is fine.
bool looks_like_text(std::string_view head) {
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\b' && c != '\x1b') return false;
  }
  for (size_t cut = 0; cut <= std::min<size_t>(3, head.size()); ++cut) {
    if (is_valid_utf8(head.substr(0, head.size() - cut))) return true;
    const auto last = static_cast<unsigned char>(head[head.size() - cut - 1]);
    if (last < 0x80) return false;  // the fault is not a character that was cut
  }
  return false;
}

}  // namespace

std::string mime_type(std::string_view head, std::string_view name) {
  if (head.empty()) return "application/x-empty";
  const bool riff = head.substr(0, 4) == "RIFF";
  for (const Signature& signature : kSignatures) {
    if (head.size() < signature.offset || head.substr(signature.offset, signature.bytes.size()) != signature.bytes) continue;
    if (signature.offset == 8 && !riff) continue;  // WEBP, WAVE and AVI are kinds of RIFF
    return signature.mime;
  }
  // "BM" alone would be any text that begins so: the reserved words of a bitmap's header are zero.
  if (head.size() >= 14 && head.substr(0, 2) == "BM" && head.substr(6, 4) == "\0\0\0\0"sv) return "image/bmp";
  if (!looks_like_text(head)) return "application/octet-stream";

  std::string_view text = head;
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);
  const std::string begin = lower(trim(text).substr(0, 256));
  const size_t dot = name.rfind('.');
  if (dot != std::string_view::npos) {
    const std::string suffix = lower(name.substr(dot));
    for (const Extension& extension : kTextExtensions) {
      if (suffix == extension.suffix) return extension.mime;
    }
  }
  if (starts_with(begin, "<!doctype html") || starts_with(begin, "<html")) return "text/html";
  if (starts_with(begin, "<svg") || (starts_with(begin, "<?xml") && begin.find("<svg") != std::string::npos)) {
    return "image/svg+xml";
  }
  if (starts_with(begin, "<?xml")) return "application/xml";
  return "text/plain";
}

}  // namespace sbx::runtime

#include "session/copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/sys.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "session/payload_files.h"

namespace sbx::session {
namespace {

constexpr size_t kChunk = 256 * 1024;
constexpr size_t kSaid = 20;
constexpr size_t kBlock = 512;

// One side of a copy: directories by descriptor, names of one component.
struct Side {
  uint32_t uid = 0, gid = 0;  // 0: the host's
  bool inside = false;

  Result<struct stat> stat(int directory, const std::string& name) const {
    const ActAs acting(uid, gid);
    return sys::fstatat(directory, name, AT_SYMLINK_NOFOLLOW);
  }
  Result<UniqueFd> open(int directory, const std::string& name, int flags, mode_t mode = 0) const {
    const ActAs acting(uid, gid);
    return sys::openat(directory, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode);
  }
  Result<UniqueFd> enter(int directory, const std::string& name) const { return open(directory, name, O_RDONLY | O_DIRECTORY); }
  // Made if missing; a link in its place is an error.
  Result<UniqueFd> make_directory(int directory, const std::string& name) const {
    {
      const ActAs acting(uid, gid);
      Status made = sys::mkdirat(directory, name, 0755);
      if (!made.ok() && made.error().errnum() != EEXIST) return made.take_error();
    }
    return enter(directory, name);
  }
  // Always a new file: what stood there is not written through.
  Result<UniqueFd> make_file(int directory, const std::string& name, bool executable) const {
    const ActAs acting(uid, gid);
    (void)sys::unlinkat(directory, name);
    return sys::openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, executable ? 0755 : 0644);
  }
  Status make_link(int directory, const std::string& name, const std::string& target) const {
    const ActAs acting(uid, gid);
    (void)sys::unlinkat(directory, name);
    if (::symlinkat(target.c_str(), directory, name.c_str()) != 0) return Error::from_errno(errno, "make the link " + quoted_path(name));
    return {};
  }
  std::vector<std::string> names(int directory, size_t limit) const {
    std::vector<std::string> found;
    const Result<sys::Directory> stream = sys::list(directory);
    if (!stream.ok()) return found;
    while (const dirent* entry = ::readdir(stream.value().get())) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (found.size() >= limit) break;
      found.emplace_back(name);
    }
    std::sort(found.begin(), found.end());
    return found;
  }
};

// What receives a tree: another tree, or an archive.
class Copier {
 public:
  Copier(const Side& from, const CopyBounds& bounds) : from_(from), bounds_(bounds) {}
  virtual ~Copier() = default;
  CopyReport report;

  // `name` in `directory`, of which `path` is what is said.
  Status entry(int directory, const std::string& name, const std::string& path, size_t depth) {
    const Result<struct stat> info = from_.stat(directory, name);
    if (!info.ok()) return skip(path, errno_text(info.error().errnum()));
    if (++entries_ > bounds_.max_entries) return Error(ErrorKind::resource, "more than " + std::to_string(bounds_.max_entries) + " files");
    if (S_ISDIR(info.value().st_mode)) return tree(directory, name, path, depth);
    if (S_ISLNK(info.value().st_mode)) return link(directory, name, path);
    if (!S_ISREG(info.value().st_mode)) return skip(path, "no regular file");
    const Result<UniqueFd> file = from_.open(directory, name, O_RDONLY);
    if (!file.ok()) return skip(path, errno_text(file.error().errnum()));
    const Result<struct stat> opened = sys::fstat(file.value().get());
    if (!opened.ok() || !S_ISREG(opened.value().st_mode)) return skip(path, "it changed meanwhile");
    ++report.files;
    return regular(file.value().get(), opened.value(), name, path);
  }

 protected:
  virtual Status regular(int file, const struct stat& info, const std::string& name, const std::string& path) = 0;
  virtual Status link(int directory, const std::string& name, const std::string& path) = 0;
  virtual Status begin_tree(const std::string& name, const std::string& path) = 0;
  virtual void end_tree() = 0;

  Status skip(const std::string& path, const std::string& why) {
    ++report.skipped_count;
    if (report.skipped.size() < kSaid) report.skipped.push_back(quoted_path(path) + " is left out: " + why);
    return {};
  }
  Status count(uint64_t bytes) {
    report.bytes += bytes;
    if (report.bytes <= bounds_.max_bytes) return {};
    return Error(ErrorKind::resource, "more than " + format_size(Bytes{bounds_.max_bytes}) + " altogether");
  }
  const Side& from_;

 private:
  Status tree(int directory, const std::string& name, const std::string& path, size_t depth) {
    if (depth >= bounds_.max_depth) return skip(path, "nested too deeply");
    const Result<UniqueFd> opened = from_.enter(directory, name);
    if (!opened.ok()) return skip(path, errno_text(opened.error().errnum()));
    SBX_TRY(begin_tree(name, path));
    for (const std::string& child : from_.names(opened.value().get(), bounds_.max_entries)) {
      SBX_TRY(entry(opened.value().get(), child, path + "/" + child, depth + 1));
    }
    end_tree();
    return {};
  }

  const CopyBounds& bounds_;
  size_t entries_ = 0;
};

// To a directory of the other side.
class TreeCopier final : public Copier {
 public:
  TreeCopier(const Side& from, const Side& to, int directory, std::string first_name, const CopyBounds& bounds)
      : Copier(from, bounds), to_(to), first_(std::move(first_name)) {
    stack_.push_back(directory);
  }

 private:
  std::string target_name(const std::string& name) const { return stack_.size() == 1 ? first_ : name; }
  Status regular(int file, const struct stat& info, const std::string& name, const std::string& path) override {
    const UniqueFd target = SBX_TRY_CTX(to_.make_file(stack_.back(), target_name(name), (info.st_mode & 0100) != 0), path);
    std::string buffer(kChunk, '\0');
    for (;;) {
      const size_t got = SBX_TRY(sys::read(file, buffer.data(), buffer.size()));
      if (got == 0) return {};
      SBX_TRY(count(got));
      SBX_TRY_CTX(sys::write_all(target.get(), std::string_view(buffer).substr(0, got)), path);
    }
  }
  Status link(int directory, const std::string& name, const std::string& path) override {
    if (!to_.inside) return skip(path, "a link");
    const Result<std::string> target = sys::readlinkat(directory, name);
    if (!target.ok()) return skip(path, "a link that cannot be read");
    return to_.make_link(stack_.back(), target_name(name), target.value());
  }
  Status begin_tree(const std::string& name, const std::string& path) override {
    owned_.push_back(SBX_TRY_CTX(to_.make_directory(stack_.back(), target_name(name)), path));
    stack_.push_back(owned_.back().get());
    return {};
  }
  void end_tree() override {
    stack_.pop_back();
    owned_.pop_back();
  }

  const Side& to_;
  std::string first_;
  std::vector<int> stack_;
  std::vector<UniqueFd> owned_;
};

Side side_of(const Inside& inside) { return Side{inside.uid, inside.gid, true}; }

Error missing(const std::string& path, int errnum) {
  Error error(ErrorKind::usage, errnum == ENOENT ? "no such file or directory: " + quoted_path(path) : "cannot use " + quoted_path(path) + ": " + errno_text(errnum));
  return errnum == ELOOP ? std::move(error).with_hint("links inside a sandbox are not followed: name the place that it leads to") : error;
}

// The directory that a path lies in, and its name there; an existing directory as a target is itself the directory.
struct Place {
  UniqueFd directory;
  std::string name;
};

Result<Place> place_inside(const Inside& inside, const std::string& path, bool enter_directory, const std::string& name) {
  const ActAs acting(inside.uid, inside.gid);
  std::string clean = path;
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();
  if (enter_directory) {
    Result<UniqueFd> directory = open_inside(inside.root, clean, O_RDONLY | O_DIRECTORY);
    if (directory.ok()) return Place{directory.take(), name};
    if (directory.error().errnum() == ELOOP || path.ends_with('/')) return missing(path, directory.error().errnum());
  }
  Result<UniqueFd> parent = open_inside(inside.root, dir_name(clean), O_RDONLY | O_DIRECTORY);
  if (!parent.ok()) return missing(path, parent.error().errnum());
  const std::string own = base_name(clean);
  // Of "/" the name is "/" again, which as a name in a directory would be the host's.
  if (own.empty() || own == "/" || own == "." || own == "..") return Error(ErrorKind::usage, quoted_path(path) + " names no file");
  return Place{parent.take(), own};
}

}  // namespace

Result<CopyReport> copy_out(const Inside& inside, const std::string& from, const std::string& to, const CopyBounds& bounds) {
  const Side source = side_of(inside);
  const Side host;
  Place place = SBX_TRY(place_inside(inside, from, false, ""));
  if (const Result<struct stat> info = source.stat(place.directory.get(), place.name); !info.ok()) return missing(from, info.error().errnum());
  else if (S_ISLNK(info.value().st_mode)) return missing(from, ELOOP);
  std::string directory = to, name = place.name;
  Result<UniqueFd> target = sys::open(to, O_RDONLY | O_DIRECTORY);
  if (!target.ok()) {
    directory = dir_name(to);
    name = base_name(to);
    target = sys::open(directory, O_RDONLY | O_DIRECTORY);
    if (!target.ok() || name.empty() || to.ends_with('/')) return missing(directory, target.ok() ? ENOENT : target.error().errnum());
  }
  TreeCopier copier(source, host, target.value().get(), name, bounds);
  SBX_TRY(copier.entry(place.directory.get(), place.name, place.name, 0));
  return std::move(copier.report);
}

Result<CopyReport> copy_in(const std::string& from, const Inside& inside, const std::string& to, const CopyBounds& bounds) {
  const Side host;
  const Side target = side_of(inside);
  const Result<std::string> real = sys::realpath(from);
  if (!real.ok()) return missing(from, real.error().errnum());
  // Named by what the caller called it, not by what a link of his leads to.
  std::string name = base_name(from.size() > 1 && from.back() == '/' ? from.substr(0, from.size() - 1) : from);
  if (name.empty() || name == "." || name == "..") name = base_name(real.value());
  if (name == "/") return Error(ErrorKind::usage, quoted_path(from) + " is all of the host").with_hint("name a directory in it");
  const Place place = SBX_TRY(place_inside(inside, to, true, name));
  const UniqueFd parent = SBX_TRY(sys::open(dir_name(real.value()), O_RDONLY | O_DIRECTORY));
  TreeCopier copier(host, target, place.directory.get(), place.name, bounds);
  SBX_TRY(copier.entry(parent.get(), base_name(real.value()), from, 0));
  return std::move(copier.report);
}

// ---- archives ------------------------------------------------------------------------------------------------------

namespace {

// POSIX ustar; numbers are octal digits.
struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, linkname[100], magic[6], version[2], uname[32], gname[32],
      devmajor[8], devminor[8], prefix[155], padding[12];
};
static_assert(sizeof(Header) == kBlock);

void octal(char* field, size_t width, uint64_t value) {
  for (size_t at = width - 1; at-- > 0; value >>= 3) field[at] = static_cast<char>('0' + (value & 7));
}

uint32_t checksum_of(const Header& header) {
  uint32_t sum = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  const auto* begin = reinterpret_cast<const unsigned char*>(header.checksum);
  for (size_t i = 0; i < sizeof header; ++i) {
    const bool own = bytes + i >= begin && bytes + i < begin + sizeof header.checksum;
    sum += own ? ' ' : bytes[i];
  }
  return sum;
}

class ArchiveWriter final : public Copier {
 public:
  ArchiveWriter(const Side& from, int fd, const CopyBounds& bounds) : Copier(from, bounds), fd_(fd) {}
  Status finish() const { return sys::write_all(fd_, std::string(2 * kBlock, '\0')); }

 private:
  Status put_header(const std::string& path, uint64_t size, int64_t mtime, mode_t mode, char type) const {
    if (path.size() >= sizeof Header{}.name && type != 'L') {
      SBX_TRY(put_header("././@LongLink", path.size() + 1, 0, 0644, 'L'));
      SBX_TRY(put_padded(path + '\0'));
    }
    Header header{};
    std::memcpy(header.name, path.data(), std::min(path.size(), sizeof header.name));
    octal(header.mode, sizeof header.mode, mode);
    octal(header.uid, sizeof header.uid, 0);
    octal(header.gid, sizeof header.gid, 0);
    octal(header.size, sizeof header.size, size);
    octal(header.mtime, sizeof header.mtime, static_cast<uint64_t>(std::max<int64_t>(mtime, 0)));
    header.type = type;
    std::memcpy(header.magic, "ustar ", 6);
    std::memcpy(header.version, " ", 2);
    octal(header.checksum, 7, checksum_of(header));
    header.checksum[7] = ' ';
    return sys::write_all(fd_, {reinterpret_cast<const char*>(&header), sizeof header});
  }
  Status put_padded(std::string bytes) const {
    bytes.resize((bytes.size() + kBlock - 1) / kBlock * kBlock, '\0');
    return sys::write_all(fd_, bytes);
  }
  // "./a/b" for "box/a/b".
  static std::string stored(const std::string& path) {
    const size_t slash = path.find('/');
    return slash == std::string::npos ? "./" : "." + path.substr(slash);
  }
  Status regular(int file, const struct stat& info, const std::string&, const std::string& path) override {
    const auto size = static_cast<uint64_t>(info.st_size);
    SBX_TRY(count(size));
    SBX_TRY(put_header(stored(path), size, info.st_mtime, (info.st_mode & 0100) != 0 ? 0755 : 0644, '0'));
    std::string buffer(kChunk, '\0');
    // As many bytes as the header says, whatever the file does meanwhile.
    for (uint64_t left = size; left > 0;) {
      size_t got = SBX_TRY(sys::read(file, buffer.data(), std::min<uint64_t>(left, buffer.size())));
      if (got == 0) {
        got = std::min<uint64_t>(left, buffer.size());
        std::fill_n(buffer.begin(), got, '\0');
      }
      SBX_TRY(sys::write_all(fd_, std::string_view(buffer).substr(0, got)));
      left -= got;
    }
    return sys::write_all(fd_, std::string((kBlock - size % kBlock) % kBlock, '\0'));
  }
  Status link(int, const std::string&, const std::string& path) override { return skip(path, "a link"); }
  Status begin_tree(const std::string&, const std::string& path) override {
    const std::string name = stored(path);
    return name == "./" ? Status() : put_header(name + "/", 0, 0, 0755, '5');
  }
  void end_tree() override {}

  int fd_;
};

Error no_archive(const std::string& why) {
  return Error(ErrorKind::usage, "this is no archive of sbx session save: " + why).with_hint("GNU tar makes one that can be read: tar --format=gnu -cf FILE -C DIR .");
}

Result<uint64_t> number_of(const char* field, size_t width) {
  uint64_t value = 0;
  size_t digits = 0;
  for (size_t at = 0; at < width && field[at] != '\0' && field[at] != ' '; ++at, ++digits) {
    if (field[at] < '0' || field[at] > '7') return no_archive("a number that is none");
    value = value << 3 | static_cast<uint64_t>(field[at] - '0');
  }
  if (digits == 0) return no_archive("a number is missing");
  return value;
}

// Whole, or (at the end of the file) nothing.
Result<bool> read_block(int fd, char* block, size_t size) {
  size_t done = 0;
  while (done < size) {
    const size_t got = SBX_TRY(sys::read(fd, block + done, size - done));
    if (got == 0) {
      if (done == 0) return false;
      return no_archive("it ends early");
    }
    done += got;
  }
  return true;
}

// The components of a stored name; none of them leads anywhere else.
Result<std::vector<std::string>> components_of(const std::string& name) {
  if (starts_with(name, "/")) return no_archive(quoted_path(name) + " is an absolute path");
  std::vector<std::string> parts;
  for (const std::string& part : split(name, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") return no_archive(quoted_path(name) + " leads out of it");
    parts.push_back(part);
  }
  if (parts.size() > 100) return no_archive("a path of more than 100 parts");
  return parts;
}

class ArchiveReader {
 public:
  ArchiveReader(int fd, const Side& to, int directory, const CopyBounds& bounds) : fd_(fd), to_(to), directory_(directory), bounds_(bounds) {}

  Result<CopyReport> run() {
    std::string long_name;
    for (size_t entries = 0;; ++entries) {
      Header header{};
      if (!SBX_TRY(read_block(fd_, reinterpret_cast<char*>(&header), sizeof header))) break;
      if (header.name[0] == '\0') break;  // the end
      if (entries >= bounds_.max_entries) return Error(ErrorKind::resource, "more than " + std::to_string(bounds_.max_entries) + " files");
      if (std::memcmp(header.magic, "ustar", 5) != 0 || SBX_TRY(number_of(header.checksum, sizeof header.checksum)) != checksum_of(header)) return no_archive("a header is wrong");
      const uint64_t size = SBX_TRY(number_of(header.size, sizeof header.size));
      std::string name(header.name, ::strnlen(header.name, sizeof header.name));
      const bool posix = header.magic[5] == '\0';
      if (posix && header.prefix[0] != '\0') name = std::string(header.prefix, ::strnlen(header.prefix, sizeof header.prefix)) + "/" + name;
      if (!long_name.empty()) name = std::exchange(long_name, {});
      report_.bytes += size;
      if (report_.bytes > bounds_.max_bytes) return Error(ErrorKind::resource, "more than " + format_size(Bytes{bounds_.max_bytes}) + " altogether");
      if (header.type == 'L') {
        if (size > 65536) return no_archive("a name of " + std::to_string(size) + " bytes");
        long_name.resize(size);
        SBX_TRY(read_block(fd_, long_name.data(), size));
        long_name.resize(::strnlen(long_name.data(), size));
        SBX_TRY(pass(padding(size)));
      } else if (header.type == '5') {
        const std::vector<std::string> parts = SBX_TRY(components_of(name));
        SBX_TRY(descend(parts));
      } else if (header.type == '0' || header.type == '\0') {
        const uint64_t mode = SBX_TRY(number_of(header.mode, sizeof header.mode));
        SBX_TRY(file(name, size, (mode & 0100) != 0));
      } else if (header.type == 'x' || header.type == 'g') {
        return no_archive("it has pax headers");
      } else {
        ++report_.skipped_count;
        if (report_.skipped.size() < kSaid) report_.skipped.push_back(quoted_path(name) + " is left out: no regular file");
        SBX_TRY(pass(size + padding(size)));
      }
    }
    return std::move(report_);
  }

 private:
  static uint64_t padding(uint64_t size) { return (kBlock - size % kBlock) % kBlock; }
  Status pass(uint64_t bytes) const {
    std::string buffer(kBlock, '\0');
    while (bytes > 0) {
      const size_t some = std::min<uint64_t>(bytes, buffer.size());
      if (!SBX_TRY(read_block(fd_, buffer.data(), some))) return no_archive("it ends early");
      bytes -= some;
    }
    return {};
  }
  Result<UniqueFd> descend(const std::vector<std::string>& parts) const {
    UniqueFd at = SBX_TRY(sys::dup(directory_));
    for (const std::string& part : parts) at = SBX_TRY_CTX(to_.make_directory(at.get(), part), quoted_path(part));
    return at;
  }
  Status file(const std::string& name, uint64_t size, bool executable) {
    std::vector<std::string> parts = SBX_TRY(components_of(name));
    if (parts.empty()) return no_archive("a file without a name");
    const std::string own = parts.back();
    parts.pop_back();
    const UniqueFd parent = SBX_TRY(descend(parts));
    const UniqueFd target = SBX_TRY_CTX(to_.make_file(parent.get(), own, executable), quoted_path(name));
    std::string buffer(kChunk, '\0');
    for (uint64_t left = size; left > 0;) {
      const size_t some = std::min<uint64_t>(left, buffer.size());
      if (!SBX_TRY(read_block(fd_, buffer.data(), some))) return no_archive("it ends early");
      SBX_TRY_CTX(sys::write_all(target.get(), std::string_view(buffer).substr(0, some)), quoted_path(name));
      left -= some;
    }
    ++report_.files;
    return pass(padding(size));
  }

  int fd_;
  const Side& to_;
  int directory_;
  const CopyBounds& bounds_;
  CopyReport report_;
};

}  // namespace

Result<CopyReport> write_archive(const Inside& inside, const std::string& directory, int to_fd, const CopyBounds& bounds) {
  const Side source = side_of(inside);
  const Place place = SBX_TRY(place_inside(inside, directory, false, ""));
  ArchiveWriter writer(source, to_fd, bounds);
  SBX_TRY(writer.entry(place.directory.get(), place.name, place.name, 0));
  SBX_TRY(writer.finish());
  return std::move(writer.report);
}

Result<CopyReport> read_archive(int from_fd, const Inside& inside, const std::string& directory, const CopyBounds& bounds) {
  const Side target = side_of(inside);
  Result<UniqueFd> opened = [&] {
    const ActAs acting(inside.uid, inside.gid);
    return open_inside(inside.root, directory, O_RDONLY | O_DIRECTORY);
  }();
  if (!opened.ok()) return missing(directory, opened.error().errnum());
  return ArchiveReader(from_fd, target, opened.value().get(), bounds).run();
}

}  // namespace sbx::session

// The archives of sbx session save and restore: GNU tar's format.
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/sys.h"
#include "base/text.h"
#include "session/copier.h"
#include "session/payload_files.h"

namespace sbx::session {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kMostParts = 1000000;

uint64_t padding(uint64_t size) { return (kBlock - size % kBlock) % kBlock; }

// As POSIX has it up to `tail`, where POSIX has the beginning of long names.
struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, linkname[100], magic[6], version[2], uname[32], gname[32],
      devmajor[8], devminor[8], tail[167];
};
static_assert(sizeof(Header) == kBlock);
constexpr size_t kPrefix = 155;  // of the tail

// A file with holes has type 'S': `size` counts what is stored, and here stands where that belongs. What finds no room in
// the header follows in blocks of its own.
struct StoredPart {
  char begin[12], size[12];
};
struct SparseTail {
  char times[24], unused[17];
  StoredPart parts[4];
  char more, real_size[12], padding[17];
};
static_assert(sizeof(SparseTail) == sizeof Header{}.tail);
struct SparseBlock {
  StoredPart parts[21];
  char more, padding[7];
};
static_assert(sizeof(SparseBlock) == kBlock);

// Octal digits; what they cannot hold stands in base 256, its first bit set.
void put_number(char* field, size_t width, uint64_t value) {
  const bool wide = value >> (3 * std::min<size_t>(width - 1, 21)) != 0;
  for (size_t at = wide ? width : width - 1; at-- > 0; value >>= wide ? 8 : 3) {
    field[at] = wide ? static_cast<char>(value & 255) : static_cast<char>('0' + (value & 7));
  }
  if (wide) field[0] = static_cast<char>(0x80);
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

template <size_t kCount>
bool put_parts(StoredPart (&slots)[kCount], const std::vector<Extent>& parts, size_t& next) {
  for (StoredPart& slot : slots) {
    if (next == parts.size()) return false;
    put_number(slot.begin, sizeof slot.begin, parts[next].begin);
    put_number(slot.size, sizeof slot.size, parts[next].end - parts[next].begin);
    ++next;
  }
  return next < parts.size();
}

class ArchiveWriter final : public Copier {
 public:
  ArchiveWriter(const Side& from, int fd, const CopyBounds& bounds) : Copier(from, bounds), fd_(fd) {}
  Status finish() const { return sys::write_all(fd_, std::string(2 * kBlock, '\0')); }

 private:
  struct Member {
    uint64_t size = 0;  // stored
    int64_t mtime = 0;
    mode_t mode = 0755;
    char type = '0';
    std::string tail;
  };
  Status put_header(const std::string& path, const Member& member) const {
    Header header{};
    if (path.size() >= sizeof header.name && member.type != 'L') {
      SBX_TRY(put_header("././@LongLink", {.size = path.size() + 1, .mode = 0644, .type = 'L', .tail = ""}));
      SBX_TRY(put_padded(path + '\0'));
    }
    std::memcpy(header.name, path.data(), std::min(path.size(), sizeof header.name));
    put_number(header.mode, sizeof header.mode, member.mode);
    put_number(header.uid, sizeof header.uid, 0);
    put_number(header.gid, sizeof header.gid, 0);
    put_number(header.size, sizeof header.size, member.size);
    put_number(header.mtime, sizeof header.mtime, static_cast<uint64_t>(std::max<int64_t>(member.mtime, 0)));
    header.type = member.type;
    std::memcpy(header.magic, "ustar ", 6);
    std::memcpy(header.version, " ", 2);
    std::memcpy(header.tail, member.tail.data(), std::min(member.tail.size(), sizeof header.tail));
    put_number(header.checksum, 7, checksum_of(header));
    header.checksum[7] = ' ';
    return sys::write_all(fd_, std::string_view(reinterpret_cast<const char*>(&header), sizeof header));
  }
  Status put_padded(std::string bytes) const {
    bytes.append(padding(bytes.size()), '\0');
    return sys::write_all(fd_, bytes);
  }
  // All names of one archive begin alike: "./".
  static std::string stored(const std::string& path) {
    const size_t slash = path.find('/');
    return slash == std::string::npos ? "./" : "./" + path.substr(slash + 1);
  }

  // What of a file is stored, in whole blocks. More than the bounds allow need not be looked for.
  Result<std::vector<Extent>> parts_of(int file, uint64_t size) const {
    std::vector<Extent> parts;
    uint64_t bytes = 0;
    for (uint64_t at = 0; at < size && bytes <= bounds().max_bytes;) {
      const std::optional<Extent> extent = next_extent(file, at);
      if (!extent || extent->begin >= size) break;
      const uint64_t begin = std::max(at, extent->begin / kBlock * kBlock), end = extent->end >= size ? size : std::min(size, extent->end + padding(extent->end));
      if (parts.size() == kMostParts) return Error(ErrorKind::resource, "a file of more than " + std::to_string(kMostParts) + " parts");
      if (!parts.empty() && parts.back().end == begin) parts.back().end = end;
      else parts.push_back({begin, end});
      bytes += end - begin;
      at = end;
    }
    return parts;
  }

  Status regular(int file, const struct stat& info, const std::string&, const std::string& path) override {
    const auto size = static_cast<uint64_t>(info.st_size);
    std::vector<Extent> parts = SBX_TRY_CTX(parts_of(file, size), path);
    Member member{.mtime = info.st_mtime, .mode = (info.st_mode & 0100) != 0 ? mode_t{0755} : mode_t{0644}, .tail = ""};
    for (const Extent& part : parts) member.size += part.end - part.begin;
    SBX_TRY_CTX(count(member.size), path);
    std::string map;
    if (member.size < size) {
      // A part of no bytes at the end of the file, as GNU tar has it.
      if (parts.empty() || parts.back().end < size) parts.push_back({size, size});
      member.type = 'S';
      SparseTail tail{};
      size_t next = 0;
      bool more = put_parts(tail.parts, parts, next);
      tail.more = more ? 1 : 0;
      put_number(tail.real_size, sizeof tail.real_size, size);
      member.tail.assign(reinterpret_cast<const char*>(&tail), sizeof tail);
      while (more) {
        SparseBlock block{};
        more = put_parts(block.parts, parts, next);
        block.more = more ? 1 : 0;
        map.append(reinterpret_cast<const char*>(&block), sizeof block);
      }
    }
    SBX_TRY(put_header(stored(path), member));
    SBX_TRY(sys::write_all(fd_, map));
    for (const Extent& part : parts) SBX_TRY(put_part(file, part));
    return {};
  }
  // As many bytes as the header says, whatever the file does meanwhile.
  Status put_part(int file, const Extent& part) {
    if (::lseek(file, static_cast<off_t>(part.begin), SEEK_SET) < 0) return Error::from_errno(errno, "pass over a hole");
    std::string buffer(std::min<uint64_t>(kCopyChunk, part.end - part.begin), '\0');
    for (uint64_t left = part.end - part.begin; left > 0;) {
      SBX_TRY(count(0));  // or give up
      size_t got = SBX_TRY(sys::read(file, buffer.data(), std::min<uint64_t>(left, buffer.size())));
      if (got == 0) {
        got = std::min<uint64_t>(left, buffer.size());
        std::fill_n(buffer.begin(), got, '\0');
      }
      SBX_TRY(sys::write_all(fd_, std::string_view(buffer).substr(0, got)));
      left -= got;
    }
    return sys::write_all(fd_, std::string(padding(part.end - part.begin), '\0'));
  }
  Status link(int, const std::string&, const std::string& path) override { return skip(path, "a link"); }
  Status begin_tree(const std::string&, const std::string& path) override {
    const std::string own = stored(path);
    return own == "./" ? Status() : put_header(own + "/", {.type = '5', .tail = ""});
  }
  void end_tree() override {}

  int fd_;
};

Error no_archive(const std::string& why) {
  return Error(ErrorKind::usage, "this is no archive of sbx session save: " + why).with_hint("GNU tar makes one that can be read: tar --format=gnu -cf FILE -C DIR .");
}

Result<uint64_t> number_of(const char* field, size_t width) {
  uint64_t value = 0;
  if ((field[0] & 0x80) != 0) {
    for (size_t at = 0; at < width; ++at) {
      if (value >> 55 != 0) return no_archive("a number that is too large");
      value = value << 8 | static_cast<unsigned char>(at == 0 ? field[0] & 0x7f : field[at]);
    }
    return value;
  }
  size_t digits = 0;
  for (size_t at = 0; at < width && field[at] != '\0' && field[at] != ' '; ++at, ++digits) {
    if (field[at] < '0' || field[at] > '7') return no_archive("a number that is none");
    value = value << 3 | static_cast<uint64_t>(field[at] - '0');
  }
  if (digits == 0) return no_archive("a number is missing");
  return value;
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
  ArchiveReader(int fd, const Side& to, int directory, const CopyBounds& bounds) : fd_(fd), to_(to), directory_(directory), tally_(bounds) {}

  Result<CopyReport> run() {
    std::string long_name;
    for (;;) {
      Header header{};
      SBX_TRY(read_block(&header));
      if (header.name[0] == '\0') break;
      SBX_TRY(tally_.entry());
      if (std::memcmp(header.magic, "ustar", 5) != 0 || SBX_TRY(number_of(header.checksum, sizeof header.checksum)) != checksum_of(header)) return no_archive("a header is wrong");
      const uint64_t size = SBX_TRY(number_of(header.size, sizeof header.size));
      std::string name(header.name, ::strnlen(header.name, sizeof header.name));
      const bool posix = header.magic[5] == '\0';
      if (posix && header.tail[0] != '\0') name = std::string(header.tail, ::strnlen(header.tail, kPrefix)) + "/" + name;
      if (!long_name.empty()) name = std::exchange(long_name, {});
      SBX_TRY(tally_.bytes(size));
      if (header.type == 'L') {
        if (size > 65536) return no_archive("a name of " + std::to_string(size) + " bytes");
        long_name.resize(size);
        SBX_TRY(read(long_name.data(), size));
        long_name.resize(::strnlen(long_name.data(), size));
        SBX_TRY(pass(padding(size)));
      } else if (header.type == '5') {
        const std::vector<std::string> parts = SBX_TRY(components_of(name));
        SBX_TRY(descend(parts));
      } else if (header.type == '0' || header.type == '\0') {
        SBX_TRY(file(header, name, {{0, size}}, size));
      } else if (header.type == 'S') {
        uint64_t real_size = 0;
        const std::vector<Extent> parts = SBX_TRY(map_of(header, size, real_size));
        SBX_TRY(file(header, name, parts, real_size));
      } else if (header.type == 'x' || header.type == 'g') {
        return no_archive("it has pax headers");
      } else {
        tally_.leave_out(name, "no regular file");
        SBX_TRY(pass(size + padding(size)));
      }
    }
    // Whoever writes into a pipe has more to say: the end is two blocks of zeros, and GNU tar fills up ten kilobytes.
    for (size_t left = 65536; left > 0;) {
      SBX_TRY(wait());
      const size_t got = SBX_TRY(sys::read(fd_, buffer_.data(), left));
      if (got == 0) break;
      left -= got;
    }
    return std::move(tally_.report);
  }

 private:
  // A read that an end of ours does not wait for.
  Status wait() {
    if (tally_.bounds().stop_fd < 0) return {};
    pollfd polls[] = {{fd_, POLLIN, 0}, {tally_.bounds().stop_fd, POLLIN, 0}};
    while (::poll(polls, 2, -1) < 0) {
      if (errno != EINTR) return Error::from_errno(errno, "wait for the archive");
    }
    return tally_.bytes(0);
  }
  Status read(void* bytes, size_t size) {
    for (size_t done = 0; done < size;) {
      SBX_TRY(wait());
      const size_t got = SBX_TRY(sys::read(fd_, static_cast<char*>(bytes) + done, size - done));
      if (got == 0) return no_archive(begun_ ? "it ends early" : "it is empty");
      begun_ = true;
      done += got;
    }
    return {};
  }
  template <class Block>
  Status read_block(Block* block) {
    static_assert(sizeof(Block) == kBlock);
    return read(block, kBlock);
  }
  Status pass(uint64_t bytes) {
    while (bytes > 0) {
      const size_t some = std::min<uint64_t>(bytes, buffer_.size());
      SBX_TRY(read(buffer_.data(), some));
      bytes -= some;
    }
    return {};
  }

  // Where the stored bytes of a file with holes belong.
  Result<std::vector<Extent>> map_of(const Header& header, uint64_t stored, uint64_t& real_size) {
    SparseTail tail{};
    std::memcpy(&tail, header.tail, sizeof tail);
    real_size = SBX_TRY(number_of(tail.real_size, sizeof tail.real_size));
    std::vector<Extent> parts;
    uint64_t end = 0;
    const auto take = [&](const StoredPart& slot) -> Status {
      if (slot.size[0] == '\0') return {};
      const uint64_t begin = SBX_TRY(number_of(slot.begin, sizeof slot.begin)), size = SBX_TRY(number_of(slot.size, sizeof slot.size));
      if (begin < end || begin > real_size || size > real_size - begin || size > stored) return no_archive("a file's parts overlap");
      end = begin + size;
      stored -= size;
      // Blocks in the archive are blocks of the file; but for the last.
      if (begin % kBlock != 0 && size > 0) return no_archive("a file's part begins within a block");
      if (size > 0) parts.push_back({begin, end});
      return {};
    };
    for (const StoredPart& slot : tail.parts) SBX_TRY(take(slot));
    bool more = tail.more != 0;
    for (size_t slots = 0; more; slots += std::size(SparseBlock{}.parts)) {
      if (slots > kMostParts) return no_archive("a file of more than " + std::to_string(kMostParts) + " parts");
      SparseBlock block{};
      SBX_TRY(read_block(&block));
      for (const StoredPart& slot : block.parts) SBX_TRY(take(slot));
      more = block.more != 0;
    }
    if (stored != 0) return no_archive("a file's parts are not all of it");
    return parts;
  }

  Result<UniqueFd> descend(const std::vector<std::string>& parts) const {
    UniqueFd at = SBX_TRY(sys::dup(directory_));
    for (const std::string& part : parts) at = SBX_TRY_CTX(to_.make_directory(at.get(), part), quoted_path(part));
    return at;
  }
  Status file(const Header& header, const std::string& name, const std::vector<Extent>& stored, uint64_t size) {
    std::vector<std::string> parts = SBX_TRY(components_of(name));
    if (parts.empty()) return no_archive("a file without a name");
    const std::string own = parts.back();
    parts.pop_back();
    const UniqueFd parent = SBX_TRY(descend(parts));
    const uint64_t mode = SBX_TRY(number_of(header.mode, sizeof header.mode));
    const UniqueFd target = SBX_TRY_CTX(to_.make_file(parent.get(), own, (mode & 0100) != 0), quoted_path(name));
    for (const Extent& part : stored) {
      if (::lseek(target.get(), static_cast<off_t>(part.begin), SEEK_SET) < 0) return Error::from_errno(errno, "pass over a hole of " + quoted_path(name));
      for (uint64_t left = part.end - part.begin; left > 0;) {
        const size_t some = std::min<uint64_t>(left, buffer_.size());
        SBX_TRY(read(buffer_.data(), some));
        SBX_TRY_CTX(sys::write_all(target.get(), std::string_view(buffer_).substr(0, some)), quoted_path(name));
        left -= some;
      }
      SBX_TRY(pass(padding(part.end - part.begin)));
    }
    if (::ftruncate(target.get(), static_cast<off_t>(size)) != 0) return Error::from_errno(errno, "make " + quoted_path(name) + " of " + std::to_string(size) + " bytes");
    ++tally_.report.files;
    return {};
  }

  int fd_;
  const Side& to_;
  int directory_;
  Tally tally_;
  bool begun_ = false;
  std::string buffer_ = std::string(kCopyChunk, '\0');
};

// ---- what was unpacked, into its place --------------------------------------------------------------------------------

constexpr std::string_view kStaging = ".sbx-restore-";

// A directory in `directory` that is gone afterwards. The lock on it tells the others that it is in use: one of a process that
// was killed is taken away by the next.
class Staging {
 public:
  static Result<Staging> make(const Side& side, int directory) {
    const std::vector<std::string> names = SBX_TRY(side.names(directory, CopyBounds().max_entries));
    for (const std::string& name : names) {
      if (!starts_with(name, kStaging)) continue;
      const Result<UniqueFd> left = side.enter(directory, name);
      if (left.ok() && ::flock(left.value().get(), LOCK_EX | LOCK_NB) == 0) side.remove_tree(directory, name);
    }
    const std::string name = std::string(kStaging) + SBX_TRY(sys::random_hex(8));
    Staging staging(side, directory, name);
    staging.fd_ = SBX_TRY(side.make_directory(directory, name));
    (void)::flock(staging.fd_.get(), LOCK_EX | LOCK_NB);  // a payload that has it gains nothing
    return staging;
  }
  Staging(Staging&& other) noexcept : side_(other.side_), directory_(other.directory_), name_(std::exchange(other.name_, "")), fd_(std::move(other.fd_)) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  Staging& operator=(Staging&&) = delete;
  ~Staging() {
    if (!name_.empty()) side_.remove_tree(directory_, name_);
  }
  int fd() const { return fd_.get(); }

 private:
  Staging(const Side& side, int directory, std::string name) : side_(side), directory_(directory), name_(std::move(name)) {}
  const Side& side_;
  int directory_;
  std::string name_;
  UniqueFd fd_;
};

// Moves what lies in `from` to `to`: directories are joined, files replaced. Without `move` it only looks whether that can be done.
Status merge(const Side& side, int from, int to, bool move, const std::string& path, const CopyBounds& bounds) {
  const std::vector<std::string> names = SBX_TRY(side.names(from, bounds.max_entries));
  for (const std::string& name : names) {
    const std::string at = path + name;
    const struct stat ours = SBX_TRY_CTX(side.stat(from, name), at);
    Result<struct stat> there = side.stat(to, name);
    if (!there.ok() && there.error().errnum() != ENOENT) return there.take_error().with_context(at);
    if (there.ok() && S_ISDIR(ours.st_mode) != S_ISDIR(there.value().st_mode)) {
      return Error(ErrorKind::system, quoted_path(at) + (S_ISDIR(ours.st_mode) ? " is a directory in the archive, and in the session it is none" : " is a directory in the session, and in the archive it is none"))
          .with_hint("remove it there first");
    }
    if (there.ok() && S_ISDIR(ours.st_mode)) {
      const UniqueFd deeper = SBX_TRY_CTX(side.enter(from, name), at);
      const UniqueFd target = SBX_TRY_CTX(side.enter(to, name), at);
      SBX_TRY(merge(side, deeper.get(), target.get(), move, at + "/", bounds));
    } else if (move) {
      SBX_TRY_CTX(side.rename(from, to, name), at);
    }
  }
  return {};
}

}  // namespace

Result<CopyReport> write_archive(const Inside& inside, const std::string& directory, int to_fd, const CopyBounds& bounds) {
  const Side source = side_of(inside);
  const Place place = SBX_TRY(place_inside(inside, directory, false, ""));
  ArchiveWriter writer(source, to_fd, bounds);
  SBX_TRY(writer.entry(place.directory.get(), place.name, place.name));
  SBX_TRY(writer.finish());
  return writer.take_report();
}

Result<CopyReport> read_archive(int from_fd, const Inside& inside, const std::string& directory, const CopyBounds& bounds) {
  const Side target = side_of(inside);
  const Result<UniqueFd> opened = [&] {
    const ActAs acting(inside.uid, inside.gid);
    return open_inside(inside.root, directory, O_RDONLY | O_DIRECTORY);
  }();
  if (!opened.ok()) return unusable(directory, opened.error().errnum());
  const Staging staging = SBX_TRY(Staging::make(target, opened.value().get()));
  Result<CopyReport> report = ArchiveReader(from_fd, target, staging.fd(), bounds).run();
  if (!report.ok() && report.error().errnum() == ENOSPC) return report.take_error().with_hint("it needs room beside what is there, which is as it was: remove something in the session first");
  if (!report.ok()) return report;
  for (const bool move : {false, true}) SBX_TRY(merge(target, staging.fd(), opened.value().get(), move, "", bounds));
  return report;
}

}  // namespace sbx::session

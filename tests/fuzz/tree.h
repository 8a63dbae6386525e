// Small hostile trees, built from bytes in a fresh directory of memory: whatever a payload can leave behind, names,
// links, FIFOs, sockets, modes, holes, depth. Beside the tree lies a canary that nothing may read or change.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "fuzz.h"

namespace fuzz {

inline constexpr char kSecret[] = "what no payload may see: 5c1e7a";

// Everything in the directory, whatever its modes are, and however deep it is.
inline void empty_directory(int directory) {
  DIR* const stream = ::fdopendir(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (stream == nullptr) return;
  while (const dirent* entry = ::readdir(stream)) {
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    if (::unlinkat(directory, entry->d_name, 0) == 0) continue;
    (void)!::fchmodat(directory, entry->d_name, 0700, 0);
    const sbx::UniqueFd below(::openat(directory, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (below.valid()) empty_directory(below.get());
    (void)::unlinkat(directory, entry->d_name, AT_REMOVEDIR);
  }
  ::closedir(stream);
}

// A directory with the canary and any number of others in it; gone at the end, and nothing was left open.
class Scratch {
 public:
  Scratch() : descriptors_(open_descriptors()) {
    // A chain of directories is left one descriptor at a time.
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
      files.rlim_cur = files.rlim_max;
      (void)::setrlimit(RLIMIT_NOFILE, &files);
    }
    const char* const base = std::getenv("SBX_FUZZ_SCRATCH");
    path_ = std::string(base != nullptr ? base : "/dev/shm") + "/sbx-fuzz-XXXXXX";
    HOLDS(::mkdtemp(path_.data()) != nullptr);
    fd_ = sbx::UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    HOLDS(fd_.valid());
    put("canary", kSecret);
    HOLDS(::fchmodat(fd(), "canary", kCanaryMode, 0) == 0);
  }
  ~Scratch() {
    struct stat info {};
    HOLDS(get(fd(), "canary") == kSecret && ::fstatat(fd(), "canary", &info, AT_SYMLINK_NOFOLLOW) == 0);
    HOLDS((info.st_mode & 07777) == kCanaryMode && info.st_nlink == 1);
    empty_directory(fd());
    fd_.reset();
    HOLDS(::rmdir(path_.c_str()) == 0);
    HOLDS(open_descriptors() == descriptors_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  int fd() const { return fd_.get(); }
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  sbx::UniqueFd directory(const char* name) const {
    (void)::mkdirat(fd(), name, 0755);
    sbx::UniqueFd opened(::openat(fd(), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    HOLDS(opened.valid());
    return opened;
  }
  void put(const char* name, const std::string& content) const {
    const sbx::UniqueFd file(::openat(fd(), name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    HOLDS(::write(file.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()));
  }
  // The first 4 KiB; "" where there is none.
  static std::string get(int directory, const char* name) {
    const sbx::UniqueFd file(::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    char bytes[4096];
    const ssize_t got = file.valid() ? ::read(file.get(), bytes, sizeof bytes) : 0;
    return got > 0 ? std::string(bytes, static_cast<size_t>(got)) : std::string();
  }

 private:
  static constexpr mode_t kCanaryMode = 04600;
  size_t descriptors_;
  std::string path_;
  sbx::UniqueFd fd_;
};

// What is done to a tree, one step at a time, read off the front of `bytes` while there is something left.
class TreeScript {
 public:
  // `root` is borrowed. `escape`: an absolute path outside, for links. Without `links` there are none among the first
  // names, which the host's side of a copy follows.
  TreeScript(int root, std::string escape, bool links = true) : escape_(std::move(escape)), links_(links) { stack_.emplace_back(::openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

  // Returns at the byte that ends a script, or without any left.
  void run(Bytes& bytes, size_t most = 48) {
    for (size_t done = 0; done < most && bytes.left() > 0; ++done) {
      if (!step(bytes)) return;
    }
  }
  // One thing; false: the end.
  bool step(Bytes& bytes) {
    const uint8_t what = bytes.byte();
    if (what == 0xff) return false;
    const int here = stack_.back().get();
    switch (what % 14) {
      case 0: {  // into a directory
        const std::string name = name_of(bytes);
        (void)::mkdirat(here, name.c_str(), 0755);
        enter(name);
        break;
      }
      case 1:
        if (stack_.size() > 1) stack_.pop_back();
        break;
      case 2: {
        const std::string name = name_of(bytes);
        write(name, content_of(bytes));
        break;
      }
      case 3: {  // a hole
        const std::string name = name_of(bytes);
        const off_t size = static_cast<off_t>(bytes.number<uint16_t>()) << (bytes.byte() % 40);
        const sbx::UniqueFd file(::openat(here, name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
        if (file.valid()) (void)!::ftruncate(file.get(), size);
        break;
      }
      case 4: {
        const std::string name = name_of(bytes);
        if (links_ || stack_.size() > 1) (void)!::symlinkat(target_of(bytes).c_str(), here, name.c_str());
        break;
      }
      case 5: (void)::mkfifoat(here, name_of(bytes).c_str(), 0644); break;
      case 6: (void)::mknodat(here, name_of(bytes).c_str(), S_IFSOCK | 0644, 0); break;
      case 7: (void)::mknodat(here, name_of(bytes).c_str(), S_IFCHR | 0644, 0); break;  // a deletion, in an overlay
      case 8: {
        const std::string from = name_of(bytes), to = name_of(bytes);
        (void)!::linkat(here, from.c_str(), here, to.c_str(), 0);
        break;
      }
      case 9: {
        const std::string name = name_of(bytes);
        const sbx::UniqueFd file(::openat(here, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (file.valid()) (void)::fchmod(file.get(), bytes.number<uint16_t>() & 07777);
        break;
      }
      case 10: {
        const std::string stem = name_of(bytes).substr(0, 100);
        for (unsigned count = bytes.byte() % 40; count > 0; --count) write(stem + std::to_string(count), "");
        break;
      }
      case 11: {  // straight down
        const std::string name = name_of(bytes);
        for (unsigned count = bytes.byte() % 100; count > 0; --count) {
          (void)::mkdirat(stack_.back().get(), name.c_str(), 0755);
          if (!enter(name)) break;
        }
        break;
      }
      case 12: {
        const std::string from = name_of(bytes), to = name_of(bytes);
        if (links_) (void)::renameat(here, from.c_str(), stack_[bytes.byte() % stack_.size()].get(), to.c_str());
        break;
      }
      case 13: {
        const std::string name = name_of(bytes);
        if (::unlinkat(here, name.c_str(), 0) != 0) (void)::unlinkat(here, name.c_str(), AT_REMOVEDIR);
        break;
      }
    }
    return true;
  }

  // One component: a well-known one, or what the bytes say.
  static std::string name_of(Bytes& bytes) {
    static const std::string known[] = {
        "a", "b", "d", "main.py", "out.txt", ".hidden", "-rf", "\xff\xfe", "\x1b[31mred", "line\nbreak", "..a", "caf\xc3\xa9", " ", "001.png.matplotlib.a%20b",
        std::string(NAME_MAX, 'n'), "\xe2\x80\xae" "cod.exe",
        ".git", "hooks", "config", ".envrc", "HEAD", "objects", "refs", ".vscode",
    };
    const uint8_t choice = bytes.byte();
    if (choice < 0x80) return known[choice % std::size(known)];
    std::string name;
    for (size_t left = choice % 24 + 1; left > 0; --left) {
      const char letter = static_cast<char>(bytes.byte());
      name += letter == '/' || letter == '\0' ? '_' : letter;
    }
    return name == "." || name == ".." ? "_" : name;
  }
  // Never the canary's text, which a fuzzer learns from our looking for it.
  static std::string content_of(Bytes& bytes) {
    std::string content;
    const uint8_t size = bytes.byte();
    for (size_t left = size % 64; left > 0; --left) {
      const char letter = static_cast<char>(bytes.byte());
      content += letter == kSecret[0] ? '_' : letter;
    }
    if (size >= 0xf0) content.resize(content.size() + 5000, 'x');
    return content;
  }

 private:
  std::string target_of(Bytes& bytes) const {
    static const char* const known[] = {"/", "..", ".", "a", "../canary", "../../canary", "/proc/self/root", "/proc/self/fd/0", "d", "a/b", "loop", ""};
    const uint8_t choice = bytes.byte();
    if (choice >= 0x80) return name_of(bytes);
    return choice >= 0x60 ? escape_ : known[choice % std::size(known)];
  }
  bool enter(const std::string& name) {
    if (stack_.size() >= 130) return false;
    sbx::UniqueFd below(::openat(stack_.back().get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!below.valid()) return false;
    stack_.push_back(std::move(below));
    return true;
  }
  void write(const std::string& name, const std::string& content) {
    const sbx::UniqueFd file(::openat(stack_.back().get(), name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
    if (file.valid()) (void)!::write(file.get(), content.data(), content.size());
  }

  std::string escape_;
  bool links_;
  std::vector<sbx::UniqueFd> stack_;
};

// What of a tree a copy must bring back: paths of directories ("a/") and of regular files with their owner's right to
// execute, size and content.
inline std::vector<std::string> listing_of(int directory, const std::string& prefix = "") {
  std::vector<std::string> lines;
  DIR* const stream = ::fdopendir(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (stream == nullptr) return lines;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    struct stat info {};
    if (name == "." || name == ".." || ::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISDIR(info.st_mode)) {
      lines.push_back(prefix + name + "/");
      const sbx::UniqueFd below(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      for (std::string& line : listing_of(below.get(), prefix + name + "/")) lines.push_back(std::move(line));
    } else if (S_ISREG(info.st_mode)) {
      lines.push_back(prefix + name + ((info.st_mode & 0100) != 0 ? " x " : " - ") + std::to_string(info.st_size) + " " + Scratch::get(directory, name.c_str()));
    }
  }
  ::closedir(stream);
  std::sort(lines.begin(), lines.end());
  return lines;
}

// No file below has the canary's text.
inline void check_no_secret(int directory) {
  for (const std::string& line : listing_of(directory)) HOLDS(line.find(kSecret) == std::string::npos);
}

}  // namespace fuzz

// rootfs/NAME.toml: what a payload sees of the host, expanded for this very host.
//
// It runs once per sandbox. Asking for a path that is not there costs the kernel next to nothing; listing a large folder
// (/etc) costs as much as a hundred such questions, so only a "*" does it.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>

#include "base/sys.h"
#include "base/text.h"
#include "policy/loader.h"
#include "policy/toml_document.h"

namespace sbx {
namespace {

using Entry = EmbeddedManifestEntry;

struct Manifest {
  TomlValue document;          // what the entries' paths are views of
  std::vector<Entry> entries;
};

Result<Manifest> parse_manifest(std::string_view text, const std::string& name) {
  Manifest manifest;
  manifest.document = SBX_TRY(parse_toml(text, name));
  for (const TomlValue& item : manifest.document.items) {
    if (item.key != "bind" && item.key != "copy")
      return Error(ErrorKind::policy, "unknown key \"" + printable(item.key, 64) + "\"")
          .with_origin(toml_key_place(name, item))
          .with_hint("a manifest has the keys bind and copy");
    if (!item.is(TomlValue::Kind::array)) return toml_error(name, item, item.key + " is a list of paths");
    for (const TomlValue& path : item.items) {
      if (!path.is(TomlValue::Kind::string) || path.string.size() < 2 || path.string.front() != '/' ||
          normalize_path(path.string) != path.string || path.string.find('\0') != std::string::npos)
        return toml_error(name, path, "an entry of a manifest is an absolute path without \".\", \"..\" or \"//\"");
      const size_t star = path.string.find('*');
      if (star != std::string::npos &&
          (path.string.find('/', star) != std::string::npos || path.string.find('*', star + 1) != std::string::npos))
        return toml_error(name, path, "one \"*\" may stand in the last part of a path");
      manifest.entries.push_back({path.string, path.line, item.key == "copy"});
    }
  }
  return manifest;
}

class Expander {
 public:
  Expander(std::span<const Entry> entries, const std::string& name, const std::string& root)
      : entries_(entries), name_(name), root_(root) {
    for (const Entry& entry : entries)
      if (!entry.copy && entry.path.find('*') == std::string_view::npos) shown_.push_back(entry.path);
  }

  Result<std::vector<FsOp>> run() {
    for (const Entry& entry : entries_) {
      const size_t star = entry.path.find('*');
      if (star == std::string_view::npos) {
        add(entry, std::string(entry.path));
        continue;
      }
      const std::string folder = dir_name(entry.path);
      const std::string pattern = base_name(entry.path);
      const size_t at = pattern.find('*');
      const std::string before = pattern.substr(0, at);
      const std::string after = pattern.substr(at + 1);
      for (const std::string_view name : listing(folder)) {
        if (name.size() < before.size() + after.size() || !starts_with(name, before)) continue;
        if (name.compare(name.size() - after.size(), after.size(), after) != 0) continue;
        add(entry, join_path(folder, name));
      }
    }
    if (shortage_) return std::move(*shortage_);
    return std::move(ops_);
  }

 private:
  // Names in one piece of memory, and views of them: a string each would be most of what a sandbox's start allocates.
  struct Listing {
    std::string text;
    std::vector<std::string_view> names;  // sorted
  };

  // The names in a folder; empty when it cannot be read.
  const std::vector<std::string_view>& listing(const std::string& folder) {
    const auto [place, fresh] = listings_.try_emplace(folder);
    Listing& listed = place->second;
    if (!fresh) return listed.names;
    const sys::Directory directory(opendir((root_ + folder).c_str()));
    if (directory == nullptr) {
      note(errno, folder);
      return listed.names;
    }
    listed.text.reserve(4096);
    while (const dirent* entry = readdir(directory.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") (listed.text += name) += '\0';
    }
    for (size_t begin = 0, end = 0; begin < listed.text.size(); begin = end + 1) {
      end = listed.text.find('\0', begin);
      listed.names.push_back(std::string_view(listed.text).substr(begin, end - begin));
    }
    std::sort(listed.names.begin(), listed.names.end());
    return listed.names;
  }

  // What is not there, or not for us, is left out. That we have no memory or descriptors to look at it is another matter: a
  // view that lacks files by chance would make programs fail in strange ways.
  void note(int errnum, const std::string& path) {
    if (!shortage_ && kind_of_bad_path(errnum) == ErrorKind::resource) shortage_ = Error::from_errno(errnum, "look at '" + root_ + path + "'");
  }

  bool is_shown(const std::string& path) const {
    return std::any_of(shown_.begin(), shown_.end(),
                       [&](std::string_view shown) { return path_is_under(path, shown); });
  }

  void add(const Entry& entry, const std::string& path) {
    struct stat status;
    if (::lstat((root_ + path).c_str(), &status) != 0) return note(errno, path);
    std::string source = path;
    if (S_ISLNK(status.st_mode)) {
      const Result<std::string> text = sys::readlink(root_ + path);
      if (!text.ok()) return note(text.error().errnum(), path);
      const std::string target =
          normalize_path(text.value().front() == '/' ? text.value() : join_path(dir_name(path), text.value()));
      if (is_shown(target)) {
        // Dangling links are left out: a program may take a link that leads nowhere for a broken installation.
        if (::lstat((root_ + target).c_str(), &status) != 0) return note(errno, path);
        ops_.push_back(SymlinkOp{path, text.value()});
        return;
      }
      const Result<std::string> real = sys::realpath(root_ + path);
      if (!real.ok()) note(real.error().errnum(), path);
      if (!real.ok() || !path_is_under(real.value(), root_.empty() ? "/" : root_)) return;
      source = real.value().substr(root_.size());
      if (is_shown(source)) {
        ops_.push_back(SymlinkOp{path, source});
        return;
      }
      if (::stat(real.value().c_str(), &status) != 0) return note(errno, path);
    }

    // What not everybody may read is none of the payload's business, even when the caller may.
    constexpr mode_t kFileForAll = S_IROTH;
    constexpr mode_t kDirectoryForAll = S_IROTH | S_IXOTH;
    if (S_ISDIR(status.st_mode)) {
      if ((status.st_mode & kDirectoryForAll) != kDirectoryForAll) return;
    } else if (!S_ISREG(status.st_mode) || (status.st_mode & kFileForAll) == 0) {
      return;
    }
    if (entry.copy && S_ISREG(status.st_mode) && static_cast<size_t>(status.st_size) <= kManifestCopyLimit) {
      Result<std::string> content = read_file(root_ + source, kManifestCopyLimit);
      if (!content.ok()) note(content.error().errnum(), path);
      if (content.ok()) ops_.push_back(FileOp{path, content.take(), 0644});
      return;
    }
    ops_.push_back(BindOp{.source = root_ + source,
                          .target = path,
                          .optional = true,
                          .source_mode = status.st_mode,
                          .source_device = status.st_dev,
                          .source_inode = status.st_ino,
                          .origin = name_ + ":" + std::to_string(entry.line)});
  }

  std::span<const Entry> entries_;
  const std::string& name_;
  const std::string& root_;
  std::vector<std::string_view> shown_;
  std::map<std::string, Listing> listings_;
  std::vector<FsOp> ops_;
  std::optional<Error> shortage_;
};

}  // namespace

Result<std::vector<FsOp>> expand_manifest_text(std::string_view text, const std::string& name,
                                               const std::string& root) {
  const Manifest manifest = SBX_TRY(parse_manifest(text, name));
  return Expander(manifest.entries, name, root).run();
}

Result<std::vector<FsOp>> expand_manifest(const std::string& name) {
  const std::string path = "rootfs/" + name + ".toml";
  const std::optional<std::span<const Entry>> entries = embedded_manifest(path);
  if (!entries) {
    std::vector<std::string> names;
    for (const std::string& file : embedded_files("rootfs")) {
      const std::string base = base_name(file);
      if (base.size() > 5 && base.compare(base.size() - 5, 5, ".toml") == 0) names.push_back(base.substr(0, base.size() - 5));
    }
    const std::string guess = did_you_mean(name, names);
    return Error(ErrorKind::policy, "no rootfs manifest \"" + printable(name, 64) + "\"")
        .with_hint(guess.empty() ? "there are: " + join(names, ", ") : "did you mean \"" + guess + "\"?");
  }
  return Expander(*entries, path, "").run();
}

std::string host_resolver_config() {
  const Result<std::string> real = sys::realpath("/etc/resolv.conf");
  return real.ok() ? real.value() : std::string();
}

}  // namespace sbx

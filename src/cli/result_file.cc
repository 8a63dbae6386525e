#include "cli/result_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::cli {
namespace {

// How many names a payload may have taken before we give up.
constexpr unsigned kNames = 1000;

Error refused(const std::string& path, const std::string& reason, const std::string& hint, ErrorKind kind = ErrorKind::usage) {
  return Error(kind, "the result cannot be written to '" + printable(path) + "': " + reason)
      .with_origin("flag --result")
      .with_hint(hint);
}

}  // namespace

Result<ResultFile> ResultFile::prepare(const std::string& path) {
  ResultFile file;
  file.shown_ = path;
  std::string place = path;
  if (Result<struct stat> info = sys::stat(path); info.ok()) {
    if (S_ISDIR(info.value().st_mode)) {
      return refused(path, "it is a directory", "name a file in it: --result " + shell_quote(join_path(path, "result.json")));
    }
    if (!S_ISREG(info.value().st_mode)) {
      Result<UniqueFd> opened = sys::open(path, O_WRONLY | O_NOCTTY);
      if (!opened.ok()) {
        const int errnum = opened.error().errnum();
        return refused(path, errno_text(errnum), "name a file that you may write", kind_of_bad_path(errnum));
      }
      file.stream_ = opened.take();
      return file;
    }
    Result<std::string> real = sys::realpath(path);
    if (real.ok()) place = real.take();
  }
  file.name_ = base_name(place);
  const std::string parent = dir_name(place);
  if (file.name_.empty() || place.back() == '/') return refused(path, "it is not a file name", "for instance --result out.json");
  // O_PATH: a directory that may be written need not be readable.
  Result<UniqueFd> opened = sys::open(parent, O_PATH | O_DIRECTORY);
  if (!opened.ok()) {
    const int errnum = opened.error().errnum();
    return refused(path, errnum == ENOENT ? "there is no directory '" + printable(parent) + "'" : errno_text(errnum),
                   errnum == ENOENT ? "make it first: mkdir -p " + shell_quote(parent) : "name a file that you may write",
                   kind_of_bad_path(errnum));
  }
  if (::faccessat(AT_FDCWD, parent.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return refused(path, "the directory: " + errno_text(errno), "name a file in a directory that you may write");
  }
  file.directory_ = opened.take();
  file.named_parent_ = parent;
  file.before_ = SBX_TRY(sys::fstat(file.directory_.get()));
  if (Result<std::string> real = sys::realpath(parent); real.ok()) file.parent_ = real.take();
  if (Result<struct stat> there = sys::fstatat(file.directory_.get(), file.name_, AT_SYMLINK_NOFOLLOW); there.ok()) {
    file.file_before_ = there.value();
  }
  return file;
}

Status ResultFile::write(const std::string& content) {
  const std::string shown = "the result '" + printable(shown_) + "'";
  if (stream_.valid()) {
    SBX_TRY_CTX(sys::write_all(stream_.get(), content), shown);
    return {};
  }
  restore_permissions();
  Result<std::string> temporary = write_beside(content);
  Status done = temporary.ok() ? put_in_place(temporary.value()) : Status(temporary.take_error());
  if (!done.ok()) {
    take_forged_away();
    return done.take_error().with_context(shown);
  }
  const Result<struct stat> now = sys::stat(named_parent_);
  if (!now.ok() || now.value().st_ino != before_.st_ino || now.value().st_dev != before_.st_dev) {
    return Error(ErrorKind::system, shown + " does not stand there: its directory was moved while the program ran")
        .with_hint("what stands there now was written by somebody else; name a directory that the program cannot reach");
  }
  return {};
}

// A payload that owns the directory can forbid it to us, who own it too.
void ResultFile::restore_permissions() {
  const Result<struct stat> now = sys::fstat(directory_.get());
  if (!now.ok() || (now.value().st_mode & 07777) == (before_.st_mode & 07777)) return;
  (void)::chmod(("/proc/self/fd/" + std::to_string(directory_.get())).c_str(), before_.st_mode & 07777);
}

// The name of a new file with the content.
Result<std::string> ResultFile::write_beside(const std::string& content) {
  const std::string stem = "." + name_.substr(0, 200) + "." + std::to_string(::getpid());
  for (unsigned attempt = 0;; ++attempt) {
    const std::string temporary = stem + (attempt == 0 ? "" : "-" + std::to_string(attempt)) + ".tmp";
    // Somebody's leftover under our very name; a directory there is left alone, and another name taken.
    (void)sys::unlinkat(directory_.get(), temporary);
    Result<UniqueFd> fd = sys::openat(directory_.get(), temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
    if (!fd.ok() && fd.error().errnum() == EEXIST && attempt < kNames) continue;
    if (!fd.ok()) return fd.take_error();
    Status written = sys::write_all(fd.value().get(), content);
    if (written.ok()) return temporary;
    (void)sys::unlinkat(directory_.get(), temporary);
    return written.take_error();
  }
}

Status ResultFile::put_in_place(const std::string& temporary) {
  const int directory = directory_.get();
  Status renamed = sys::renameat2(directory, temporary, directory, name_, 0);
  // It was no directory when we looked: the payload made one.
  for (unsigned attempt = 0; !renamed.ok() && renamed.error().errnum() == EISDIR && attempt < kNames; ++attempt) {
    const std::string aside = name_.substr(0, 200) + ".sbx-untrusted" + (attempt == 0 ? "" : "-" + std::to_string(attempt));
    if (!sys::renameat2(directory, name_, directory, aside, RENAME_NOREPLACE).ok()) continue;
    renamed = sys::renameat2(directory, temporary, directory, name_, 0);
  }
  if (!renamed.ok()) (void)sys::unlinkat(directory, temporary);
  return renamed;
}

// No result is better than one that the payload wrote.
void ResultFile::take_forged_away() {
  const Result<struct stat> there = sys::fstatat(directory_.get(), name_, AT_SYMLINK_NOFOLLOW);
  if (!there.ok()) return;
  const struct stat& info = there.value();
  const bool same = info.st_ino == file_before_.st_ino && info.st_dev == file_before_.st_dev &&
                    info.st_ctim.tv_sec == file_before_.st_ctim.tv_sec && info.st_ctim.tv_nsec == file_before_.st_ctim.tv_nsec;
  if (!same) (void)sys::unlinkat(directory_.get(), name_);
}

}  // namespace sbx::cli

#include "cli/result_file.h"

#include <unistd.h>

#include <cerrno>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::cli {
namespace {

Error refused(const std::string& path, const std::string& reason, const std::string& hint) {
  return Error(ErrorKind::usage, "the result cannot be written to '" + printable(path) + "': " + reason)
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
      if (!opened.ok()) return refused(path, errno_text(opened.error().errnum()), "name a file that you may write");
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
                   errnum == ENOENT ? "make it first: mkdir -p " + shell_quote(parent) : "name a file that you may write");
  }
  if (::faccessat(AT_FDCWD, parent.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return refused(path, "the directory: " + errno_text(errno), "name a file in a directory that you may write");
  }
  file.directory_ = opened.take();
  return file;
}

Status ResultFile::write(const std::string& content) {
  const std::string shown = "the result '" + printable(shown_) + "'";
  if (stream_.valid()) {
    SBX_TRY_CTX(sys::write_all(stream_.get(), content), shown);
    return {};
  }
  const std::string temporary = "." + name_.substr(0, 200) + "." + std::to_string(::getpid()) + ".tmp";
  // Somebody's leftover under our very name, or what a payload put there to stop us.
  (void)sys::unlinkat(directory_.get(), temporary);
  {
    const UniqueFd fd =
        SBX_TRY_CTX(sys::openat(directory_.get(), temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666), shown);
    Status written = sys::write_all(fd.get(), content);
    if (!written.ok()) {
      (void)sys::unlinkat(directory_.get(), temporary);
      return written.take_error().with_context(shown);
    }
  }
  Status renamed = sys::renameat2(directory_.get(), temporary, directory_.get(), name_, 0);
  if (!renamed.ok()) {
    (void)sys::unlinkat(directory_.get(), temporary);
    return renamed.take_error().with_context(shown);
  }
  return {};
}

}  // namespace sbx::cli

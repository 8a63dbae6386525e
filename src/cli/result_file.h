// Where --result goes. Decided before the run: the payload may be able to write the directory (a :rw workspace), and
// must not be able to turn our own write elsewhere by a link that it puts there meanwhile.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::cli {

class ResultFile {
 public:
  // Opens the directory of `path` (links resolved now), or, when `path` is a FIFO, a device or a descriptor's name
  // such as /dev/fd/3, that itself. Errors: usage.
  static Result<ResultFile> prepare(const std::string& path);
  // The real path of the directory that the file will stand in; "" when it is no regular file.
  const std::string& directory() const { return parent_; }
  // A regular file appears whole or not at all: a temporary name beside it, then a rename, which replaces whatever
  // stands there by then and follows nothing. REQUIRES that no process of the sandbox is left: what a payload did
  // meanwhile to forge the result or to stop us (other permissions, directories under our names) is undone here.
  // Errors also when the directory was moved away meanwhile: the path that the caller named is then somebody else's.
  Status write(const std::string& content);

 private:
  ResultFile() = default;
  Result<std::string> write_beside(const std::string& content);
  Status put_in_place(const std::string& temporary);
  void take_forged_away();
  void restore_permissions();

  UniqueFd directory_;
  std::string parent_, named_parent_;  // without links, and as the caller said
  struct stat before_ {};              // of the directory
  struct stat file_before_ {};         // of what stood there; st_ino 0: nothing
  std::string name_;
  UniqueFd stream_;
  std::string shown_;
};

}  // namespace sbx::cli

// Where --result goes. Decided before the run: the payload may be able to write the directory (a :rw workspace), and
// must not be able to turn our own write elsewhere by a link that it puts there meanwhile.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::cli {

class ResultFile {
 public:
  // Opens the directory of `path` (links resolved now), or, when `path` is a FIFO, a device or a descriptor's name
  // such as /dev/fd/3, that itself. Errors: usage.
  static Result<ResultFile> prepare(const std::string& path);
  // A regular file appears whole or not at all: a temporary name beside it, then a rename, which replaces whatever
  // stands there by then and follows nothing.
  Status write(const std::string& content);

 private:
  ResultFile() = default;
  UniqueFd directory_;
  std::string name_;
  UniqueFd stream_;
  std::string shown_;
};

}  // namespace sbx::cli

// The options that run and exec share, as a table that fills a RunRequest; and splitting their values. Limits and the
// other policy flags come from the key table (policy/layer.h).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/page.h"
#include "cli/parser.h"
#include "runtime/request.h"

namespace sbx::cli {

// What the command line asks of the front end itself.
struct FrontOptions {
  bool help = false;
  bool quiet = false;
  bool json = false;
  std::string result_file;
  bool text_given = false;  // -c
  bool eval = false;        // --eval
};

// The options of `run` (exec false) or `exec`. `with_defaults` fills in the defaults for --help, which means reading
// the default policy. The closures borrow request and front.
Result<std::vector<Option>> run_options(bool exec, bool with_defaults, runtime::RunRequest& request,
                                        FrontOptions& front);
std::vector<Example> run_examples(bool exec);

// Everything before the run: options, then FILE or CMD and the payload's arguments. Errors: usage. With front.help
// set, nothing else of the request is meaningful.
Status parse_run(bool exec, const std::vector<std::string>& words, runtime::RunRequest& request, FrontOptions& front);

// "SRC[:DST][:ro|:rw]", "DIR[:ro|:rw|:overlay]", "SRC[:NAME]". A path that holds a ':' and exists as it stands is
// taken as it stands. Errors: usage.
Result<runtime::MountArgument> split_mount(const std::string& text);
Result<runtime::WorkspaceArgument> split_workspace(const std::string& text);
Result<runtime::FileArgument> split_file(const std::string& text);

}  // namespace sbx::cli

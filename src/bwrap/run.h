// `sbx bwrap`: carries a bubblewrap command line out.
#pragma once

#include <string>
#include <vector>

namespace sbx::bwrap {

// `called` is what usage says that the program is called; `words` are what follows it. The exit status: COMMAND's, 128+N
// for signal N, 1 for an error of ours. May also end the process itself. REQUIRES a process with one thread.
int run(const std::string& called, const std::vector<std::string>& words);

}  // namespace sbx::bwrap

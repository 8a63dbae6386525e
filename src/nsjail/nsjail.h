// `sbx nsjail …` and the name `nsjail`: nsjail's command line, its configurations and its four ways to run a program.
//
// Theory of operation. One supervisor, outside; each program is pid 1 of its own jail, made by clone3 and run_direct()
// (ns/child.cc), with the supervisor's own stdin, stdout and stderr, or with pipes to a TCP connection. The supervisor
// sits in poll(): a pidfd for each program's end, a signalfd, the clock for time limits, sockets. No signal is waited
// for, so none can be lost. EXECVE has no supervisor: the process becomes the program.
#pragma once

#include <string>
#include <vector>

namespace sbx::nsjail {

inline constexpr int kFailure = 255;  // whatever kept the program from being executed

// `words` without the program's name; `program` is how it was called. The exit status.
int run(const std::vector<std::string>& words, const std::string& program);

}  // namespace sbx::nsjail

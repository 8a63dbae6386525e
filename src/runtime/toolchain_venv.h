// Python virtual environments. Internal to find_toolchain.
//
// A virtual environment is a directory with pyvenv.cfg, whose bin/python is a link to (or a copy of) the base
// interpreter. Python finds out by the path it was started with, so the link is kept, and everything on the way from it
// to the real file has to exist inside. Both the link and the `home` key may come from an untrusted checkout: a base is
// only shown when its end is an ELF file called python*, and by the same prefix rules as any other toolchain.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/toolchain.h"
#include "runtime/toolchain_paths.h"

namespace sbx::runtime {

// Commands that can stand in a virtual environment: python*, pypy*.
bool is_python_name(std::string_view name);

// `directory` has a regular pyvenv.cfg.
bool is_venv(const std::string& directory);

// The `home` value of pyvenv.cfg text (key = value lines, 16 KiB at most); "" when there is none that is an absolute
// path.
std::string venv_home(std::string_view text);

// The toolchain of the virtual environment `directory` by its bin/COMMAND. Errors: not_found when its interpreter
// is missing or not a Python, or when a part may not be shown.
Result<Toolchain> venv_toolchain(const std::string& directory, const std::string& command, const HostFacts& facts,
                                 const std::string& origin);

}  // namespace sbx::runtime

// The compile step of a run: the compiler in a sandbox of its own, and what it made, taken over for the run.
//
// A compiler's output is as hostile as the program's: it is taken over through descriptors of the supervisor, opened
// beneath the build directory as regular files, bounded in number and bytes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "policy/spec.h"
#include "runtime/build_cache.h"
#include "runtime/progress.h"
#include "runtime/request.h"
#include "runtime/sandbox.h"

namespace sbx::runtime {

// What the build cache needs to know to take the step's result from it, or to remember it there.
struct BuildMemory {
  std::string cache_directory;
  std::vector<std::string> watch;           // compile.watch of the language, and the tools
  std::vector<std::string> uncached_words;
  int program_fd = -1;                      // borrowed
  std::vector<FsOp> vouched;                // operations whose sources need no look: the host's own directories (`watch`), what never changes
  std::function<void(const std::string&)> note;
};

struct CompileWish {
  std::optional<BuildMemory> memory;  // nullopt: compile
  std::string needed;            // a product without which there is nothing to run; "" : none
  bool capture = false;          // keep the compiler's output for the result
  bool forward = false;          // show it on stderr
  CgroupParent* cgroups = nullptr;
  Progress* progress = nullptr;  // borrowed; ended before the compiler's first word is shown
  std::function<void(const std::string&)> show_call;  // as in RunOptions
};

struct CompileResult {
  CompileReport report;
  bool succeeded = false;
  std::string failure;           // what went wrong although the compiler ended well
  std::vector<Product> products;
};

// What the compiler sees of the caller's shares: the same, all of it read-only.
std::vector<FsOp> read_only_view(const std::vector<FsOp>& shared);

// Runs `spec`, which has the private directory kBuildDirectory, or takes what it made before. Errors: internal.
Result<CompileResult> run_compile_step(const SandboxSpec& spec, const HostFacts& facts, const CompileWish& wish,
                                       const Engine& engine);

// The operations that put the products into kBuildDirectory of the run. They borrow the products' descriptors.
std::vector<FsOp> place_products(const std::vector<Product>& products);

// The regular files below `directory`, with names that begin with `prefix`: beneath only, no links, no devices, at
// most `depth` levels, 768 files and `budget` bytes altogether (else: resource).
Status collect_products(int directory, const std::string& prefix, size_t depth, uint64_t& budget,
                        std::vector<Product>& products);

}  // namespace sbx::runtime

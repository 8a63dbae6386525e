#include "runtime/compile_step.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/runner.h"

namespace sbx::runtime {
namespace {

constexpr size_t kMostProducts = 256;  // files that a compile step may hand over
constexpr size_t kProductDepth = 16;

}  // namespace

Status collect_products(int directory, const std::string& prefix, size_t depth, uint64_t& budget,
                        std::vector<Product>& products) {
  UniqueFd listing = SBX_TRY(sys::openat(directory, ".", O_RDONLY | O_DIRECTORY));
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(listing.get()), ::closedir);
  if (stream == nullptr) return Error::from_errno(errno, "read the build directory");
  listing.release();
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    constexpr unsigned long long kBeneath =
        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
    // O_NONBLOCK: a FIFO must not hang us.
    Result<UniqueFd> opened =
        sys::openat2(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0, kBeneath);
    if (!opened.ok()) continue;  // a link, a socket, an unreadable file: not a product
    const struct stat info = SBX_TRY(sys::fstat(opened.value().get()));
    if (S_ISDIR(info.st_mode)) {
      if (depth == 0) continue;
      SBX_TRY(collect_products(opened.value().get(), prefix + name + "/", depth - 1, budget, products));
    } else if (S_ISREG(info.st_mode)) {
      const uint64_t size = static_cast<uint64_t>(info.st_size);
      if (products.size() >= kMostProducts || size > budget) {
        return Error(ErrorKind::resource, "the compiler's output is too large to hand over")
            .with_hint("the bounds are limits.disk and " + std::to_string(kMostProducts) + " files");
      }
      budget -= size;
      products.push_back({prefix + name, opened.take(), (info.st_mode & S_IXUSR) != 0});
    }
  }
  return {};
}

std::vector<FsOp> read_only_view(const std::vector<FsOp>& shared) {
  std::vector<FsOp> view;
  for (FsOp op : shared) {
    if (BindOp* bind = std::get_if<BindOp>(&op); bind != nullptr) bind->read_only = true;
    if (std::holds_alternative<PinOp>(op) || std::holds_alternative<ReadOnlyOp>(op)) continue;
    if (const OverlayOp* overlay = std::get_if<OverlayOp>(&op); overlay != nullptr) {
      BindOp bind;
      bind.source = overlay->lower;
      bind.target = overlay->target;
      bind.idmap = true;
      bind.no_links = true;
      bind.origin = overlay->origin;
      op = bind;
    }
    view.push_back(std::move(op));
  }
  return view;
}

Result<CompileResult> run_compile_step(const SandboxSpec& spec, const HostFacts& facts, const CompileWish& wish,
                                       const Engine& engine) {
  RunOptions options;
  // A compiler's messages, on whichever stream, are ours to show on stderr: stdout belongs to the program.
  for (OutputPlan* stream : {&options.stdio.out, &options.stdio.err}) {
    stream->capture = wish.capture;
    if (wish.forward) stream->forward_fd = STDERR_FILENO;
  }
  options.keep_directories = {kBuildDirectory};
  options.cgroups = wish.cgroups;
  RunResult run = engine(spec, facts, options);

  CompileResult result;
  result.report = CompileReport{std::move(run.outcome), spec.argv, spec.limits};
  const Outcome& outcome = result.report.outcome;
  if (outcome.verdict != Verdict::exited || outcome.exit_code != 0) return result;
  if (run.kept_directories.empty() || !run.kept_directories[0].valid()) {
    return Error(ErrorKind::internal, "the compile step's build directory did not come back");
  }
  uint64_t budget = spec.limits.disk.value;
  SBX_TRY_CTX(collect_products(run.kept_directories[0].get(), "", kProductDepth, budget, result.products),
              "taking over what the compiler made");
  result.succeeded = wish.needed.empty() ||
                     std::any_of(result.products.begin(), result.products.end(),
                                 [&](const Product& product) { return product.name == wish.needed; });
  if (!result.succeeded) result.failure = "the compiler ended well but made no program";
  return result;
}

std::vector<FsOp> place_products(const std::vector<Product>& products) {
  std::vector<FsOp> ops = {DirOp{kBuildDirectory, 0755}};
  for (const Product& product : products) {
    const std::string directory = dir_name(product.name);
    if (directory != ".") {
      std::string path = kBuildDirectory;
      for (const std::string& part : split(directory, '/')) {
        path += "/" + part;
        const FsOp wanted = DirOp{path, 0755};
        if (std::find(ops.begin(), ops.end(), wanted) == ops.end()) ops.push_back(wanted);
      }
    }
    ops.emplace_back(CopyFdOp{join_path(kBuildDirectory, product.name), FdNumber{product.content.get()},
                              product.executable ? uint32_t{0755} : uint32_t{0644}});
  }
  return ops;
}

}  // namespace sbx::runtime

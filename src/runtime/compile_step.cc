#include "runtime/compile_step.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <utility>
#include <variant>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/digest.h"
#include "runtime/program.h"
#include "runtime/progress.h"
#include "runtime/runner.h"
#include "runtime/spec_text.h"

namespace sbx::runtime {
namespace {

constexpr size_t kMostProducts = 768;  // files that a compile step may hand over: each is a descriptor of ours
constexpr size_t kProductDepth = 16;
constexpr int64_t kSettledNanos = 2'000'000'000;

// What the result of a compile step depends on.
struct BuildInput {
  std::vector<std::string> watched;
  WatchState state;
  std::string key;
};

// nullopt: nothing is to be remembered of this step.
std::optional<BuildInput> build_input(const SandboxSpec& spec, const BuildMemory& memory) {
  std::string contents;
  const auto add = [&](int fd) {
    Result<UniqueFd> copy = sys::open("/proc/self/fd/" + std::to_string(fd), O_RDONLY);  // with an offset of its own
    if (!copy.ok()) return false;
    const Result<std::string> bytes = sys::read_all(copy.value().get(), kProgramLimit);
    if (!bytes.ok()) return false;
    for (const std::string& word : memory.uncached_words) {
      if (bytes.value().find(word) == std::string::npos) continue;
      memory.note("build cache: not used, the source holds " + printable(word));
      return false;
    }
    contents += std::to_string(bytes.value().size()) + ":" + bytes.value();
    return true;
  };
  if (!add(memory.program_fd)) return std::nullopt;

  BuildInput input;
  input.watched = memory.watch;
  for (const FsOp& op : spec.fs) {
    if (std::find(memory.vouched.begin(), memory.vouched.end(), op) != memory.vouched.end()) continue;
    if (const CopyFdOp* file = std::get_if<CopyFdOp>(&op)) {
      if (!add(file->source.value)) return std::nullopt;
    } else if (const OverlayOp* overlay = std::get_if<OverlayOp>(&op)) {
      input.watched.push_back(overlay->lower);
    } else if (const BindOp* bind = std::get_if<BindOp>(&op)) {
      input.watched.push_back(bind->source);
    }
  }
  const std::optional<WatchState> state = look_at(input.watched);
  if (!state.has_value()) {
    memory.note("build cache: not used, there are too many files that the compiler could read");
    return std::nullopt;
  }
  input.state = *state;
  input.key = sha256_hex(spec_text(spec) + input.state.digest + "\n" + contents);
  return input;
}

std::optional<CompileResult> take(const BuildInput& input, const SandboxSpec& spec, const CompileWish& wish) {
  std::optional<CachedBuild> build = load_build(wish.memory->cache_directory, input.key);
  if (!build.has_value()) return std::nullopt;
  CompileResult result;
  result.succeeded = true;
  result.products = std::move(build->products);
  result.report = CompileReport{{}, spec.argv, spec.limits, true};
  Outcome& outcome = result.report.outcome;
  outcome.verdict = Verdict::exited;
  for (auto [stream, text] : {std::pair{&outcome.out, &build->out}, std::pair{&outcome.err, &build->err}}) {
    // As the compiler's words were passed on when it spoke them.
    if (wish.forward && !text->empty()) {
      if (wish.progress != nullptr) wish.progress->end();
      (void)sys::write_all(STDERR_FILENO, *text);
    }
    stream->total_bytes = text->size();
    stream->captured = wish.capture;
    if (wish.capture) stream->kept = std::move(*text);
  }
  wish.memory->note("compile: taken from the build cache");
  return result;
}

void remember(const BuildInput& input, const BuildMemory& memory, const CompileResult& result) {
  const Outcome& outcome = result.report.outcome;
  if (outcome.out.truncated || outcome.err.truncated) return;
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (input.state.newest_nanos > int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec - kSettledNanos ||
      look_at(input.watched) != input.state) {
    memory.note("build cache: not stored, files that the compiler could read have just changed");
  } else if (!store_build(memory.cache_directory, input.key, result.products, outcome.out.kept, outcome.err.kept)) {
    memory.note("build cache: not stored");
  }
}

}  // namespace

Status collect_products(int directory, const std::string& prefix, size_t depth, uint64_t& budget,
                        std::vector<Product>& products) {
  const sys::Directory stream = SBX_TRY(sys::list(directory));
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    constexpr unsigned long long kBeneath =
        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
    // O_NONBLOCK: a FIFO must not hang us.
    Result<UniqueFd> opened =
        sys::openat2(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0, kBeneath);
    if (!opened.ok() && opened.error().kind() == ErrorKind::resource) return opened.take_error();
    if (!opened.ok()) continue;  // a link, a socket, an unreadable file: not a product
    const struct stat info = SBX_TRY(sys::fstat(opened.value().get()));
    if (S_ISDIR(info.st_mode)) {
      if (depth == 0) continue;
      SBX_TRY(collect_products(opened.value().get(), prefix + name + "/", depth - 1, budget, products));
    } else if (S_ISREG(info.st_mode)) {
      const uint64_t size = static_cast<uint64_t>(info.st_size);
      if (products.size() >= kMostProducts || size > budget) {
        return Error(ErrorKind::resource, "the compiler made more than can be taken over: the bounds are limits.disk and " +
                                              std::to_string(kMostProducts) + " files");
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
  std::optional<BuildInput> input;
  if (wish.memory.has_value()) input = build_input(spec, *wish.memory);
  if (input.has_value()) {
    if (std::optional<CompileResult> known = take(*input, spec, wish); known.has_value()) return std::move(*known);
  }

  RunOptions options;
  // A compiler's messages, on whichever stream, are ours to show on stderr: stdout belongs to the program.
  for (OutputPlan* stream : {&options.stdio.out, &options.stdio.err}) {
    stream->capture = wish.capture || input.has_value();
    if (wish.forward) stream->forward_fd = STDERR_FILENO;
    if (wish.progress != nullptr) stream->before_first = [&wish] { wish.progress->end(); };
  }
  options.keep_directories = {kBuildDirectory};
  options.cgroups = wish.cgroups;
  options.progress = wish.progress;
  options.show_call = wish.show_call;
  RunResult run = engine(spec, facts, options);

  CompileResult result;
  result.report = CompileReport{std::move(run.outcome), spec.argv, spec.limits, false};
  const Outcome& outcome = result.report.outcome;
  if (outcome.verdict != Verdict::exited || outcome.exit_code != 0) return result;
  if (run.kept_directories.empty() || !run.kept_directories[0].valid()) {
    return Error(ErrorKind::internal, "the compile step's build directory did not come back");
  }
  uint64_t budget = spec.limits.disk.value;
  if (Status taken = collect_products(run.kept_directories[0].get(), "", kProductDepth, budget, result.products);
      !taken.ok()) {
    if (taken.error().kind() != ErrorKind::resource) {
      return taken.take_error().with_context("taking over what the compiler made");
    }
    result.failure = taken.error().text();
    return result;
  }
  result.succeeded = wish.needed.empty() ||
                     std::any_of(result.products.begin(), result.products.end(),
                                 [&](const Product& product) { return product.name == wish.needed; });
  if (!result.succeeded) result.failure = "the compiler ended well but made no program";
  if (result.succeeded && input.has_value()) remember(*input, *wish.memory, result);
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

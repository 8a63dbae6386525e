#include "policy/loader.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

#include "base/sys.h"
#include "base/text.h"
#include "policy/bwrap/policy_file.h"
#include "policy/dialect.h"
#include "policy/kafel/kafel.h"
#include "policy/nsjail/lower.h"
#include "policy/nsjail/read.h"
#include "policy/nsjail/review.h"
#include "policy/toml_document.h"

namespace sbx {
namespace {

constexpr std::string_view kSuffix = ".toml";
constexpr std::string_view kBuiltinFolder = "policies";
constexpr std::string_view kBuiltinLanguages = "policies/lang";

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

bool is_file_argument(std::string_view text) {
  return text.find('/') != std::string_view::npos || is_dialect_file(text);
}

// "strict" for "policies/strict.toml"; "" when it is no such file.
std::string stem_of(std::string_view path) {
  const std::string name = base_name(path);
  if (name.size() <= kSuffix.size() || !ends_with(name, kSuffix) || name.front() == '.') return {};
  return name.substr(0, name.size() - kSuffix.size());
}

// Names of the *.toml files of a folder, sorted; none when the folder does not exist or cannot be read.
std::vector<std::string> toml_files(const std::string& folder) {
  std::vector<std::string> names;
  if (folder.empty()) return names;
  const sys::Directory directory(opendir(folder.c_str()));
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory.get()))
    if (!stem_of(entry->d_name).empty()) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

// Others must not be able to write what decides about a sandbox of ours.
Status check_owner(const std::string& path, const struct stat& status) {
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error(ErrorKind::policy, quoted(path) + " can be changed by other users")
        .with_origin(path)
        .with_hint("chmod go-w " + shell_quote(path));
  if (status.st_uid != 0 && status.st_uid != geteuid())
    return Error(ErrorKind::policy, quoted(path) + " belongs to another user")
        .with_origin(path)
        .with_hint("copy it to a file of your own");
  return {};
}

// Text of a policy file. `ours`: it lies in the user's own folder and must be safe there.
Result<std::string> read_policy_file(const std::string& path, bool ours) {
  Result<UniqueFd> file = sys::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file.ok()) {
    Error problem = file.take_error();
    const ErrorKind kind = problem.errnum() == ENOENT ? ErrorKind::usage : ErrorKind::policy;
    return Error(kind, problem.errnum() == ENOENT ? "no policy file " + quoted(path) : problem.text());
  }
  const struct stat status = SBX_TRY(sys::fstat(file.value().get()));
  if (!S_ISREG(status.st_mode)) return Error(ErrorKind::policy, quoted(path) + " is not a regular file");
  if (ours) SBX_TRY(check_owner(path, status));
  return SBX_TRY_CTX(sys::read_all(file.value().get(), kMaxTomlBytes), "policy file " + quoted(path));
}

// The folder counts too: who can write there can put a file in place of ours.
Status check_folder(const std::string& folder) {
  const Result<struct stat> status = sys::stat(folder);
  if (!status.ok()) return {};  // not there: nothing will be found in it
  return check_owner(folder, status.value());
}

// One broken language stops the runs of all: a language that is quietly left out could be taken for another. So the error
// names the way on as well.
Error without_it(Error error, const std::string& path) {
  const std::string hint = (error.hint().empty() ? "" : error.hint() + "; ") + "to go on without it: mv " + shell_quote(path) + " " + shell_quote(path + ".off");
  return std::move(error).with_hint(hint);
}

// Mounts of a policy get their links resolved and their kind looked up once, here; resolve() never looks at the disk.
void look_up_sources(PolicyLayer& layer) {
  for (FsOp& op : layer.mounts) {
    if (auto* bind = std::get_if<BindOp>(&op)) {
      // A source that is missing stays as written: it is skipped or refused when the sandbox is set up.
      const Result<std::string> real = sys::realpath(bind->source);
      if (!real.ok()) continue;
      bind->source = real.value();
      bind->no_links = true;
      const Result<struct stat> status = sys::lstat(bind->source);
      if (status.ok()) bind->source_mode = status.value().st_mode;
    } else if (auto* overlay = std::get_if<OverlayOp>(&op)) {
      const Result<std::string> real = sys::realpath(overlay->lower);
      if (real.ok()) overlay->lower = real.value();
    }
  }
}

// The file that seccomp.kafel_file names, beside the policy at `path`.
Status read_kafel_file(const std::string& path, bool ours, const PolicySearch& search, PolicyLayer& layer) {
  const auto named = layer.values.find("seccomp.kafel_file");
  if (named == layer.values.end() || !std::holds_alternative<std::string>(named->second.value)) return {};
  const std::string& file = std::get<std::string>(named->second.value);
  const std::string& origin = named->second.origin;
  const std::string whole = file.front() == '/' ? file : join_path(dir_name(path), file);
  const Result<std::string> real = sys::realpath(whole);
  if (!real.ok()) return Error(ErrorKind::policy, "seccomp.kafel_file: " + real.error().text()).with_origin(origin);
  if (!search.workspace.empty() && path_is_under(real.value(), search.workspace))
    return Error(ErrorKind::policy, "seccomp.kafel_file " + quoted(file) + " lies in the shared workspace, where the payload may have put it")
        .with_origin(origin)
        .with_hint("copy it to a place beside your own policies");
  const std::string text = SBX_TRY(read_policy_file(real.value(), ours));
  layer.kafel = SBX_TRY(kafel::compile(text, {.name = whole}));
  return {};
}

// What bwrap takes from its caller: the process itself.
bwrap::Surroundings surroundings() {
  bwrap::Surroundings around;
  around.uid = geteuid();
  around.gid = getegid();
  if (const Result<std::string> here = sys::realpath("."); here.ok()) around.directory = here.value();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) around.environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  if (const auto home = around.environment.find("HOME"); home != around.environment.end()) around.home = home->second;
  around.is_directory = [](const std::string& path) {
    const Result<struct stat> status = sys::stat(path);
    return status.ok() && S_ISDIR(status.value().st_mode);
  };
  return around;
}

// All of the host as the root: its entries one by one, since the root itself is the sandbox's own. Instead of the host's
// processes and devices it has its own, unless the text puts them there by itself.
void expand_root(PolicyLayer& layer) {
  const auto has = [&](const char* target) {
    return std::any_of(layer.mounts.begin(), layer.mounts.end(), [&](const FsOp& op) { return std::visit([&](const auto& any) { return any.target == target; }, op); });
  };
  const bool own_proc = has("/proc"), own_dev = has("/dev");
  std::vector<FsOp> mounts;
  for (FsOp& op : layer.mounts) {
    const auto* root = std::get_if<BindOp>(&op);
    if (root == nullptr || root->target != "/") {
      mounts.push_back(std::move(op));
      continue;
    }
    layer.whole_host = root->origin;
    const sys::Directory directory(opendir("/"));
    std::set<std::string> names;
    while (const dirent* entry = directory == nullptr ? nullptr : readdir(directory.get())) names.insert(entry->d_name);
    for (const std::string& name : names) {
      if (name == "." || name == ".." || name == "proc" || name == "dev") continue;
      BindOp part = *root;
      part.source = part.target = "/" + name;
      part.optional = true;
      // A link is made anew: its target is found inside.
      const Result<std::string> text = sys::readlink(part.source);
      if (text.ok()) mounts.emplace_back(SymlinkOp{part.target, text.value()});
      else mounts.emplace_back(std::move(part));
    }
    if (!own_dev) mounts.emplace_back(DevOp{});
    if (!own_proc) mounts.emplace_back(ProcOp{});
  }
  layer.mounts = std::move(mounts);
}

// The same for a text of nsjail's, whose relative paths begin where the caller stands.
Result<ParsedPolicy> read_nsjail(const std::string& text, const std::string& shown, const PolicySearch& search) {
  ParsedPolicy parsed;
  Result<nsjail::Config> config = nsjail::parse_config(text, shown);
  if (!config.ok()) {
    parsed.mistakes.push_back(config.take_error());
    return parsed;
  }
  nsjail::LowerInput input;
  input.name = shown;
  input.directory = SBX_TRY(sys::getcwd());
  input.variable = [](const std::string& name) {
    const char* value = ::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  input.read = [&](const std::string& path) -> Result<std::string> {
    const std::string real = SBX_TRY(sys::realpath(path));
    if (!search.workspace.empty() && path_is_under(real, search.workspace)) {
      return Error(ErrorKind::policy, quoted(path) + " lies in the shared workspace, where the payload may have put it")
          .with_hint("copy it to a place beside your own policies");
    }
    return read_policy_file(real, false);
  };
  nsjail::Lowered lowered = nsjail::to_policy(config.value(), input);
  parsed.layer = std::move(lowered.layer);
  parsed.mistakes = std::move(lowered.wrong);
  parsed.elsewhere = std::move(lowered.mistakes);
  parsed.risks = nsjail::review(config.value());
  parsed.notes = std::move(lowered.notes);
  return parsed;
}

Result<ParsedPolicy> load_file(const std::string& path, const std::string& shown, bool ours,
                              const PolicySearch& search, const std::string& wanted) {
  // Links are resolved before the file is opened, so that a link out of or into the workspace says what it is.
  const Result<std::string> real = sys::realpath(path);
  if (!real.ok() && real.error().errnum() == ENOENT) {
    const std::string stem = stem_of(path);
    const std::string guess = did_you_mean(stem, policy_names(search));
    return Error(ErrorKind::usage, "no policy file " + quoted(shown))
        .with_hint(guess.empty() ? "sbx policy list names the policies that need no file"
                                 : "did you mean --policy " + guess + "?");
  }
  if (!real.ok()) return Error(ErrorKind::policy, real.error().text());
  const Dialect dialect = SBX_TRY(choose_dialect(path, wanted));
  const std::string text = SBX_TRY(read_policy_file(real.value(), ours));
  const bool in_workspace = !search.workspace.empty() && path_is_under(real.value(), search.workspace);
  if (in_workspace && dialect != Dialect::native) {
    return Error(ErrorKind::policy, "a policy in " + std::string(dialect_name(dialect)) + "'s words decides what is shared, and lies inside the shared workspace")
        .with_origin(shown)
        .with_hint("a policy there may only tighten; copy it out of the workspace to use it as your own");
  }
  ParsedPolicy parsed;
  switch (dialect) {
    case Dialect::native: parsed = parse_whole_native_toml(text, shown); break;
    case Dialect::bwrap:
      parsed = bwrap::read_policy(text, shown, surroundings());
      expand_root(parsed.layer);
      break;
    case Dialect::nsjail: parsed = SBX_TRY(read_nsjail(text, shown, search)); break;
  }
  parsed.layer.may_only_tighten = in_workspace;
  look_up_sources(parsed.layer);
  if (dialect != Dialect::native) return parsed;
  if (Status status = read_kafel_file(real.value(), ours, search, parsed.layer); !status.ok()) parsed.mistakes.push_back(status.take_error());
  return parsed;
}

}  // namespace

std::string user_policy_directory(const std::string& xdg_config_home, const std::string& home) {
  if (starts_with(xdg_config_home, "/")) return normalize_path(xdg_config_home + "/sbx/policies");
  return home.empty() ? "" : home + "/.config/sbx/policies";
}

std::vector<std::string> policy_names(const PolicySearch& search) {
  std::set<std::string> names;
  for (const std::string& file : embedded_files(kBuiltinFolder))
    // Only the folder itself: lang/ and seccomp/ hold other things.
    if (dir_name(file) == kBuiltinFolder && !stem_of(file).empty()) names.insert(stem_of(file));
  for (const std::string& file : toml_files(search.config_directory)) names.insert(stem_of(file));
  return {names.begin(), names.end()};
}

PolicyLayer base_layer(PolicyLayer defaults, std::span<const PolicyLayer> layers) {
  if (std::any_of(layers.begin(), layers.end(), [](const PolicyLayer& layer) { return layer.whole_view; })) bwrap::make_base(defaults, surroundings());
  return defaults;
}

Result<PolicyLayer> load_policy(const std::string& name_or_file, const PolicySearch& search) {
  ParsedPolicy parsed = SBX_TRY(load_whole_policy(name_or_file, search));
  if (!parsed.mistakes.empty()) return std::move(parsed.mistakes.front());
  if (!parsed.elsewhere.empty()) return std::move(parsed.elsewhere.front());
  return std::move(parsed.layer);
}

Result<ParsedPolicy> load_whole_policy(const std::string& name_or_file, const PolicySearch& search) {
  if (name_or_file.empty()) return Error(ErrorKind::usage, "an empty policy name").with_hint("try --policy strict");
  if (name_or_file.find('\0') != std::string::npos) return Error(ErrorKind::usage, "a policy name with a zero byte");
  if (is_file_argument(name_or_file)) return load_file(name_or_file, name_or_file, false, search, search.dialect);

  const std::string& name = name_or_file;
  // Not "default": the first layer of every run is the built-in one, whatever lies in a folder.
  if (!search.config_directory.empty() && name != "default") {
    const std::string path = join_path(search.config_directory, name + std::string(kSuffix));
    if (sys::lstat(path).ok()) {
      SBX_TRY(check_folder(search.config_directory));
      return load_file(path, path, true, search, "native");
    }
  }
  if (const std::string_view* text = embedded_file(std::string(kBuiltinFolder) + "/" + name + std::string(kSuffix)))
    return parse_whole_native_toml(*text, name + " policy");

  const std::string guess = did_you_mean(name, policy_names(search));
  return Error(ErrorKind::policy, "no policy " + quoted(name))
      .with_hint(guess.empty() ? "there are: " + join(policy_names(search), ", ") + "; a file is given by its path, as ./" +
                                     shell_quote(name)
                               : "did you mean --policy " + guess + "?");
}

Result<std::vector<RunnerSpec>> load_runners(const PolicySearch& search, std::string_view mention) {
  std::vector<RunnerSpec> runners;
  const std::string folder_of_ours = std::string(kBuiltinLanguages) + "/";
  if (const std::string_view* named = embedded_file(folder_of_ours + std::string(mention) + ".toml"); named != nullptr) {
    runners.push_back(SBX_TRY(parse_runner_toml(*named, std::string(mention) + ".toml")));
  } else {
    // As a string lies in what the texts were parsed to: half their size, and without their comments.
    const std::string wanted = static_cast<char>(mention.size()) + std::string(mention);
    for (const EmbeddedFile& file : all_embedded_files()) {
      const std::string_view name = file.path.substr(std::min(file.path.size(), folder_of_ours.size()));
      if (!starts_with(file.path, folder_of_ours) || name.find('/') != std::string_view::npos) continue;
      if (!mention.empty() && ::memmem(file.code.data(), file.code.size(), wanted.data(), wanted.size()) == nullptr) continue;
      runners.push_back(SBX_TRY(parse_runner_toml(file.content, std::string(name))));
    }
  }
  if (!search.config_directory.empty()) {
    const std::string folder = join_path(search.config_directory, "lang");
    const std::vector<std::string> files = toml_files(folder);
    if (!files.empty()) SBX_TRY(check_folder(folder));
    for (const std::string& file : files) {
      const std::string path = join_path(folder, file);
      const std::string text = SBX_TRY(read_policy_file(path, true));
      Result<RunnerSpec> read = parse_runner_toml(text, path);
      if (!read.ok()) return without_it(read.take_error(), path);
      RunnerSpec runner = read.take();
      const auto same = std::find_if(runners.begin(), runners.end(),
                                     [&](const RunnerSpec& known) { return known.name == runner.name; });
      if (same != runners.end()) *same = std::move(runner);
      else runners.push_back(std::move(runner));
    }
  }
  // The user's own first: what two languages claim, an extension or an alias, is theirs.
  const auto is_own = [](const RunnerSpec& runner) { return runner.origin.find('/') != std::string::npos; };
  std::sort(runners.begin(), runners.end(), [&](const RunnerSpec& a, const RunnerSpec& b) {
    return is_own(a) != is_own(b) ? is_own(a) : a.name < b.name;
  });
  return runners;
}

}  // namespace sbx

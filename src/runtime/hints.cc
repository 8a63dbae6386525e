#include "runtime/hints.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "runtime/explain.h"

namespace sbx::runtime {
namespace {

constexpr size_t kMostSiblings = 4096;
constexpr size_t kLongestCommand = 240;

// What a complaint about something missing looks like, in any language.
constexpr std::string_view kMissingPhrases[] = {
    "No module named", "No such file or directory", "Cannot find module", "Cannot find package", "cannot find",
    "FileNotFoundError", "ENOENT", "not found", "Can't locate", "cannot load such file",
};
constexpr std::string_view kNetworkPhrases[] = {
    "Temporary failure in name resolution", "Name or service not known", "Could not resolve host",
    "Network is unreachable",               "EAI_AGAIN",                 "ENETUNREACH",
    "getaddrinfo ENOTFOUND",                "Failed to establish a new connection",
};
constexpr std::string_view kReadOnlyPhrases[] = {"Read-only file system", "EROFS"};
constexpr std::string_view kFileSizePhrases[] = {"File too large", "EFBIG"};
constexpr std::string_view kOpenFilesPhrases[] = {"Too many open files", "EMFILE"};

constexpr MessageText kSibling = {kMissingPhrases, "stands beside the program but was not shared; share the directory: ", "--workspace", "DIR", nullptr};
constexpr MessageText kNetwork = {kNetworkPhrases, "it wanted the network, and there is none by default; allow it: ", "--net", "host", nullptr};
constexpr MessageText kWorkspaceReadOnly = {
    kReadOnlyPhrases, "it wanted to write to the workspace, which is read-only; keep the changes apart: ", "--workspace", "DIR:overlay", nullptr};
constexpr MessageText kReadOnly = {
    kReadOnlyPhrases, "it wanted to write outside of its writable places, which are /box, /tmp and its home", nullptr, nullptr, nullptr};
// Limits that reach the payload as an errno and leave no other trace.
constexpr MessageText kFileSize = {
    kFileSizePhrases, "it wanted to write a larger file than the limit allows; raise it: ", "--file-size", "SIZE", "file_size"};
constexpr MessageText kOpenFiles = {
    kOpenFilesPhrases, "it wanted more open files than the limit allows; raise it: ", "--open-files", "N", "open_files"};
constexpr MessageText kMessages[] = {kSibling, kNetwork, kWorkspaceReadOnly, kReadOnly, kFileSize, kOpenFiles};

bool mentions(std::string_view text, std::span<const std::string_view> phrases) {
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](std::string_view phrase) { return text.find(phrase) != std::string_view::npos; });
}

bool is_name_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
         letter == '_' || letter == '-' || letter == '.' || letter == '/';
}

// ": sbx run --memory 2G main.py", or the flags alone where the command cannot be pasted.
std::string remedy(const RunRequest& request, const std::vector<std::string>& flags) {
  const std::string command = command_with(request, flags);
  if (!command.empty()) return command;
  std::string words = "add";
  for (const std::string& flag : flags) words += " " + shell_quote(flag);
  return words;
}

constexpr LimitText kLimits[] = {
    {"wall", "--time", "--compile-time", "took longer than the wall time limit"},
    {"time", "--time", "--compile-time", "took longer than the wall time limit"},
    {"cpu_time", "--cpu-time", nullptr, "used up the CPU time limit"},
    {"memory", "--memory", "--compile-memory", "ran out of memory: the limit is"},
    {"output", "--output", nullptr, "wrote more output than the limit"},
    {"disk", "--disk", nullptr, "filled its private disk: the limit is"},
    {"inodes", "--inodes", nullptr, "made too many files: the limit is"},
    {"pids", "--pids", nullptr, "reached the limit of processes and threads"},
    {"open_files", "--open-files", nullptr, "reached the limit of open files"},
    {"file_size", "--file-size", nullptr, "reached the limit of the size of a file"},
};

template <typename Unit>
Unit twice(Unit unit) {
  return Unit{unit.value * 2};
}

// The flag with a value twice as large; empty when the run had no such limit (then nothing can be raised).
std::vector<std::string> raised(const std::string& name, const char* flag, const Limits& limits) {
  const auto size = [&](std::optional<Bytes> value) {
    // As the flag reads it: a count of bytes without a word behind it.
    return value ? std::vector<std::string>{flag, split(format_size(twice(*value)), ' ').front()}
                 : std::vector<std::string>{};
  };
  const auto time = [&](std::optional<Millis> value) {
    return value ? std::vector<std::string>{flag, format_duration(twice(*value))} : std::vector<std::string>{};
  };
  const auto count = [&](std::optional<uint64_t> value) {
    return value ? std::vector<std::string>{flag, std::to_string(*value * 2)} : std::vector<std::string>{};
  };
  if (name == "wall" || name == "time") return time(limits.wall);
  if (name == "cpu_time") return time(limits.cpu_time);
  if (name == "memory") return size(limits.memory);
  if (name == "output") return size(limits.output);
  if (name == "file_size") return size(limits.file_size);
  if (name == "inodes") return count(limits.inodes);
  if (name == "pids") return count(limits.pids);
  if (name == "open_files") return count(limits.open_files);
  if (name == "disk") {
    std::vector<std::string> flags = {flag, format_size(twice(limits.disk))};
    // The private disk is memory: a limit at or above that of memory would be refused.
    if (limits.memory && limits.memory->value <= limits.disk.value * 2) {
      flags.push_back("--memory");
      flags.push_back(format_size(Bytes{limits.disk.value * 4}));
    }
    return flags;
  }
  return {};
}

void limit_hints(const RunRequest& request, const Outcome& outcome, const Limits& limits, bool compiling,
                 std::vector<std::string>& hints) {
  for (const LimitHit& hit : outcome.limits_hit) {
    const auto row = std::find_if(std::begin(kLimits), std::end(kLimits),
                                  [&](const LimitText& limit) { return hit.name == limit.name; });
    if (row == std::end(kLimits)) continue;
    const char* flag = compiling && row->compile_flag != nullptr ? row->compile_flag : row->flag;
    std::string line = std::string(compiling ? "the compiler " : "the program ") + row->said + " " + hit.value;
    if (!hit.origin.empty()) line += " (" + hit.origin + ")";
    if (const std::vector<std::string> flags = raised(hit.name, flag, limits); !flags.empty()) {
      line += "; raise it: " + remedy(request, flags);
    }
    hints.push_back(std::move(line));
  }
}

std::string signal_text(int signal) {
  const char* words = sigdescr_np(signal);
  std::string text = "signal " + std::to_string(signal);
  if (words != nullptr) text += std::string(" (") + words + ")";
  return text;
}

// Calls that the filter refused, the ones that were tried most first, one line each.
void denial_hints(const Outcome& outcome, std::vector<std::string>& hints) {
  std::vector<const Denial*> denials;
  for (const Denial& denial : outcome.denials) denials.push_back(&denial);
  std::stable_sort(denials.begin(), denials.end(),
                   [](const Denial* left, const Denial* right) { return left->count > right->count; });
  constexpr size_t kShown = 6;
  for (size_t index = 0; index < denials.size() && index < kShown; ++index) hints.push_back(denial_line(*denials[index]));
  if (denials.size() > kShown) {
    hints.push_back("denied: " + std::to_string(denials.size() - kShown) + " more different calls, which --result FILE lists");
  }
}

void text_hints(const HintContext& context, std::string_view tail, std::vector<std::string>& hints) {
  const RunRequest& request = *context.request;
  const std::string mark = "judging by the program's own message, ";
  const std::string sibling = missing_sibling(tail, context.siblings);
  if (!sibling.empty()) {
    const std::string where = request.exec ? "' is in this directory, which was not shared; share it: " : std::string("' ") + kSibling.said;
    hints.push_back("'" + printable(sibling) + where + remedy(request, {"--workspace", context.source_directory_shown}));
    return;
  }
  if (context.net == NetMode::none && mentions(tail, kNetwork.phrases)) {
    hints.push_back(mark + kNetwork.said + remedy(request, {kNetwork.flag, kNetwork.value}));
    return;
  }
  if (mentions(tail, kReadOnlyPhrases)) {
    if (request.workspace.has_value() && request.workspace->mode == WorkspaceMode::read_only) {
      const std::string& directory = request.workspace->directory;
      hints.push_back(mark + kWorkspaceReadOnly.said + remedy(request, {"--workspace", directory + ":overlay"}) + " (or :rw to change it)");
    } else {
      hints.push_back(mark + kReadOnly.said);
    }
    return;
  }
  for (const MessageText* message : {&kFileSize, &kOpenFiles}) {
    if (!mentions(tail, message->phrases)) continue;
    const std::vector<std::string> flags = raised(message->limit, message->flag, context.report->limits);
    if (flags.empty()) continue;
    hints.push_back(mark + message->said + remedy(request, flags));
    return;
  }
  if (context.runner == nullptr) return;
  for (const HintPattern& pattern : context.runner->hints) {
    if (pattern.pattern.empty() || tail.find(pattern.pattern) == std::string_view::npos) continue;
    std::string line = mark + pattern.hint;
    if (const KeyRow* row = pattern.raise.empty() ? nullptr : find_key("limits." + pattern.raise); row != nullptr) {
      const bool compiling = context.report->outcome.verdict == Verdict::compile_failed && context.report->compile;
      const Limits& limits = compiling ? context.report->compile->limits : context.report->limits;
      const char* flag = row->flag;
      if (compiling && pattern.raise == "memory") flag = "--compile-memory";
      if (compiling && pattern.raise == "time") flag = "--compile-time";
      if (const std::vector<std::string> flags = raised(pattern.raise, flag, limits); !flags.empty()) {
        line += "; raise it: " + remedy(request, flags);
      }
    }
    hints.push_back(std::move(line));
    return;
  }
}

}  // namespace

std::span<const LimitText> limit_texts() { return kLimits; }
std::span<const MessageText> message_texts() { return kMessages; }

std::string command_with(const RunRequest& request, std::span<const std::string> flags) {
  if (request.invocation.empty() || request.invocation_insert > request.invocation.size()) return "";
  if (!request.exec && request.program.kind == ProgramSource::Kind::standard_input) return "";
  // Options that may stand only once, or of which the last counts: what is replaced is taken out, so that the command
  // reads as somebody would have written it.
  const auto replaced = [&](const std::string& word) {
    for (size_t index = 0; index + 1 < flags.size(); index += 2) {
      const std::string& flag = flags[index];
      if (flag == "--allow-syscall" || flag == "--file" || flag == "--mount") continue;
      if (word == flag || (flag == "--workspace" && word == "-w")) return size_t{2};
      if (starts_with(word, flag + "=")) return size_t{1};
    }
    return size_t{0};
  };
  const size_t insert = request.invocation_insert;
  std::vector<std::string> words;
  for (size_t index = 0; index < insert;) {
    const size_t skipped = index < 2 ? 0 : replaced(request.invocation[index]);
    if (skipped == 0) words.push_back(request.invocation[index]);
    index += skipped == 0 ? 1 : skipped;
  }
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), request.invocation.begin() + static_cast<std::ptrdiff_t>(insert), request.invocation.end());
  std::string command;
  for (const std::string& word : words) {
    // A line break or an escape in a word would break the one line that a hint is.
    if (std::any_of(word.begin(), word.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; })) {
      return "";
    }
    if (!is_valid_utf8(word)) return "";
    if (!command.empty()) command += " ";
    command += shell_quote(word);
  }
  return command.size() <= kLongestCommand ? command : "";
}

std::string missing_sibling(std::string_view stderr_tail, std::span<const std::string> siblings) {
  if (siblings.empty()) return "";
  std::vector<std::string> lines = split(stderr_tail, '\n');
  for (std::string& line : lines) {
    if (!mentions(line, kMissingPhrases)) continue;
    // The complaint's own words ("file", "directory") are no names.
    for (const std::string_view phrase : kMissingPhrases) {
      if (const size_t at = line.find(phrase); at != std::string::npos) line.replace(at, phrase.size(), phrase.size(), ' ');
    }
    for (size_t at = 0; at < line.size();) {
      if (!is_name_letter(line[at])) {
        ++at;
        continue;
      }
      const bool is_quoted = at > 0 && (line[at - 1] == '\'' || line[at - 1] == '"');
      size_t end = at;
      while (end < line.size() && is_name_letter(line[end])) ++end;
      std::string word = line.substr(at, end - at);
      at = end;
      if (starts_with(word, "/box/")) word = word.substr(5);
      while (starts_with(word, "./")) word = word.substr(2);
      const std::string part = word.substr(0, word.find('/'));
      if (part.empty()) continue;
      for (const std::string& sibling : siblings) {
        if (part == sibling) return sibling;
        // 'helper' and 'helper.sub' of helper.py or of the directory helper. Only quoted: plain words of a message
        // ("line") would match too much.
        const std::string stem = sibling.substr(0, sibling.find('.'));
        if (is_quoted && !stem.empty() && part.substr(0, part.find('.')) == stem) return sibling;
      }
    }
  }
  return "";
}

std::vector<std::string> names_beside(const std::string& directory, const std::string& program_name) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
  if (stream == nullptr) return names;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || name == program_name) continue;
    names.push_back(name);
    if (names.size() >= kMostSiblings) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> make_hints(const HintContext& context) {
  const RunRequest& request = *context.request;
  const Report& report = *context.report;
  const Outcome& outcome = report.outcome;
  std::vector<std::string> hints;
  if (report.exit_status == 0 || outcome.verdict == Verdict::setup_failed) return hints;
  if (outcome.verdict == Verdict::compile_failed && report.compile.has_value()) {
    limit_hints(request, report.compile->outcome, report.compile->limits, true, hints);
    if (hints.empty()) text_hints(context, report.compile->outcome.stderr_tail, hints);
    denial_hints(report.compile->outcome, hints);
    return hints;
  }
  limit_hints(request, outcome, report.limits, false, hints);
  switch (outcome.verdict) {
    case Verdict::signaled:
      // A reader who has seen enough (`| head`) is no failure worth a line; shells are silent as well.
      if (hints.empty() && outcome.signal != SIGPIPE) hints.push_back("the program was ended by " + signal_text(outcome.signal));
      break;
    case Verdict::denied:
      hints.push_back("the program was ended because it made a system call that the filter forbids");
      break;
    case Verdict::killed:
      hints.push_back("sbx was told to stop by " + signal_text(outcome.signal) + ", and ended the program");
      break;
    case Verdict::exited:
    case Verdict::timed_out:
    case Verdict::cpu_time:
    case Verdict::out_of_memory:
    case Verdict::output_limit:
    case Verdict::compile_failed:
    case Verdict::setup_failed: break;
  }
  // Runtimes abort when their heap is full (Node.js, std::bad_alloc), and say so first.
  const bool aborted = outcome.verdict == Verdict::signaled && outcome.signal == SIGABRT && outcome.limits_hit.empty();
  if (aborted || (hints.empty() && outcome.verdict == Verdict::exited)) text_hints(context, outcome.stderr_tail, hints);
  // Many programs try a call and do well without it: told last, and only as what it is.
  denial_hints(outcome, hints);
  return hints;
}

}  // namespace sbx::runtime

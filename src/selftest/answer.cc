#include "selftest/answer.h"

#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace sbx::selftest {
namespace {

constexpr std::string_view kHead = "sbx-probe 1";
constexpr std::string_view kEnd = "end";
constexpr int kMostErrno = 4095;
constexpr int kMostSignal = 64;

struct Word {
  Answer::Kind kind;
  std::string_view text;
  int most;  // of the number; 0: there is none
};
constexpr Word kWords[] = {
    {Answer::Kind::worked, "worked", 0},   {Answer::Kind::refused, "refused", kMostErrno}, {Answer::Kind::hidden, "hidden", 0},
    {Answer::Kind::signaled, "signal", kMostSignal}, {Answer::Kind::untried, "untried", 0},
};

Error not_understood(const std::string& what) {
  return Error(ErrorKind::internal, "the report of the probe is not understood: " + what);
}

}  // namespace

Answer answer_of(long returned) {
  if (returned >= 0) return {Answer::Kind::worked, 0};
  if (returned == kHidden) return {Answer::Kind::hidden, 0};
  if (returned < -kMostErrno) return {Answer::Kind::untried, 0};
  return {Answer::Kind::refused, static_cast<int>(-returned)};
}

std::string errno_name(int errnum) {
  const char* name = ::strerrorname_np(errnum);
  return name != nullptr ? name : "errno " + std::to_string(errnum);
}

std::string answer_text(const Answer& answer) {
  switch (answer.kind) {
    case Answer::Kind::silent: return "no answer";
    case Answer::Kind::worked: return "ok";
    case Answer::Kind::refused: return errno_name(answer.number);
    case Answer::Kind::hidden: return "not there";
    case Answer::Kind::signaled: return "killed by signal " + std::to_string(answer.number);
    case Answer::Kind::untried: return "not tried";
  }
  return "";
}

std::string report_head() { return std::string(kHead) + "\n"; }
std::string report_end() { return std::string(kEnd) + "\n"; }

std::string report_line(size_t index, const Answer& answer) {
  for (const Word& word : kWords) {
    if (word.kind != answer.kind) continue;
    return std::to_string(index) + " " + std::string(word.text) + (word.most > 0 ? " " + std::to_string(answer.number) : "") + "\n";
  }
  return "";
}

Result<std::vector<Answer>> read_report(std::string_view text, size_t count) {
  std::vector<Answer> answers(count);
  if (text.size() > kReportLimit) return not_understood("it is too long");
  if (text.empty()) return answers;
  if (text.back() != '\n') return not_understood("its last line has no end");
  std::vector<std::string> lines = split(text.substr(0, text.size() - 1), '\n');
  if (lines[0] != kHead) return not_understood("it begins " + quoted(lines[0]));
  size_t next = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i] == kEnd && next == count && i + 1 == lines.size()) return answers;
    // Line `next` is the only one that may stand here, so each of its forms is written out and compared.
    const std::vector<std::string> words = split(lines[i], ' ');
    if (next >= count || words.size() < 2 || words.size() > 3) return not_understood(quoted(lines[i]));
    Answer answer;
    for (const Word& word : kWords) {
      if (words[1] != word.text) continue;
      answer.kind = word.kind;
      if (word.most == 0) continue;
      const Result<uint64_t> number = parse_integer(words.size() == 3 ? words[2] : "");
      if (!number.ok() || number.value() == 0 || number.value() > static_cast<uint64_t>(word.most)) return not_understood(quoted(lines[i]));
      answer.number = static_cast<int>(number.value());
    }
    if (report_line(next, answer) != lines[i] + "\n") return not_understood(quoted(lines[i]));
    answers[next++] = answer;
  }
  return answers;
}

}  // namespace sbx::selftest

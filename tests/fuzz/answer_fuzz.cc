// The report of a probe of `sbx selftest`, which is on the hostile side: it is a report to the last byte or none.
#include <string>

#include "fuzz.h"
#include "selftest/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sbx;
  if (size == 0) return 0;
  const size_t count = data[0] % 16;
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  const Result<std::vector<selftest::Answer>> answers = selftest::read_report(text, count);
  if (!answers.ok()) {
    HOLDS(answers.error().kind() == ErrorKind::internal);
    return 0;
  }
  HOLDS(answers.value().size() == count);
  if (text.empty()) return 0;
  std::string written = selftest::report_head();
  size_t told = 0;
  for (; told < count && answers.value()[told].kind != selftest::Answer::Kind::silent; ++told) written += selftest::report_line(told, answers.value()[told]);
  HOLDS(text == written || (told == count && text == written + selftest::report_end()));
  for (const selftest::Answer& answer : answers.value()) HOLDS(!selftest::answer_text(answer).empty());
  return 0;
}

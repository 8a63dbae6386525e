// What one try inside came to, and the lines in which the program inside tells it.
//
// The lines come out of a sandbox that may be broken, so they count as hostile: bounded, of one exact form, in order,
// nothing before, between or after them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sbx::selftest {

struct Answer {
  enum class Kind {
    silent,    // it was begun, and nothing more was heard: the process ended in it
    worked,    // the attack worked
    refused,   // number: an errno
    hidden,    // what it aims at is not there to be attacked
    signaled,  // number: the signal that ended the try alone
    untried,   // it could not be tried
  };
  Kind kind = Kind::silent;
  int number = 0;
  bool operator==(const Answer&) const = default;
};

// What a try's function returns: an answer of the kernel as it is (0 and more worked, -errno), or one of these.
inline constexpr long kHidden = -100000;
inline constexpr long kUntried = -100001;
Answer answer_of(long returned);

// "ok", "EPERM", "killed by signal 31", "not there", "not tried", "no answer".
std::string answer_text(const Answer& answer);
// "EPERM"; "errno 999" for what has no name.
std::string errno_name(int errnum);

inline constexpr size_t kReportLimit = 8192;  // bytes of a whole report

std::string report_head();
std::string report_line(size_t index, const Answer& answer);
std::string report_end();

// The answers of a probe with `count` tries; those after the first that is missing are silent. Errors: internal, when
// the text is anything else than a report, or the beginning of one.
Result<std::vector<Answer>> read_report(std::string_view text, size_t count);

}  // namespace sbx::selftest

#include "runtime/outcome.h"

namespace sbx::runtime {
namespace {

int status_of(const Outcome& outcome) {
  switch (outcome.verdict) {
    case Verdict::exited:
    case Verdict::compile_failed: return outcome.signal != 0 ? 128 + outcome.signal : outcome.exit_code;
    case Verdict::signaled:
    case Verdict::killed: return 128 + outcome.signal;
    case Verdict::timed_out:
    case Verdict::cpu_time: return 124;
    case Verdict::out_of_memory:
    case Verdict::output_limit: return 137;
    case Verdict::denied: return 159;
    case Verdict::setup_failed: break;
  }
  const ErrorKind kind = outcome.setup_error ? outcome.setup_error->kind() : ErrorKind::internal;
  if (kind == ErrorKind::not_found) return 127;
  if (kind == ErrorKind::not_executable) return 126;
  // What was asked for cannot be, though it was seen only while setting up: an unknown call in a policy, a path gone.
  return kind == ErrorKind::usage || kind == ErrorKind::policy ? 2 : 125;
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::exited: return "exited";
    case Verdict::signaled: return "signaled";
    case Verdict::timed_out: return "timed_out";
    case Verdict::cpu_time: return "cpu_time";
    case Verdict::out_of_memory: return "out_of_memory";
    case Verdict::output_limit: return "output_limit";
    case Verdict::denied: return "denied";
    case Verdict::killed: return "killed";
    case Verdict::compile_failed: return "compile_failed";
    case Verdict::setup_failed: return "setup_failed";
  }
  return "setup_failed";
}

int exit_status(const Outcome& outcome) {
  const int status = status_of(outcome);
  // As cat(1) on a full disk: a program did not do well whose output nobody got.
  const bool lost = outcome.out.forward_error.has_value() || outcome.err.forward_error.has_value();
  return status == 0 && lost ? 1 : status;
}

}  // namespace sbx::runtime

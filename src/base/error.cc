#include "base/error.h"

#include <cerrno>
#include <cstring>

namespace sbx {

const char* error_kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return "usage";
    case ErrorKind::policy: return "policy";
    case ErrorKind::not_found: return "not_found";
    case ErrorKind::not_executable: return "not_executable";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::permission: return "permission";
    case ErrorKind::resource: return "resource";
    case ErrorKind::system: return "system";
    case ErrorKind::internal: return "internal";
  }
  return "internal";
}

std::string errno_text(int errnum) {
  const char* description = strerrordesc_np(errnum);
  const char* name = strerrorname_np(errnum);
  std::string text = description != nullptr ? description : "unknown error";
  text += " (";
  text += name != nullptr ? name : std::to_string(errnum).c_str();
  text += ")";
  return text;
}

ErrorKind kind_of_bad_path(int errnum) {
  return errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM ? ErrorKind::resource : ErrorKind::usage;
}

Error Error::from_errno(int errnum, const std::string& what) {
  ErrorKind kind = ErrorKind::system;
  switch (errnum) {
    case EACCES:
    case EPERM: kind = ErrorKind::permission; break;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
    case EAGAIN: kind = ErrorKind::resource; break;
    case ENOSYS:
    case EOPNOTSUPP: kind = ErrorKind::unsupported; break;
    default: break;
  }
  Error error(kind, "cannot " + what + ": " + errno_text(errnum));
  error.errnum_ = errnum;
  return error;
}

Error Error::with_context(std::string frame) && {
  context_.push_back(std::move(frame));
  return std::move(*this);
}

Error Error::with_hint(std::string hint) && {
  hint_ = std::move(hint);
  return std::move(*this);
}

Error Error::with_origin(std::string origin) && {
  origin_ = std::move(origin);
  return std::move(*this);
}

Error Error::with_stage(std::string stage) && {
  stage_ = std::move(stage);
  return std::move(*this);
}

std::string Error::text() const {
  std::string text;
  if (!origin_.empty()) text += origin_ + ": ";
  for (auto frame = context_.rbegin(); frame != context_.rend(); ++frame) text += *frame + ": ";
  return text + message_;
}

}  // namespace sbx

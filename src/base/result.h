// Result<T>: a value or an Error. The one idiom for everything in the supervisor that can fail.
#pragma once

#include <cstdlib>
#include <optional>
#include <utility>
#include <variant>

#include "base/error.h"

namespace sbx {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES ok(): anything else is a bug of ours and aborts.
  T& value() & { return held(std::get_if<0>(&state_)); }
  const T& value() const& { return held(std::get_if<0>(&state_)); }
  T take() { return std::move(value()); }

  // REQUIRES !ok().
  const Error& error() const { return held(std::get_if<1>(&state_)); }
  Error take_error() { return std::move(held(std::get_if<1>(&state_))); }

 private:
  template <typename Held>
  static Held& held(Held* pointer) {
    if (pointer == nullptr) std::abort();
    return *pointer;
  }

  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  void take() {}  // so that SBX_TRY serves here too
  const Error& error() const {
    if (!error_.has_value()) std::abort();
    return *error_;
  }
  Error take_error() {
    if (!error_.has_value()) std::abort();
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace sbx

// SBX_TRY(expr): the value of a Result expression, or returns its Error from the enclosing function.
#define SBX_TRY(expression)                                 \
  __extension__({                                           \
    auto sbx_try_result = (expression);                     \
    if (!sbx_try_result.ok()) return sbx_try_result.take_error(); \
    sbx_try_result.take();                                  \
  })

// The same, adding a context frame; the frame is only built on failure.
#define SBX_TRY_CTX(expression, frame)                      \
  __extension__({                                           \
    auto sbx_try_result = (expression);                     \
    if (!sbx_try_result.ok()) return sbx_try_result.take_error().with_context(frame); \
    sbx_try_result.take();                                  \
  })

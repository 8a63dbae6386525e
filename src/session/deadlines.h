// When a session ends by itself: its time to live, and its time without use. The clock is the caller's, so that tests can
// have one of their own.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace sbx::session {

class Deadlines {
 public:
  enum class Over { no, time_to_live, idle };

  Deadlines(std::optional<Millis> ttl, std::optional<Millis> idle, int64_t now_ms) : ttl_(ttl), idle_(idle), started_(now_ms), used_(now_ms) {}

  // Something was asked for, or came to its end.
  void use(int64_t now_ms) { used_ = now_ms; }
  // While a cell runs nothing is idle.
  void set_busy(bool busy, int64_t now_ms) {
    busy_ = busy;
    used_ = now_ms;
  }
  Over over(int64_t now_ms) const {
    if (ttl_ && now_ms - started_ >= ttl_->value) return Over::time_to_live;
    if (idle_ && !busy_ && now_ms - used_ >= idle_->value) return Over::idle;
    return Over::no;
  }
  // From now to the next time at which over() may say something new; nullopt: never.
  std::optional<int64_t> next_ms(int64_t now_ms) const {
    std::optional<int64_t> next;
    if (const auto left = ttl_left(now_ms)) next = left;
    if (const auto left = idle_left(now_ms); left && (!next || *left < *next)) next = left;
    return next;
  }
  // Never below 0; nullopt: no such limit, or (idle) in use.
  std::optional<int64_t> ttl_left(int64_t now_ms) const { return left(ttl_, started_, now_ms); }
  std::optional<int64_t> idle_left(int64_t now_ms) const { return busy_ ? std::nullopt : left(idle_, used_, now_ms); }

 private:
  static std::optional<int64_t> left(const std::optional<Millis>& limit, int64_t since, int64_t now_ms) {
    if (!limit) return std::nullopt;
    const int64_t rest = since + limit->value - now_ms;
    return rest < 0 ? 0 : rest;
  }
  std::optional<Millis> ttl_, idle_;
  int64_t started_, used_;
  bool busy_ = false;
};

}  // namespace sbx::session

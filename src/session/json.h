// JSON values for what sessions say to each other and to their drivers. Readers are bounded: what comes from inside a
// sandbox is hostile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sbx::session {

class Json {
 public:
  enum class Kind { null, boolean, integer, real, text, array, object };
  using Member = std::pair<std::string, Json>;

  Json() = default;
  Json(bool value) : kind_(Kind::boolean), integer_(value ? 1 : 0) {}
  Json(int value) : kind_(Kind::integer), integer_(value) {}
  Json(int64_t value) : kind_(Kind::integer), integer_(value) {}
  Json(uint64_t value) : kind_(Kind::integer), integer_(static_cast<int64_t>(value)) {}
  Json(double value) : kind_(Kind::real), real_(value) {}
  Json(std::string value) : kind_(Kind::text), text_(std::move(value)) {}
  Json(const char* value) : kind_(Kind::text), text_(value) {}
  static Json array() { return Json(Kind::array); }
  static Json object() { return Json(Kind::object); }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }

  // What is missing or of another kind is the fallback: a reader asks for what it can use.
  bool boolean(bool fallback = false) const { return kind_ == Kind::boolean ? integer_ != 0 : fallback; }
  int64_t integer(int64_t fallback = 0) const { return kind_ == Kind::integer ? integer_ : fallback; }
  double real(double fallback = 0) const { return kind_ == Kind::real ? real_ : kind_ == Kind::integer ? static_cast<double>(integer_) : fallback; }
  const std::string& text() const;  // "" otherwise
  const std::vector<Json>& items() const { return items_; }
  const std::vector<Member>& members() const { return members_; }
  const Json& at(std::string_view key) const;  // null when it is not there
  bool has(std::string_view key) const { return &at(key) != &nothing(); }

  Json& set(std::string key, Json value);  // replaces; *this
  Json& add(Json value);

  bool operator==(const Json&) const = default;

  // ASCII only: everything else is escaped, so the text can be printed anywhere. Stray bytes become U+FFFD.
  std::string dump(int indent = -1) const;

 private:
  explicit Json(Kind kind) : kind_(kind) {}
  static const Json& nothing();
  Kind kind_ = Kind::null;
  int64_t integer_ = 0;
  double real_ = 0;
  std::string text_;
  std::vector<Json> items_;
  std::vector<Member> members_;  // in their order
};

// One value and nothing behind it: valid UTF-8, no deeper than `max_depth`, at most `max_values` values, integers of 64
// bits, finite numbers, no key twice in an object. Errors: usage, with the place.
Result<Json> parse_json(std::string_view text, size_t max_depth = 64, size_t max_values = 200000);

}  // namespace sbx::session

#include "session/json.h"

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

namespace sbx::session {
namespace {

using Library = nlohmann::ordered_json;

constexpr size_t kMaxKeys = 4096;  // they are compared one by one

Library to_library(const Json& json) {
  switch (json.kind()) {
    case Json::Kind::null: return nullptr;
    case Json::Kind::boolean: return json.boolean();
    case Json::Kind::integer: return json.integer();
    case Json::Kind::real: return json.real();
    case Json::Kind::text: return json.text();
    case Json::Kind::array: {
      Library array = Library::array();
      for (const Json& item : json.items()) array.push_back(to_library(item));
      return array;
    }
    case Json::Kind::object: {
      Library object = Library::object();
      for (const auto& [key, value] : json.members()) object[key] = to_library(value);
      return object;
    }
  }
  return nullptr;
}

// Builds the value and stops at the first bound that is passed.
class Builder final : public nlohmann::json_sax<Library> {
 public:
  Builder(size_t max_depth, size_t max_values) : max_depth_(max_depth), left_(max_values) {}

  bool null() override { return put(Json()); }
  bool boolean(bool value) override { return put(Json(value)); }
  bool number_integer(number_integer_t value) override { return put(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return put(Json(static_cast<double>(value)));
    return put(Json(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return std::isfinite(value) ? put(Json(value)) : fail("a number is not finite");
  }
  bool string(string_t& value) override { return put(Json(std::move(value))); }
  bool binary(binary_t&) override { return fail("binary"); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool key(string_t& value) override {
    if (stack_.back().members().size() >= kMaxKeys) return fail("too many keys in one object");
    if (stack_.back().has(value)) return fail("a key stands twice");
    keys_.back() = std::move(value);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail("no JSON at byte " + std::to_string(position));
  }

  Json result;
  std::string error;

 private:
  bool fail(std::string why) {
    if (error.empty()) error = std::move(why);
    return false;
  }
  bool count() {
    if (left_ == 0) return fail("too many values");
    --left_;
    return true;
  }
  bool put(Json value) { return count() && attach(std::move(value)); }
  bool attach(Json value) {
    if (stack_.empty()) {
      result = std::move(value);
    } else if (stack_.back().is(Json::Kind::array)) {
      stack_.back().add(std::move(value));
    } else {
      stack_.back().set(std::move(keys_.back()), std::move(value));
    }
    return true;
  }
  bool open(Json value) {
    if (stack_.size() >= max_depth_) return fail("nested too deeply");
    if (!count()) return false;
    stack_.push_back(std::move(value));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    Json value = std::move(stack_.back());
    stack_.pop_back();
    keys_.pop_back();
    return attach(std::move(value));
  }

  size_t max_depth_, left_;
  std::vector<Json> stack_;
  std::vector<std::string> keys_;
};

}  // namespace

const Json& Json::nothing() {
  static const Json null;
  return null;
}

const std::string& Json::text() const {
  static const std::string empty;
  return kind_ == Kind::text ? text_ : empty;
}

const Json& Json::at(std::string_view key) const {
  for (const Member& member : members_) {
    if (member.first == key) return member.second;
  }
  return nothing();
}

Json& Json::set(std::string key, Json value) {
  kind_ = Kind::object;
  for (Member& member : members_) {
    if (member.first != key) continue;
    member.second = std::move(value);
    return *this;
  }
  members_.emplace_back(std::move(key), std::move(value));
  return *this;
}

Json& Json::add(Json value) {
  kind_ = Kind::array;
  items_.push_back(std::move(value));
  return *this;
}

std::string Json::dump(int indent) const {
  return to_library(*this).dump(indent, ' ', true, Library::error_handler_t::replace);
}

Result<Json> parse_json(std::string_view text, size_t max_depth, size_t max_values) {
  Builder builder(max_depth, max_values);
  if (Library::sax_parse(text.begin(), text.end(), &builder, nlohmann::detail::input_format_t::json, true)) {
    return std::move(builder.result);
  }
  return Error(ErrorKind::usage, builder.error.empty() ? "no JSON" : builder.error);
}

}  // namespace sbx::session

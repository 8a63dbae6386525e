// nsjail's configuration as JSON, protobuf's mapping of it: names as in the text format or in camelCase, 64-bit numbers
// also as strings, bytes in base64, null for a default.
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "policy/nsjail/read.h"

namespace sbx::nsjail {
namespace {

using Json = nlohmann::json;

// How far the library's scanner has come: what it reports lies just before.
struct Cursor {
  uint32_t line = 1, column = 1;
};

// An input iterator over the text that counts lines while it is read.
class Counting {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  Counting(const char* at, Cursor* cursor) : at_(at), cursor_(cursor) {}
  reference operator*() const { return *at_; }
  Counting& operator++() {
    if (*at_ == '\n') {
      ++cursor_->line;
      cursor_->column = 1;
    } else {
      ++cursor_->column;
    }
    ++at_;
    return *this;
  }
  bool operator==(const Counting& other) const { return at_ == other.at_; }
  bool operator!=(const Counting& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  Cursor* cursor_;
};

std::string camel_case(std::string_view name) {
  std::string camel;
  bool upper = false;
  for (const char c : name) {
    if (c == '_') {
      upper = true;
    } else {
      camel += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      upper = false;
    }
  }
  return camel;
}

bool decode_base64(std::string_view text, std::string& bytes) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  uint32_t bits = 0;
  unsigned count = 0;
  for (char c : text) {
    static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (c == '-') c = '+';
    if (c == '_') c = '/';
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return false;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return count < 6;
}

class Reader : public nlohmann::json_sax<Json> {
 public:
  Reader(const std::string& name, const Cursor& cursor, Config& config) : name_(name), cursor_(cursor), config_(config) {}

  std::optional<Error> problem;

  bool null() override {
    if (levels_.empty() || levels_.back().in_list) return refuse("null stands for a default, not for an element of a list");
    // As if the field had not been there.
    levels_.back().schema->origins(levels_.back().message).of.erase(levels_.back().field->name);
    return true;
  }
  bool boolean(bool value) override {
    return scalar([&](const Field& field, void* slot) {
      if (field.type != FieldType::boolean) return wrong(field);
      *static_cast<bool*>(slot) = value;
      return true;
    });
  }
  bool number_integer(number_integer_t value) override { return number({value < 0, value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value)}); }
  bool number_unsigned(number_unsigned_t value) override { return number({false, value}); }
  bool number_float(number_float_t, const string_t& text) override { return refuse("numbers with a fraction or exponent do not occur here: " + sbx::quoted(text)); }
  bool binary(binary_t&) override { return refuse("no JSON"); }

  bool string(string_t& value) override {
    return scalar([&](const Field& field, void* slot) {
      switch (field.type) {
        case FieldType::text:
          if (value.find('\0') != std::string::npos) return refuse(std::string("'") + field.name + "' holds a byte 0");
          *static_cast<std::string*>(slot) = value;
          return true;
        case FieldType::bytes: {
          std::string bytes;
          if (!decode_base64(value, bytes)) return refuse(std::string("'") + field.name + "' takes bytes in base64 in JSON");
          *static_cast<std::string*>(slot) = std::move(bytes);
          return true;
        }
        case FieldType::choice: return keep(store_choice(field, value, slot));
        case FieldType::u32:
        case FieldType::u64:
        case FieldType::i32:
        case FieldType::i64: {
          const bool negative = starts_with(value, "-");
          const Result<uint64_t> magnitude = parse_integer(std::string_view(value).substr(negative ? 1 : 0));
          if (!magnitude.ok()) return wrong(field);
          return keep(store_number(field, {negative, magnitude.value()}, slot));
        }
        default: return wrong(field);
      }
    });
  }

  bool start_object(size_t) override {
    if (levels_.empty()) {
      levels_.push_back({&config_schema(), &config_, nullptr, false, "", here()});
      return true;
    }
    if (levels_.size() > kMaxConfigDepth) return refuse("messages lie too deep in each other");
    Level& level = levels_.back();
    const Field& field = *level.field;
    if (field.type != FieldType::message) return wrong(field);
    if (field.label == Label::repeated && !level.in_list) return refuse(std::string("'") + field.name + "' takes a list of messages in [ ]");
    std::vector<std::string>& origins = level.schema->origins(level.message).of[field.name];
    const std::string path = level.path + field.name + (level.in_list ? "[" + std::to_string(origins.size()) + "]." : ".");
    origins.push_back(here());
    levels_.push_back({field.message, field.slot(level.message), nullptr, false, path, here()});
    return true;
  }
  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.field = nullptr;
    for (const Field& field : level.schema->fields)
      if (name == field.name || name == camel_case(field.name)) level.field = &field;
    if (level.field == nullptr) return keep(unknown_field(*level.schema, name, here()));
    if (level.schema->origins(level.message).has(level.field->name)) return refuse("'" + level.path + level.field->name + "' is given twice");
    level.schema->origins(level.message).of[level.field->name];
    return true;
  }
  bool end_object() override {
    const Level level = levels_.back();
    levels_.pop_back();
    // An empty list is no occurrence.
    std::erase_if(level.schema->origins(level.message).of, [](const auto& entry) { return entry.second.empty(); });
    return keep(check_required(*level.schema, level.message, level.path, level.begin));
  }
  bool start_array(size_t) override {
    if (levels_.empty() || levels_.back().in_list) return refuse("a list does not belong here");
    if (levels_.back().field->label != Label::repeated) return refuse(std::string("'") + levels_.back().field->name + "' is a single value, no list");
    levels_.back().in_list = true;
    return true;
  }
  bool end_array() override {
    levels_.back().in_list = false;
    return true;
  }
  bool parse_error(size_t, const std::string& token, const nlohmann::detail::exception& error) override {
    std::string what = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error …": the place is ours to say.
    const size_t colon = what.find(": ");
    return refuse("no JSON: " + printable(colon == std::string::npos ? token : what.substr(colon + 2)));
  }

 private:
  struct Level {
    const Schema* schema;
    void* message;
    const Field* field;
    bool in_list;
    std::string path;
    std::string begin;
  };

  std::string here() const { return name_ + ":" + std::to_string(cursor_.line) + ":" + std::to_string(cursor_.column); }
  bool refuse(std::string what) { return keep(Error(ErrorKind::policy, std::move(what))); }
  bool keep(Status status) {
    if (status.ok()) return true;
    Error error = status.take_error();
    problem = error.origin().empty() ? std::move(error).with_origin(here()) : error;
    return false;
  }
  bool wrong(const Field& field) { return refuse(std::string("'") + field.name + "' takes " + expected(field)); }

  template <typename Store>
  bool scalar(Store store) {
    if (levels_.empty()) return refuse("a configuration is an object in { }");
    Level& level = levels_.back();
    const Field& field = *level.field;
    if (field.type == FieldType::message) return wrong(field);
    if (field.label == Label::repeated && !level.in_list) return refuse(std::string("'") + field.name + "' takes a list in [ ]");
    level.schema->origins(level.message).of[field.name].push_back(here());
    return store(field, field.slot(level.message));
  }
  bool number(Number value) {
    return scalar([&](const Field& field, void* slot) {
      if (field.type == FieldType::text || field.type == FieldType::bytes || field.type == FieldType::boolean) return wrong(field);
      return keep(store_number(field, value, slot));
    });
  }

  const std::string& name_;
  const Cursor& cursor_;
  Config& config_;
  std::vector<Level> levels_;
};

}  // namespace

Result<Config> parse_json(std::string_view text, const std::string& name) {
  Config config;
  Cursor cursor;
  Reader reader(name, cursor, config);
  const bool whole = Json::sax_parse(Counting(text.data(), &cursor), Counting(text.data() + text.size(), &cursor), &reader);
  if (reader.problem) return std::move(*reader.problem);
  if (!whole) return Error(ErrorKind::policy, "no JSON").with_origin(name);
  return config;
}

}  // namespace sbx::nsjail

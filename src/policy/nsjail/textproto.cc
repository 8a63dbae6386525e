// Protobuf's text format, as far as nsjail's configuration has it.
//
//   message = { field }            field = NAME ( ":" value | [":"] body ) [ "," | ";" ]
//   value   = scalar | "[" [ scalar { "," scalar } ] "]"
//   body    = "{" message "}" | "<" message ">" | "[" [ body { "," body } ] "]"
//   scalar  = string { string } | ["-"] integer | NAME
#include <cctype>

#include "base/text.h"
#include "policy/nsjail/read.h"

namespace sbx::nsjail {
namespace {

enum class Kind { end, name, number, string, mark };

struct Token {
  Kind kind = Kind::end;
  std::string_view text;  // as written
  uint32_t line = 1, column = 1;
};

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return is_name_start(c) || is_digit(c); }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_utf8(std::string& bytes, uint32_t code) {
  if (code < 0x80) {
    bytes += static_cast<char>(code);
  } else if (code < 0x800) {
    bytes += {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
  } else if (code < 0x10000) {
    bytes += {static_cast<char>(0xe0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3f)), static_cast<char>(0x80 | (code & 0x3f))};
  } else {
    bytes += {static_cast<char>(0xf0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 0x3f)), static_cast<char>(0x80 | (code >> 6 & 0x3f)),
              static_cast<char>(0x80 | (code & 0x3f))};
  }
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Result<Config> all() {
    SBX_TRY(next());
    Config config;
    SBX_TRY(message(config_schema(), &config, "", "", 0));
    return config;
  }

 private:
  // ---- tokens
  std::string place(uint32_t line, uint32_t column) const { return name_ + ":" + std::to_string(line) + ":" + std::to_string(column); }
  std::string here() const { return place(token_.line, token_.column); }
  Error error(std::string what, const std::string& origin) const { return Error(ErrorKind::policy, std::move(what)).with_origin(origin); }
  Error error(std::string what) const { return error(std::move(what), here()); }

  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void step() {
    if (text_[at_] == '\n') {
      ++line_;
      column_ = 1;
    } else {
      ++column_;
    }
    ++at_;
  }

  Status next() {
    for (;;) {
      if (at_ < text_.size() && (peek() == ' ' || (peek() >= '\t' && peek() <= '\r'))) {
        step();
      } else if (peek() == '#') {
        while (at_ < text_.size() && peek() != '\n') step();
      } else {
        break;
      }
    }
    token_ = {Kind::end, {}, line_, column_};
    if (at_ >= text_.size()) return {};
    const size_t start = at_;
    const char c = peek();
    if (is_name_start(c)) {
      while (at_ < text_.size() && is_name(peek())) step();
      token_.kind = Kind::name;
    } else if (is_digit(c)) {
      token_.kind = Kind::number;
      while (at_ < text_.size() && (is_name(peek()) || peek() == '.')) step();
      SBX_TRY(number_ends(text_.substr(start, at_ - start)));
    } else if (c == '"' || c == '\'') {
      token_.kind = Kind::string;
      step();
      while (peek() != c) {
        if (at_ >= text_.size() || peek() == '\n') return error("the string is not closed on its line");
        if (peek() == '\\' && at_ + 1 < text_.size() && peek(1) != '\n') step();
        step();
      }
      step();
    } else if (std::string_view(":{}<>[],;-").find(c) != std::string_view::npos) {
      token_.kind = Kind::mark;
      step();
    } else {
      if (c == '/') return error("unexpected '/': comments begin with #");
      if (text_.substr(at_).starts_with("\xef\xbb\xbf")) return error("the text begins with a byte order mark: save it without one");
      return error("unexpected '" + printable(std::string_view(&text_[at_], 1)) + "'");
    }
    token_.text = text_.substr(start, at_ - start);
    return {};
  }

  // Digits and letters that stand together: a number, or nothing.
  Status number_ends(std::string_view digits) const {
    const bool hex = digits.size() > 1 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    for (size_t i = hex ? 2 : 0; i < digits.size(); ++i) {
      if (digits[i] == '.') return error("numbers with a fraction do not occur here");
      if (hex ? hex_value(digits[i]) < 0 : !is_digit(digits[i])) return error("put a space between the number and what follows: " + quoted(digits));
      if (!hex && digits[0] == '0' && digits[i] > '7') return error("a number that begins with 0 is octal: " + quoted(digits));
    }
    if (hex && digits.size() == 2) return error("0x without digits");
    return {};
  }

  bool is_mark(char mark) const { return token_.kind == Kind::mark && token_.text[0] == mark; }
  std::string shown() const { return token_.kind == Kind::end ? "the end of the text" : quoted(token_.text); }

  // ---- grammar
  // Up to the closing mark ("" : to the end of the text), which is taken. `path` is "mount[0]." for what is missing.
  Status message(const Schema& schema, void* into, std::string_view close, const std::string& path, unsigned depth) {
    if (depth > kMaxConfigDepth) return error("messages lie too deep in each other");
    const std::string begin = here();
    std::map<std::string, size_t, std::less<>> seen;
    for (;;) {
      if (token_.kind == Kind::end) {
        if (close.empty()) break;
        return error("the message that begins at " + begin + " is not closed: " + std::string(close) + " is missing");
      }
      if (!close.empty() && token_.kind == Kind::mark && token_.text == close) {
        SBX_TRY(next());
        break;
      }
      if (is_mark('[')) return error("extensions do not occur here");
      if (token_.kind != Kind::name) return error("a field's name is expected, not " + shown());
      const Token name = token_;
      const std::string origin = place(name.line, name.column);
      const Field* field = schema.find(name.text);
      if (field == nullptr) return unknown_field(schema, name.text, place(name.line, name.column));
      if (field->label != Label::repeated && seen.find(name.text) != seen.end()) {
        return error("'" + path + field->name + "' is given twice", origin).with_hint("it is a single value; the first stands in line " + std::to_string(seen[field->name]));
      }
      seen.emplace(field->name, name.line);
      SBX_TRY(next());
      const bool colon = is_mark(':');
      if (colon) SBX_TRY(next());
      if (!colon && field->type != FieldType::message) return error(std::string("':' is missing after '") + field->name + "'");
      SBX_TRY(values(*field, schema, into, path, depth));
      if (is_mark(',') || is_mark(';')) SBX_TRY(next());
    }
    return check_required(schema, into, path, begin);
  }

  Status values(const Field& field, const Schema& schema, void* into, const std::string& path, unsigned depth) {
    if (!is_mark('[')) return value(field, schema, into, path, depth);
    if (field.label != Label::repeated) return error(std::string("'") + field.name + "' is a single value, no list");
    SBX_TRY(next());
    if (is_mark(']')) return next();
    for (;;) {
      SBX_TRY(value(field, schema, into, path, depth));
      if (is_mark(']')) return next();
      if (!is_mark(',')) return error("',' or ']' is expected in the list, not " + shown());
      SBX_TRY(next());
    }
  }

  Status value(const Field& field, const Schema& schema, void* into, const std::string& path, unsigned depth) {
    std::vector<std::string>& origins = schema.origins(into).of[field.name];
    const std::string origin = here();
    if (field.type == FieldType::message) {
      const char open = token_.kind == Kind::mark ? token_.text[0] : '\0';
      if (open != '{' && open != '<') return error(std::string("'") + field.name + "' takes a message in { }, not " + shown());
      SBX_TRY(next());
      const std::string index = field.label == Label::repeated ? "[" + std::to_string(origins.size()) + "]" : "";
      void* slot = field.slot(into);
      origins.push_back(origin);
      return message(*field.message, slot, open == '{' ? "}" : ">", path + field.name + index + ".", depth + 1);
    }
    void* slot = field.slot(into);
    origins.push_back(origin);
    Status stored = scalar(field, slot);
    if (stored.ok()) return stored;
    Error problem = stored.take_error();
    return problem.origin().empty() ? std::move(problem).with_origin(origin) : problem;
  }

  Status scalar(const Field& field, void* slot) {
    const auto wrong = [&] { return error(std::string("'") + field.name + "' takes " + expected(field) + ", not " + shown()); };
    if (field.type == FieldType::text || field.type == FieldType::bytes) {
      if (token_.kind != Kind::string) return wrong();
      auto& bytes = *static_cast<std::string*>(slot);
      bytes.clear();
      while (token_.kind == Kind::string) {
        SBX_TRY(unquote(bytes));
        SBX_TRY(next());
      }
      if (field.type == FieldType::text && bytes.find('\0') != std::string::npos) return error(std::string("'") + field.name + "' holds a byte 0");
      return {};
    }
    if (token_.kind == Kind::name) {
      const std::string word(token_.text);
      if (field.type == FieldType::boolean) {
        const bool yes = word == "true" || word == "True" || word == "t";
        if (!yes && word != "false" && word != "False" && word != "f") return wrong();
        *static_cast<bool*>(slot) = yes;
        return next();
      }
      if (field.type != FieldType::choice) return wrong();
      SBX_TRY(store_choice(field, word, slot));
      return next();
    }
    Number number;
    if (is_mark('-')) {
      if (field.type != FieldType::i32 && field.type != FieldType::i64 && field.type != FieldType::choice) return wrong();
      number.negative = true;
      SBX_TRY(next());
    }
    if (token_.kind != Kind::number) return wrong();
    const bool fits = magnitude(token_.text, number.magnitude);
    if (field.type == FieldType::boolean) {
      if (!fits || number.magnitude > 1) return wrong();
      *static_cast<bool*>(slot) = number.magnitude == 1;
      return next();
    }
    if (!fits) return wrong();
    SBX_TRY(store_number(field, number, slot));
    return next();
  }

  static bool magnitude(std::string_view digits, uint64_t& value) {
    uint64_t base = 10;
    if (digits.size() > 1 && digits[0] == '0') {
      base = digits[1] == 'x' || digits[1] == 'X' ? 16 : 8;
      digits.remove_prefix(base == 16 ? 2 : 1);
    }
    value = 0;
    for (const char c : digits) {
      const auto digit = static_cast<uint64_t>(hex_value(c));
      if (value > (~uint64_t{0} - digit) / base) return false;
      value = value * base + digit;
    }
    return true;
  }

  // The string token, appended to `bytes`.
  Status unquote(std::string& bytes) const {
    const std::string_view inside = token_.text.substr(1, token_.text.size() - 2);
    size_t i = 0;
    // `most` digits of the base; how many there were.
    const auto digits = [&](int base, unsigned most, uint32_t& value) {
      unsigned count = 0;
      value = 0;
      for (; count < most && i < inside.size(); ++count, ++i) {
        const int digit = hex_value(inside[i]);
        if (digit < 0 || digit >= base) break;
        value = value * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
      }
      return count;
    };
    while (i < inside.size()) {
      const size_t begin = i;
      const char c = inside[i++];
      if (c != '\\') {
        bytes += c;
        continue;
      }
      const auto bad = [&](const char* what) {
        const std::string escape(inside.substr(begin, 2));
        return error(what + (": " + quoted(escape)), place(token_.line, token_.column + 1 + static_cast<uint32_t>(begin)));
      };
      const char kind = i < inside.size() ? inside[i++] : '\0';
      uint32_t value = 0;
      static constexpr std::string_view kNames = "abfnrtv\\'\"?", kValues = "\a\b\f\n\r\t\v\\'\"?";
      if (const size_t simple = kNames.find(kind); kind != '\0' && simple != std::string_view::npos) {
        bytes += kValues[simple];
      } else if (kind >= '0' && kind <= '7') {
        --i;
        digits(8, 3, value);
        bytes += static_cast<char>(value);  // \400 is \000
      } else if (kind == 'x') {
        if (digits(16, 2, value) == 0) return bad("hexadecimal digits are missing");
        bytes += static_cast<char>(value);
      } else if (kind == 'u' || kind == 'U') {
        const unsigned length = kind == 'u' ? 4 : 8;
        if (digits(16, length, value) != length) return bad("hexadecimal digits are missing");
        // A pair of surrogates, as JSON writers make them, is one character.
        if (value >= 0xd800 && value < 0xdc00 && inside.substr(i, 2) == "\\u") {
          const size_t back = i;
          uint32_t low = 0;
          i += 2;
          if (digits(16, 4, low) == 4 && low >= 0xdc00 && low < 0xe000) value = 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00);
          else i = back;
        }
        if (value > 0x10ffff) return bad("there is no such character");
        append_utf8(bytes, value);
      } else {
        return bad("unknown escape");
      }
    }
    return {};
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  uint32_t line_ = 1, column_ = 1;
  Token token_;
};

}  // namespace

Result<Config> parse_textproto(std::string_view text, const std::string& name) { return Parser(text, name).all(); }

}  // namespace sbx::nsjail

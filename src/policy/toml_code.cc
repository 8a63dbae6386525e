#include "policy/toml_code.h"

#include <cstring>

namespace sbx {
namespace {

using Kind = TomlValue::Kind;

// Numbers: seven bits a byte, the lowest first, the top bit says that more follow.
void put(std::string& code, uint64_t number) {
  for (; number >= 0x80; number >>= 7) code += static_cast<char>(0x80 | (number & 0x7F));
  code += static_cast<char>(number);
}
void put(std::string& code, std::string_view text) {
  put(code, text.size());
  code += text;
}

void encode(std::string& code, const TomlValue& value) {
  put(code, static_cast<uint64_t>(value.kind));
  put(code, value.line);
  put(code, value.column);
  put(code, value.key);
  put(code, value.key_line);
  put(code, value.key_column);
  switch (value.kind) {
    case Kind::boolean: put(code, value.boolean ? 1 : 0); break;
    case Kind::integer: put(code, static_cast<uint64_t>(value.integer)); break;
    case Kind::decimal: {
      uint64_t bits = 0;
      std::memcpy(&bits, &value.decimal, sizeof bits);
      put(code, bits);
      break;
    }
    case Kind::string: put(code, value.string); break;
    case Kind::array:
    case Kind::table:
      put(code, value.items.size());
      for (const TomlValue& item : value.items) encode(code, item);
      break;
  }
}

class Decoder {
 public:
  explicit Decoder(std::string_view code) : code_(code) {}

  bool value(TomlValue& value, unsigned depth) {
    const uint64_t kind = number();
    if (kind > static_cast<uint64_t>(Kind::table) || depth > kMaxTomlDepth) return false;
    value.kind = static_cast<Kind>(kind);
    value.line = static_cast<uint32_t>(number());
    value.column = static_cast<uint32_t>(number());
    value.key = text();
    value.key_line = static_cast<uint32_t>(number());
    value.key_column = static_cast<uint32_t>(number());
    switch (value.kind) {
      case Kind::boolean: value.boolean = number() != 0; break;
      case Kind::integer: value.integer = static_cast<int64_t>(number()); break;
      case Kind::decimal: {
        const uint64_t bits = number();
        std::memcpy(&value.decimal, &bits, sizeof bits);
        break;
      }
      case Kind::string: value.string = text(); break;
      case Kind::array:
      case Kind::table: {
        const uint64_t count = number();
        if (count > code_.size()) return false;  // each takes more than a byte
        value.items.resize(count);
        for (TomlValue& item : value.items) {
          if (!this->value(item, depth + 1)) return false;
        }
        break;
      }
    }
    return !failed_;
  }
  bool at_end() const { return code_.empty(); }

 private:
  uint64_t number() {
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 64 && !code_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(code_.front());
      code_.remove_prefix(1);
      result |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return result;
    }
    failed_ = true;
    return 0;
  }
  std::string_view text() {
    const uint64_t size = number();
    if (size > code_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view result = code_.substr(0, size);
    code_.remove_prefix(size);
    return result;
  }

  std::string_view code_;
  bool failed_ = false;
};

}  // namespace

std::string encode_toml(const TomlValue& value) {
  std::string code;
  encode(code, value);
  return code;
}

TomlValue decode_toml(std::string_view code) {
  TomlValue value;
  Decoder decoder(code);
  if (!decoder.value(value, 0) || !decoder.at_end()) return {};
  return value;
}

}  // namespace sbx

#include "runtime/jvm.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <optional>
#include <vector>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::runtime {
namespace {

constexpr size_t kLargestClass = size_t{4} << 20;

bool is_name_letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalnum(byte) != 0 || c == '_' || c == '$' || byte >= 0x80;
}

// The words and the signs of a Java text, without comments and literals.
class JavaWords {
 public:
  explicit JavaWords(std::string_view text) : text_(text) {}

  // The next word, or one sign; "" at the end.
  std::string_view next() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (starts_with(text_.substr(at_), "//")) {
        skip_to("\n", 2);
      } else if (starts_with(text_.substr(at_), "/*")) {
        skip_to("*/", 2);
      } else if (starts_with(text_.substr(at_), "\"\"\"")) {
        skip_to("\"\"\"", 3);
      } else if (c == '"' || c == '\'') {
        skip_literal(c);
      } else if (is_name_letter(c)) {
        const size_t begin = at_;
        while (at_ < text_.size() && is_name_letter(text_[at_])) ++at_;
        return text_.substr(begin, at_ - begin);
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        ++at_;
      } else {
        return text_.substr(at_++, 1);
      }
    }
    return {};
  }

 private:
  void skip_to(std::string_view end, size_t from) {
    const size_t found = text_.find(end, at_ + from);
    at_ = found == std::string_view::npos ? text_.size() : found + end.size();
  }
  void skip_literal(char end) {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') ++at_;
      else if (text_[at_] == end || text_[at_] == '\n') break;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Big-endian numbers of a class file; past the end everything is 0 and `ok` says so.
class ClassBytes {
 public:
  explicit ClassBytes(std::string_view bytes) : bytes_(bytes) {}
  uint32_t number(size_t width) {
    if (bytes_.size() - at_ < width) {
      ok_ = false;
      at_ = bytes_.size();
      return 0;
    }
    uint32_t value = 0;
    for (size_t i = 0; i < width; ++i) value = value << 8 | static_cast<unsigned char>(bytes_[at_++]);
    return value;
  }
  std::string_view take(size_t size) {
    if (bytes_.size() - at_ < size) {
      ok_ = false;
      at_ = bytes_.size();
      return {};
    }
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  bool ok() const { return ok_; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

// The constants that hold text, and the text numbers of the class constants (JVM specification, section 4.4).
struct Constants {
  std::vector<std::string_view> texts;
  std::vector<uint32_t> classes;

  std::string_view text(uint32_t index) const { return index < texts.size() ? texts[index] : std::string_view(); }
  std::string_view class_name(uint32_t index) const { return index < classes.size() ? text(classes[index]) : std::string_view(); }
};

std::optional<Constants> read_constants(ClassBytes& bytes) {
  const uint32_t count = bytes.number(2);
  Constants constants;
  constants.texts.resize(count);
  constants.classes.resize(count);
  for (uint32_t index = 1; index < count && bytes.ok(); ++index) {
    switch (bytes.number(1)) {
      case 1: constants.texts[index] = bytes.take(bytes.number(2)); break;
      case 7: constants.classes[index] = bytes.number(2); break;
      case 8: case 16: case 19: case 20: bytes.number(2); break;
      case 15: bytes.take(3); break;
      case 3: case 4: case 9: case 10: case 11: case 12: case 17: case 18: bytes.number(4); break;
      case 5: case 6:  // long and double take two places
        bytes.take(8);
        ++index;
        break;
      default: return std::nullopt;
    }
  }
  if (!bytes.ok()) return std::nullopt;
  return constants;
}

Result<std::string> content_of(const Product& product) {
  const struct stat info = SBX_TRY(sys::fstat(product.content.get()));
  std::string bytes(std::min<size_t>(static_cast<size_t>(info.st_size), kLargestClass), '\0');
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t got = ::pread(product.content.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    at += static_cast<size_t>(got);
  }
  bytes.resize(at);
  return bytes;
}

}  // namespace

std::string java_source_name(std::string_view text, const std::string& name) {
  JavaWords words(text);
  int depth = 0;
  bool is_public = false;
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word == "{" || word == "(") ++depth;
    if (word == "}" || word == ")") --depth;
    if (word == ";" || word == "{" || word == "}") is_public = false;
    if (depth != 0) continue;
    if (word == "public") is_public = true;
    if (is_public && (word == "class" || word == "interface" || word == "enum" || word == "record")) {
      const std::string_view declared = words.next();
      if (declared.empty() || !is_name_letter(declared.front()) || declared.size() > 200) return name;
      return std::string(declared) + ".java";
    }
  }
  return name;
}

Result<ClassFile> parse_class_file(std::string_view content) {
  const Error broken(ErrorKind::policy, "not a class file");
  ClassBytes bytes(content);
  if (bytes.number(4) != 0xCAFEBABE) return broken;
  bytes.number(4);  // version
  const std::optional<Constants> constants = read_constants(bytes);
  if (!constants) return broken;
  bytes.number(2);  // access
  ClassFile file;
  file.name = constants->class_name(bytes.number(2));
  std::replace(file.name.begin(), file.name.end(), '/', '.');
  bytes.number(2);  // super class
  bytes.take(size_t{2} * bytes.number(2));  // interfaces
  for (const bool methods : {false, true}) {
    const uint32_t members = bytes.number(2);
    for (uint32_t i = 0; i < members && bytes.ok(); ++i) {
      const uint32_t access = bytes.number(2);
      const std::string_view name = constants->text(bytes.number(2));
      const std::string_view descriptor = constants->text(bytes.number(2));
      const uint32_t attributes = bytes.number(2);
      for (uint32_t a = 0; a < attributes && bytes.ok(); ++a) {
        bytes.number(2);
        bytes.take(bytes.number(4));
      }
      constexpr uint32_t kPublicStatic = 0x0001 | 0x0008;
      if (!methods || name != "main") continue;
      if (descriptor == "([Ljava/lang/String;)V" && (access & kPublicStatic) == kPublicStatic) file.has_main = true;
      else if (descriptor == "([Ljava/lang/String;)V" || descriptor == "()V") file.has_instance_main = true;
    }
  }
  const uint32_t attributes = bytes.number(2);
  for (uint32_t a = 0; a < attributes && bytes.ok(); ++a) {
    const std::string_view name = constants->text(bytes.number(2));
    const uint32_t size = bytes.number(4);
    if (name == "SourceFile" && size == 2) file.source = constants->text(bytes.number(2));
    else bytes.take(size);
  }
  if (!bytes.ok() || file.name.empty()) return broken;
  return file;
}

Result<std::string> jvm_main_class(std::span<const Product> products, const std::string& stem) {
  std::vector<ClassFile> candidates;
  for (const Product& product : products) {
    const size_t dot = product.name.rfind('.');
    if (dot == std::string::npos || product.name.substr(dot) != ".class") continue;
    Result<ClassFile> file = parse_class_file(SBX_TRY(content_of(product)));
    if (file.ok() && (file.value().has_main || file.value().has_instance_main)) candidates.push_back(file.take());
  }
  if (candidates.empty()) {
    return Error(ErrorKind::not_found, "no class has a method 'public static void main(String[] args)' to start with");
  }
  // Less is better.
  const auto rank = [&](const ClassFile& file) {
    const std::string simple = file.name.substr(file.name.rfind('.') + 1);
    std::string capital = stem;
    if (!capital.empty()) capital[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(capital[0])));
    const std::array<bool, 6> wishes = {file.has_main, simple == stem, simple == capital + "Kt",
                                        file.source.substr(0, file.source.rfind('.')) == stem && simple == "Main",
                                        simple == "Main", file.source.substr(0, file.source.rfind('.')) == stem};
    size_t value = 0;
    for (const bool wish : wishes) value = value * 2 + (wish ? 0 : 1);
    return value;
  };
  std::stable_sort(candidates.begin(), candidates.end(), [&](const ClassFile& left, const ClassFile& right) {
    if (rank(left) != rank(right)) return rank(left) < rank(right);
    return left.name < right.name;
  });
  return candidates.front().name;
}

}  // namespace sbx::runtime

// A JSON parser of its own: reads stdin, prints it sorted and compact, and the sum of all numbers.
#include <cctype>
#include <iostream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

struct Value;
using Object = std::map<std::string, Value>;
using Array = std::vector<Value>;
struct Value : std::variant<std::nullptr_t, bool, double, std::string, Array, Object> { using variant::variant; };

class Parser {
 public:
  explicit Parser(std::string text) : text_(std::move(text)) {}
  Value document() {
    Value value = element();
    skip();
    if (at_ != text_.size()) fail("text after the value");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw std::runtime_error(why + " at " + std::to_string(at_)); }
  void skip() { while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_; }
  char peek() { skip(); return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) { return peek() == c && ++at_; }
  void want(char c) { if (!take(c)) fail(std::string("no '") + c + "'"); }
  bool word(const std::string& w) { return text_.compare(at_, w.size(), w) == 0 && (at_ += w.size()); }

  Value element() {
    switch (peek()) {
      case '{': {
        Object object;
        want('{');
        if (take('}')) return object;
        do {
          std::string key = string();
          want(':');
          object[key] = element();
        } while (take(','));
        want('}');
        return object;
      }
      case '[': {
        Array array;
        want('[');
        if (take(']')) return array;
        do array.push_back(element()); while (take(','));
        want(']');
        return array;
      }
      case '"': return string();
    }
    if (word("true")) return true;
    if (word("false")) return false;
    if (word("null")) return nullptr;
    size_t used = 0;
    try {
      const double number = std::stod(text_.substr(at_), &used);
      at_ += used;
      return number;
    } catch (const std::invalid_argument&) { fail("no value"); }
  }
  std::string string() {
    want('"');
    std::string result;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && ++at_ < text_.size()) result += text_[at_] == 'n' ? '\n' : text_[at_];
      else result += text_[at_];
    }
    want('"');
    return result;
  }
  std::string text_;
  size_t at_ = 0;
};

template <class... F> struct Overloaded : F... { using F::operator()...; };

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result + "\"";
}

double print(const Value& value) {
  double sum = 0;
  const auto list = [&](const auto& items, char open, char close, const auto& each) {
    std::cout << open;
    bool first = true;
    for (const auto& item : items) {
      if (!std::exchange(first, false)) std::cout << ',';
      each(item);
    }
    std::cout << close;
  };
  std::visit(Overloaded{
      [](std::nullptr_t) { std::cout << "null"; },
      [](bool b) { std::cout << (b ? "true" : "false"); },
      [&](double d) { std::cout << d; sum += d; },
      [](const std::string& s) { std::cout << quoted(s); },
      [&](const Array& a) { list(a, '[', ']', [&](const Value& v) { sum += print(v); }); },
      [&](const Object& o) { list(o, '{', '}', [&](const auto& pair) { std::cout << quoted(pair.first) << ':'; sum += print(pair.second); }); },
  }, static_cast<const std::variant<std::nullptr_t, bool, double, std::string, Array, Object>&>(value));
  return sum;
}

int main() {
  try {
    const double sum = print(Parser({std::istreambuf_iterator<char>(std::cin), {}}).document());
    std::cout << "\nsum " << sum << '\n';
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

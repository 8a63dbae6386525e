#include "policy/kafel/lexer.h"

#include <array>
#include <limits>
#include <utility>

#include "base/text.h"

namespace sbx::kafel {
namespace {

// Of two that begin alike the longer stands first.
constexpr std::array<std::string_view, 19> kSymbols = {"==", "!=", "<=", ">=", "||", "&&", "<", ">", "|", "&",
                                                       "[",  "]",  "(",  ")",  "{",  "}",  ",", "!", "#"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// -1: no digit of any base that numbers have.
int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool Lexer::fail(Place at, std::string message, std::string hint) {
  mistake_ = {at, std::move(message), std::move(hint)};
  return false;
}

void Lexer::advance(size_t bytes) {
  for (; bytes > 0; --bytes, ++position_) {
    if (text_[position_] == '\n') {
      ++place_.line;
      place_.column = 1;
    } else {
      ++place_.column;
    }
  }
}

bool Lexer::skip_blanks_and_comments() {
  for (;;) {
    const char c = peek();
    if (position_ < text_.size() && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
      advance(1);
    } else if (c == '/' && peek(1) == '/') {
      while (position_ < text_.size() && text_[position_] != '\n') advance(1);
    } else if (c == '/' && peek(1) == '*') {
      const size_t end = text_.find("*/", position_ + 2);
      if (end == std::string_view::npos) return fail(place_, "a comment that never ends", "close it with */");
      advance(end + 2 - position_);
    } else {
      return true;
    }
  }
}

bool Lexer::read_number(Token& token) {
  const bool negative = peek() == '-';
  size_t length = negative ? 1 : 0;
  unsigned base = 10;
  if (!negative && peek() == '0') {
    if (peek(1) == 'x') {
      base = 16;
      length = 2;
    } else if (peek(1) == 'b') {
      base = 2;
      length = 2;
    } else if (is_digit(peek(1))) {
      base = 8;
      length = 1;
    }
  }
  const size_t first_digit = length;
  uint64_t number = 0;
  bool too_large = false;
  for (; digit_value(peek(length)) >= 0 && (base == 16 || is_digit(peek(length))); ++length) {
    const auto digit = static_cast<unsigned>(digit_value(peek(length)));
    if (digit >= base)
      return fail(place_, std::string("\"") + peek(length) + "\" is no digit of a number that begins with " + (base == 8 ? "0" : "0b"),
                  base == 8 ? "a number that begins with 0 is octal" : "");
    too_large = too_large || number > (std::numeric_limits<uint64_t>::max() - digit) / base;
    number = number * base + digit;
  }
  const std::string_view text = text_.substr(position_, length);
  if (length == first_digit || is_letter(peek(length)))
    return fail(place_, quoted(text_.substr(position_, length + 1)) + " is no number", "numbers are decimal, 0x…, 0… (octal) or 0b…");
  if (too_large) return fail(place_, "the number " + quoted(text) + " has more than 64 bits");
  if (negative && text[1] == '0') return fail(place_, quoted(text) + " is no number");
  token.kind = Token::Kind::number;
  token.number = negative ? 0 - number : number;
  token.text = text;
  advance(length);
  return true;
}

bool Lexer::next(Token& token) {
  if (!skip_blanks_and_comments()) return false;
  token = Token{};
  token.at = place_;
  if (position_ == text_.size()) return true;
  const char c = peek();
  if (is_digit(c) || (c == '-' && is_digit(peek(1)))) return read_number(token);
  if (is_letter(c)) {
    size_t length = 1;
    while (is_letter(peek(length)) || is_digit(peek(length))) ++length;
    token.kind = Token::Kind::word;
    token.text = text_.substr(position_, length);
    advance(length);
    return true;
  }
  for (const std::string_view symbol : kSymbols) {
    if (text_.substr(position_, symbol.size()) != symbol) continue;
    token.kind = Token::Kind::symbol;
    token.text = text_.substr(position_, symbol.size());
    advance(symbol.size());
    return true;
  }
  std::string hint;
  if (c == '=') hint = "equality is ==";
  if (c == ';') hint = "rules are separated by commas";
  if (c == '"' || c == '\'') hint = "Kafel has no strings";
  return fail(place_, "unexpected " + quoted(text_.substr(position_, 1)), std::move(hint));
}

}  // namespace sbx::kafel

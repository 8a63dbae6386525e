// Kafel's words, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/kafel/ast.h"

namespace sbx::kafel {

struct Token {
  enum class Kind { end, word, number, symbol };
  Kind kind = Kind::end;
  std::string_view text;  // borrowed from the text
  uint64_t number = 0;
  Place at;

  bool is_symbol(std::string_view wanted) const { return kind == Kind::symbol && text == wanted; }
  bool is_word(std::string_view wanted) const { return kind == Kind::word && text == wanted; }
};

// What went wrong, before anyone has said where the text itself is.
struct Mistake {
  Place at;
  std::string message;
  std::string hint;
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  // False: see mistake().
  bool next(Token& token);
  const Mistake& mistake() const { return mistake_; }

 private:
  bool fail(Place at, std::string message, std::string hint = "");
  bool skip_blanks_and_comments();
  bool read_number(Token& token);
  void advance(size_t bytes);
  char peek(size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }

  std::string_view text_;
  size_t position_ = 0;
  Place place_;
  Mistake mistake_;
};

}  // namespace sbx::kafel

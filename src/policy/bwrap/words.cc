#include "policy/bwrap/words.h"

#include "base/text.h"
#include "policy/bwrap/parse.h"

namespace sbx::bwrap {
namespace {

constexpr std::string_view kOperators = ";&|<>()";

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Result<std::vector<Word>> read() {
    std::vector<Word> words;
    while (skip()) {
      if (words.size() >= kMaxWords) return wrong("more than " + std::to_string(kMaxWords) + " words");
      words.push_back({"", line_, column_});
      SBX_TRY(word(words.back().text));
    }
    return words;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char here() const { return text_[at_]; }
  char next() {
    const char c = text_[at_++];
    if (c == '\n') ++line_, column_ = 1;
    else ++column_;
    return c;
  }
  bool joined_line() const { return here() == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n'; }
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  // To the next word; false: there is none.
  bool skip() {
    while (!at_end()) {
      if (is_space(here())) {
        next();
      } else if (joined_line()) {
        next(), next();
      } else if (here() == '#') {
        while (!at_end() && here() != '\n') next();
      } else {
        return true;
      }
    }
    return false;
  }

  Error wrong(const std::string& what) const { return Error(ErrorKind::policy, what).with_origin(place_of({"", line_, column_}, name_)); }

  Status word(std::string& out) {
    bool first = true;
    for (; !at_end() && !is_space(here()); first = false) {
      if (joined_line()) {
        next(), next();
        continue;
      }
      const char c = here();
      if (c == '\'' || c == '"') {
        SBX_TRY(quotation(c, out));
        continue;
      }
      if (c == '$' || c == '`' || (c == '~' && first)) {
        return wrong(std::string("nothing is expanded here, and ") + quoted(std::string(1, c)) + " is not quoted").with_hint("write the value itself, or '" + std::string(1, c) + "' for the character");
      }
      if (kOperators.find(c) != std::string_view::npos) {
        return wrong("the shell's " + quoted(std::string(1, c)) + " has no meaning here").with_hint("a policy holds bwrap's options only; quote what is meant as it stands");
      }
      next();
      if (c == '\\') {
        if (at_end()) return wrong("nothing follows the last \\");
        out += next();
      } else {
        out += c;
      }
    }
    return {};
  }

  Status quotation(char quote, std::string& out) {
    const Error unclosed = wrong(std::string("the quotation that begins with ") + quote + " does not end");
    next();
    while (!at_end() && here() != quote) {
      if (quote == '"' && (here() == '$' || here() == '`')) {
        return wrong("nothing is expanded here, also not within \"…\"").with_hint("write the value itself, or quote with '…'");
      }
      const char c = next();
      // Within "…" a backslash quotes these only, and stays before anything else.
      if (quote == '"' && c == '\\' && !at_end() && std::string_view("\"\\$`\n").find(here()) != std::string_view::npos) {
        const char escaped = next();
        if (escaped != '\n') out += escaped;
      } else {
        out += c;
      }
    }
    if (at_end()) return unclosed;
    next();
    return {};
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  uint32_t line_ = 1, column_ = 1;
};

}  // namespace

std::string place_of(const Word& word, const std::string& name) { return name + ":" + std::to_string(word.line) + ":" + std::to_string(word.column); }

Result<std::vector<Word>> read_words(std::string_view text, const std::string& name) {
  if (text.find('\0') == std::string_view::npos) return Reader(text, name).read();
  std::vector<Word> words;
  for (size_t at = 0; at < text.size();) {
    if (words.size() >= kMaxWords) return Error(ErrorKind::policy, "more than " + std::to_string(kMaxWords) + " words").with_origin(name);
    size_t stop = text.find('\0', at);
    if (stop == std::string_view::npos) stop = text.size();
    words.push_back({std::string(text.substr(at, stop - at)), 1, static_cast<uint32_t>(words.size() + 1)});
    at = stop + 1;
  }
  return words;
}

}  // namespace sbx::bwrap

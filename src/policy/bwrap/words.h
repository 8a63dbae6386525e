// The words of a stored bwrap argument file, each with its place. Two forms: with a NUL byte anywhere, words end at NUL and
// nothing else has a meaning, as behind --args; otherwise plain text with the quoting of a shell and comments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sbx::bwrap {

struct Word {
  std::string text;
  uint32_t line = 1;    // of the NUL form: 1
  uint32_t column = 1;  // of the NUL form: the word's number, from 1
};

// Plain text: words are separated by white space; '…', "…" and \ quote as in a shell; # begins a comment where a word could
// begin; a line may end in \. Nothing is expanded: an unquoted $, ` or leading ~, and operators of a shell, are errors, since
// whoever wrote them meant something. Errors: policy, with NAME:LINE:COLUMN as origin.
Result<std::vector<Word>> read_words(std::string_view text, const std::string& name);

std::string place_of(const Word& word, const std::string& name);  // "x.bwrap:3:1"

}  // namespace sbx::bwrap

// Kafel text to its tree. Errors are those of the language alone: unknown calls and arguments come later.
#pragma once

#include <string_view>
#include <variant>

#include "policy/kafel/ast.h"
#include "policy/kafel/lexer.h"

namespace sbx::kafel {

std::variant<Program, Mistake> parse(std::string_view text);

}  // namespace sbx::kafel

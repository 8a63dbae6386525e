// A tree to rules: names become numbers, conditions lose what is constant and what a filter need not know.
#pragma once

#include <variant>

#include "policy/kafel/ast.h"
#include "policy/kafel/kafel.h"
#include "policy/kafel/lexer.h"

namespace sbx::kafel {

// `place` of the options must be set.
std::variant<SyscallRules, Mistake> lower(const Program& program, const Options& options);

}  // namespace sbx::kafel

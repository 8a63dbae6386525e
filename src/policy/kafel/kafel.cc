#include "policy/kafel/kafel.h"

#include <utility>

#include "policy/kafel/lower.h"
#include "policy/kafel/parser.h"

namespace sbx::kafel {
namespace {

Error as_error(Mistake mistake, const Options& options) {
  Error error = Error(ErrorKind::policy, std::move(mistake.message)).with_origin(options.place(mistake.at.line, mistake.at.column));
  if (mistake.hint.empty()) return error;
  return std::move(error).with_hint(std::move(mistake.hint));
}

}  // namespace

Result<SyscallRules> compile(std::string_view text, const Options& wanted) {
  Options options = wanted;
  if (!options.place) {
    options.place = [&wanted](uint32_t line, uint32_t column) {
      return wanted.name + ":" + std::to_string(line) + ":" + std::to_string(column);
    };
  }
  std::variant<Program, Mistake> program = parse(text);
  if (auto* mistake = std::get_if<Mistake>(&program)) return as_error(std::move(*mistake), options);
  std::variant<SyscallRules, Mistake> rules = lower(std::get<Program>(program), options);
  if (auto* mistake = std::get_if<Mistake>(&rules)) return as_error(std::move(*mistake), options);
  return std::move(std::get<SyscallRules>(rules));
}

}  // namespace sbx::kafel

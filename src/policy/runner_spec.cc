#include "policy/runner_spec.h"

#include <algorithm>

#include "base/text.h"

namespace sbx {
namespace {

struct PlaceholderName {
  Placeholder which;
  std::string_view name;
};
constexpr PlaceholderName kPlaceholders[] = {
    {Placeholder::tool, "tool"},           {Placeholder::tool_dir, "tool_dir"}, {Placeholder::src, "src"},
    {Placeholder::src_dir, "src_dir"},     {Placeholder::stem, "stem"},         {Placeholder::sources, "sources"},
    {Placeholder::out, "out"},             {Placeholder::out_dir, "out_dir"},   {Placeholder::main, "main"},
    {Placeholder::prepared, "prepared"},   {Placeholder::args, "args"},         {Placeholder::flags, "flags"},
    {Placeholder::memory_mb, "memory_mb"}, {Placeholder::cpus, "cpus"},
};

bool is_percent(const std::string& text) {
  const Result<uint64_t> number = parse_integer(text);
  return number.ok() && number.value() >= 1 && number.value() <= 100;
}

}  // namespace

std::optional<PlaceholderUse> parse_placeholder(std::string_view inner) {
  const size_t colon = inner.find(':');
  const std::string_view name = inner.substr(0, colon);
  const auto* found = std::find_if(std::begin(kPlaceholders), std::end(kPlaceholders),
                                   [&](const PlaceholderName& entry) { return entry.name == name; });
  if (found == std::end(kPlaceholders)) return std::nullopt;
  PlaceholderUse use{found->which, ""};
  if (colon == std::string_view::npos) return use;
  use.parameter = inner.substr(colon + 1);
  if (use.which == Placeholder::tool && !use.parameter.empty()) return use;
  if (use.which == Placeholder::memory_mb && is_percent(use.parameter)) return use;
  return std::nullopt;
}

std::string placeholder_text(Placeholder which) {
  const auto* found = std::find_if(std::begin(kPlaceholders), std::end(kPlaceholders),
                                   [&](const PlaceholderName& entry) { return entry.which == which; });
  return found == std::end(kPlaceholders) ? "" : "{" + std::string(found->name) + "}";
}

bool is_whole_word(Placeholder which) {
  return which == Placeholder::args || which == Placeholder::flags || which == Placeholder::sources;
}

bool RunnerSpec::has_hook(RunnerHook hook) const { return std::find(hooks.begin(), hooks.end(), hook) != hooks.end(); }

}  // namespace sbx

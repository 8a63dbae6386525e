// In which language a policy text is written. The loader reads it by the reader of its dialect.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sbx {

enum class Dialect { native, bwrap, nsjail };
const char* dialect_name(Dialect dialect);

// Whether a dialect of its own claims this extension, so that the word is a file and no policy's name.
bool is_dialect_file(std::string_view name_or_file);

// By `wanted` (--dialect) if given, else by the name: a policy's NAME, and a FILE with an extension that no dialect
// claims, are native. Errors: usage (unknown, with a did-you-mean), unsupported (known, and not in this version).
Result<Dialect> choose_dialect(const std::string& name_or_file, const std::string& wanted);

}  // namespace sbx

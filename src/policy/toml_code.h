// A TOML document as a compact code that is read back without parsing: the shipped texts are parsed while building
// (tools/embed.cc), because reading the default policy and the manifest was a quarter of what a start costs.
#pragma once

#include <string>
#include <string_view>

#include "policy/toml_document.h"

namespace sbx {

std::string encode_toml(const TomlValue& value);
// `code` must come from encode_toml of the same build; anything else gives an empty table.
TomlValue decode_toml(std::string_view code);

// The code of a shipped text, known by its place in the binary; empty: `text` is none (generated/embedded.cc).
std::string_view embedded_code(std::string_view text);

}  // namespace sbx

// What the key table says, as text: the reference (docs/policy-keys.md is this text; a test compares them), the JSON
// Schema of native policies (docs/schema/policy-v1.json, likewise), a start file, and single values as TOML.
#pragma once

#include <map>
#include <string>

#include "policy/layer.h"

namespace sbx {

std::string key_reference_markdown();

// JSON Schema 2020-12 of a native policy, read as a TOML document.
std::string policy_schema_json();

// A value as it stands in TOML: "\"1G\"", "[\"TERM\"]".
std::string toml_value(const KeyRow& row, const KeyValue& value);
// "whole number": what a key takes, for tables.
const char* key_type_name(KeyType type);
// "16M to 1024T"; "" where there is no range.
std::string key_range(const KeyRow& row);

// A policy to start from: every key with its meaning and its default, commented out.
std::string start_policy(const std::string& file, const std::map<std::string, LayerValue>& defaults);

}  // namespace sbx

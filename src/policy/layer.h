// PolicyLayer: one parsed policy text (a file, a runner's overlay, the command line), every key optional. Layers are
// merged in a fixed order, later ones win: built-in default, runner, named policies in order, command line.
//
// A layer is a map from key path to typed value; which keys exist, their type, unit, document line and flag stand in
// ONE table (key_table()), which the TOML parser, `policy check`, the reference page, the JSON Schema and --help read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "policy/host_facts.h"
#include "policy/review.h"
#include "policy/spec.h"

namespace sbx {

enum class KeyType {
  boolean,
  integer,      // uint64_t
  decimal_cpus, // "1", "1.5" → uint64_t thousandths
  size,         // Bytes
  duration,     // Millis
  text,
  text_list,
  choice,       // text, one of KeyRow::choices
  text_map,     // [env]: name → value
};

struct Unlimited {  // the value "none" of a limit
  bool operator==(const Unlimited&) const = default;
};
using KeyValue = std::variant<Unlimited, bool, uint64_t, Bytes, Millis, std::string, std::vector<std::string>,
                              std::map<std::string, std::string>>;

struct KeyRow {
  const char* path;     // "limits.memory"
  KeyType type;
  bool may_be_none;     // accepts "none": no limit
  const char* flag;     // "--memory", or nullptr when no flag sets it
  const char* metavar;  // "SIZE"
  const char* doc;      // one line
  std::vector<std::string> choices;  // for KeyType::choice
  const char* example;  // a value as it stands in TOML: "\"512M\""
  uint64_t least;       // smallest and largest value of a number, in the unit of the type (bytes, milliseconds …);
  uint64_t most;        // both 0 for what is no number
};
std::span<const KeyRow> key_table();
const KeyRow* find_key(std::string_view path);  // nullptr: no such key

struct LayerValue {
  KeyValue value;
  std::string origin;  // "default policy", "flag --memory", "x.toml:3:1"
  bool operator==(const LayerValue&) const = default;
};

struct PolicyLayer {
  std::string name;                          // "default policy", "./strict.toml", "command line"
  std::map<std::string, LayerValue> values;  // by key path
  std::vector<FsOp> mounts;                  // [[fs.mount]] in order; appended to those of earlier layers
  // [[seccomp.rule]]: put before the rules of earlier layers.
  std::vector<SyscallRule> syscall_rules;
  // What seccomp.kafel or seccomp.kafel_file says: it decides about every call, so nothing of earlier layers does.
  std::optional<SyscallRules> kafel;
  // The policy lies inside a shared workspace: it may only tighten, resolve() refuses the rest.
  bool may_only_tighten = false;
  // A text in the words of another sandbox, which shares nothing that it is not told to: `mounts` are all that is seen, in
  // their order, and the manifest and the places that sbx makes otherwise have no part in it.
  bool whole_view = false;
  std::string directory;      // of such a text: where a command begins
  std::string whole_host;     // of such a text: the origin of what shares all of the host; "": nothing does
  std::vector<Risk> remarks;  // of such a text: what it leaves open where that other sandbox runs it
  bool operator==(const PolicyLayer&) const = default;
};

// Sets one key from text as it stands on a command line or in an environment; strict. Errors: usage when origin is a
// flag (it starts with "flag "), else policy.
// A text_list gains one element, a text_map the entry of "K=V".
Status set_from_text(PolicyLayer& layer, std::string_view path, std::string_view text, const std::string& origin);

// The ranges, choices and characters that a value must keep, whatever text it came from. Error: policy, without origin.
Status check_value(const KeyRow& row, const KeyValue& value);
// "a size such as \"512M\"": what a key takes, for messages.
std::string expected_value(const KeyRow& row);
// A value as a person writes it: "1G", "60s", "none", "a, b".
std::string format_value(const KeyRow& row, const KeyValue& value);

}  // namespace sbx

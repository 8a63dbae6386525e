// Native TOML policies to layers, driven by the key table. A key that the table does not have is an error.
#include <cmath>
#include <optional>

#include "base/text.h"
#include "policy/kafel/kafel.h"
#include "policy/layer.h"
#include "policy/loader.h"
#include "policy/syscall_groups.h"
#include "policy/toml_document.h"

namespace sbx {
namespace {

constexpr size_t kMostMounts = 256;
constexpr size_t kMostRules = 1024;

// The one text being read: its name for messages, and how its values call their origin.
struct Reader {
  const std::string& name;
  bool is_file;  // the name is that of a file, so line and column say something to its owner
  std::string_view text;  // the whole document; "" where this is a part of another one

  std::string origin(const TomlValue& value) const { return is_file ? toml_key_place(name, value) : name; }
  Error error(const TomlValue& value, std::string message) const {
    return toml_error(name, value, std::move(message));
  }
  Error key_error(const TomlValue& value, std::string message) const {
    return Error(ErrorKind::policy, std::move(message)).with_origin(toml_key_place(name, value));
  }
};

// "memory = \"1G\"": a line that can stand in the section of the key.
std::string example_line(const KeyRow& row) {
  const std::string path = row.path;
  return path.substr(path.find('.') + 1) + " = " + row.example;
}

Error wrong_type(const Reader& reader, const KeyRow& row, const TomlValue& value) {
  const char* article = value.is(TomlValue::Kind::integer) || value.is(TomlValue::Kind::array) ? "an " : "a ";
  return reader
      .error(value, std::string(row.path) + " takes " + expected_value(row) + "; this is " + article +
                        toml_kind_name(value.kind))
      .with_hint("write " + example_line(row));
}

Result<std::vector<std::string>> read_texts(const Reader& reader, const std::string& what, const TomlValue& value) {
  std::vector<std::string> texts;
  if (!value.is(TomlValue::Kind::array)) return reader.error(value, what + " is a list of texts").with_hint("write [\"…\"]");
  for (const TomlValue& item : value.items) {
    if (!item.is(TomlValue::Kind::string)) return reader.error(item, what + " is a list of texts; this element is none");
    texts.push_back(item.string);
  }
  return texts;
}

// Whole thousandths of a TOML number, for durations in seconds and for CPUs; nullopt when it cannot be one.
std::optional<uint64_t> thousandths(const TomlValue& value) {
  if (value.is(TomlValue::Kind::integer)) {
    if (value.integer < 0 || value.integer > INT64_MAX / 1000) return std::nullopt;
    return static_cast<uint64_t>(value.integer) * 1000;
  }
  if (!std::isfinite(value.decimal) || value.decimal < 0 || value.decimal > 1e12) return std::nullopt;
  return static_cast<uint64_t>(std::floor(value.decimal * 1000 + 1e-6));
}

Result<KeyValue> read_value(const Reader& reader, const KeyRow& row, const TomlValue& value) {
  using Kind = TomlValue::Kind;
  if (row.may_be_none && value.is(Kind::string) && value.string == "none") return KeyValue(Unlimited{});

  const bool is_number = value.is(Kind::integer) || value.is(Kind::decimal);
  switch (row.type) {
    case KeyType::boolean:
      if (value.is(Kind::boolean)) return KeyValue(value.boolean);
      break;
    case KeyType::integer:
      if (value.is(Kind::integer)) {
        if (value.integer < 0) return reader.error(value, std::string(row.path) + " cannot be negative");
        return KeyValue(static_cast<uint64_t>(value.integer));
      }
      break;
    case KeyType::size:
      if (value.is(Kind::integer)) {
        if (value.integer < 0) return reader.error(value, std::string(row.path) + " cannot be negative");
        return KeyValue(Bytes{static_cast<uint64_t>(value.integer)});
      }
      break;
    case KeyType::duration:
      if (is_number) {
        const std::optional<uint64_t> millis = thousandths(value);
        if (!millis) return reader.error(value, std::string(row.path) + " is no duration in seconds");
        return KeyValue(Millis{static_cast<int64_t>(*millis)});
      }
      break;
    case KeyType::decimal_cpus:
      if (is_number) {
        const std::optional<uint64_t> milli = thousandths(value);
        if (!milli) return reader.error(value, std::string(row.path) + " is no number of processors");
        return KeyValue(*milli);
      }
      break;
    case KeyType::text:
    case KeyType::choice:
      if (value.is(Kind::string)) return KeyValue(value.string);
      break;
    case KeyType::text_list:
      if (value.is(Kind::array)) return KeyValue(SBX_TRY(read_texts(reader, row.path, value)));
      break;
    case KeyType::text_map:
      if (value.is(Kind::table)) {
        std::map<std::string, std::string> map;
        for (const TomlValue& item : value.items) {
          if (!item.is(Kind::string))
            return reader.error(item, std::string(row.path) + ": the value of " + quoted(item.key) + " is no text")
                .with_hint("put it in quotes");
          map[item.key] = item.string;
        }
        return KeyValue(std::move(map));
      }
      break;
  }

  // Text with a unit, for everything that is a number.
  const bool has_units =
      row.type == KeyType::size || row.type == KeyType::duration || row.type == KeyType::decimal_cpus;
  if (!has_units || !value.is(Kind::string)) return wrong_type(reader, row, value);
  PolicyLayer scratch;
  const std::string origin = toml_place(reader.name, value);
  if (Status status = set_from_text(scratch, row.path, value.string, origin); !status.ok()) {
    // The text form suggests a flag; here a line of the file is wanted.
    Error problem = status.take_error();
    const bool is_range = problem.hint().find("for example") != 0;
    return is_range ? std::move(problem) : std::move(problem).with_hint("write " + example_line(row));
  }
  return scratch.values.at(row.path).value;
}

// ---- seccomp.kafel ----------------------------------------------------------------------------------------------

// Where a line and column of a string are in the document, "" where its escapes hide that.
std::string place_inside(const Reader& reader, const TomlValue& value, uint32_t line, uint32_t column) {
  std::string_view rest = reader.text;
  for (uint32_t skip = 1; skip < value.line; ++skip) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) return "";
    rest.remove_prefix(end + 1);
  }
  if (rest.size() < value.column) return "";
  rest.remove_prefix(value.column - 1);
  const std::string_view quotes = rest.substr(0, 3);
  const bool multiline = quotes == "'''" || quotes == "\"\"\"";
  size_t first = multiline ? 3 : 1;
  // A newline right behind the quotes is not part of the string.
  uint32_t lines_before = 0;
  if (multiline && rest.substr(first, 2) == "\r\n") ++first;
  if (multiline && rest.substr(first, 1) == "\n") {
    ++first;
    lines_before = 1;
  }
  if (rest.substr(first, value.string.size()) != value.string) return "";
  const uint32_t column_before = line == 1 && lines_before == 0 ? value.column - 1 + static_cast<uint32_t>(first) : 0;
  return reader.name + ":" + std::to_string(value.line + lines_before + line - 1) + ":" + std::to_string(column_before + column);
}

Result<SyscallRules> read_kafel(const Reader& reader, const TomlValue& value) {
  kafel::Options options;
  options.place = [&](uint32_t line, uint32_t column) {
    const std::string exact = place_inside(reader, value, line, column);
    return !exact.empty() ? exact : toml_place(reader.name, value) + ": Kafel " + std::to_string(line) + ":" + std::to_string(column);
  };
  return kafel::compile(value.string, options);
}

// ---- [[fs.mount]] ---------------------------------------------------------------------------------------------

const std::vector<std::string> kMountKeys = {"type", "source", "target", "mode", "optional", "no_exec"};
constexpr const char* kMountExample = "write source = \"/srv/data\" and, for another place inside, target = \"/data\"";

Result<std::string> read_text(const Reader& reader, const TomlValue& value, const std::string& what) {
  if (!value.is(TomlValue::Kind::string)) return reader.error(value, what + " is a text");
  if (value.string.find('\0') != std::string::npos) return reader.error(value, what + " holds a zero byte");
  return value.string;
}

Result<bool> read_boolean(const Reader& reader, const TomlValue* value, const std::string& what) {
  if (value == nullptr) return false;
  if (!value->is(TomlValue::Kind::boolean)) return reader.error(*value, what + " is true or false");
  return value->boolean;
}

Error unknown_key(const Reader& reader, const TomlValue& item, const std::string& path,
                  const std::vector<std::string>& candidates) {
  const std::string guess = did_you_mean(path, candidates);
  return reader.key_error(item, "unknown key " + quoted(path))
      .with_hint(guess.empty() ? "the keys are listed by sbx policy show default" : "did you mean \"" + guess + "\"?");
}

Result<FsOp> read_mount(const Reader& reader, const TomlValue& entry) {
  for (const TomlValue& item : entry.items) {
    bool known = false;
    for (const std::string& key : kMountKeys) known = known || key == item.key;
    if (!known) return unknown_key(reader, item, item.key, kMountKeys);
  }
  const auto text_of = [&](const char* key) -> Result<std::string> {
    const TomlValue* value = entry.find(key);
    if (value == nullptr) return std::string();
    return read_text(reader, *value, std::string("fs.mount ") + key);
  };
  const std::string type = entry.find("type") != nullptr ? SBX_TRY(text_of("type")) : "bind";
  const std::string source = SBX_TRY(text_of("source"));
  std::string target = SBX_TRY(text_of("target"));
  const std::string mode = SBX_TRY(text_of("mode"));
  const bool optional = SBX_TRY(read_boolean(reader, entry.find("optional"), "fs.mount optional"));
  const bool no_exec = SBX_TRY(read_boolean(reader, entry.find("no_exec"), "fs.mount no_exec"));
  const std::string origin = toml_place(reader.name, entry);

  if (type == "private") {
    for (const char* key : {"source", "mode", "optional", "no_exec"})
      if (const TomlValue* value = entry.find(key))
        return reader.key_error(*value, std::string("a private mount has no ") + key)
            .with_hint("a private directory is empty and writable; leave the key out");
    if (target.empty()) return reader.error(entry, "fs.mount without a target").with_hint("write target = \"/data\"");
    return FsOp(PrivateDirOp{.target = target});
  }
  if (type != "bind" && type != "overlay")
    return reader.error(*entry.find("type"), quoted(type) + " is no type of a mount")
        .with_hint("write \"bind\", \"overlay\" or \"private\"");

  if (source.empty()) return reader.error(entry, "fs.mount without a source").with_hint(kMountExample);
  if (source.front() != '/')
    return reader.error(*entry.find("source"), "the source " + quoted(source) + " is not absolute")
        .with_hint("write the whole path, from / on");
  if (target.empty()) target = source;
  if (type == "overlay") {
    for (const char* key : {"mode", "optional", "no_exec"})
      if (const TomlValue* value = entry.find(key))
        return reader.key_error(*value, std::string("an overlay mount has no ") + key)
            .with_hint("an overlay is writable inside and leaves the host as it was; leave the key out");
    return FsOp(OverlayOp{.lower = normalize_path(source), .target = target, .origin = origin});
  }
  if (!mode.empty() && mode != "ro" && mode != "rw")
    return reader.error(*entry.find("mode"), quoted(mode) + " is no mode of a mount").with_hint("write \"ro\" or \"rw\"");
  return FsOp(BindOp{.source = normalize_path(source),
                     .target = target,
                     .read_only = mode != "rw",
                     .no_exec = no_exec,
                     .idmap = true,
                     .optional = optional,
                     .origin = origin});
}

// ---- the document ---------------------------------------------------------------------------------------------

std::vector<std::string> all_paths() {
  std::vector<std::string> paths = {"fs.mount", "seccomp.rule"};
  for (const KeyRow& row : key_table()) paths.emplace_back(row.path);
  return paths;
}

// A part of a path that leads to keys: "limits".
bool is_section(const std::string& path) {
  for (const KeyRow& row : key_table())
    if (starts_with(row.path, path) && row.path[path.size()] == '.') return true;
  return false;
}

Error unknown_path(const Reader& reader, const TomlValue& item, const std::string& path) {
  // The section may be right and the key wrong, or the key right and its section forgotten.
  const std::string last = path.substr(path.rfind('.') + 1);
  for (const KeyRow& row : key_table())
    if (std::string_view(row.path).substr(std::string_view(row.path).find('.') + 1) == last)
      return unknown_key(reader, item, path, {}).with_hint("did you mean \"" + std::string(row.path) + "\"?");
  std::vector<std::string> candidates = all_paths();
  if (path.find('.') == std::string::npos)
    candidates = {"sandbox", "fs", "env", "limits", "seccomp", "net", "hardening"};
  return unknown_key(reader, item, path, candidates);
}

template <typename Read>
Status read_tables(const Reader& reader, const TomlValue& value, const std::string& path, size_t most, Read read) {
  if (!value.is(TomlValue::Kind::array))
    return reader.error(value, path + " is a list of tables").with_hint("write [[" + path + "]]");
  if (value.items.size() > most) return reader.error(value, path + ": more than " + std::to_string(most) + " entries");
  for (const TomlValue& item : value.items) {
    if (!item.is(TomlValue::Kind::table))
      return reader.error(item, path + " is a list of tables").with_hint("write [[" + path + "]]");
    SBX_TRY(read(item));
  }
  return {};
}

void read_table(const Reader& reader, const TomlValue& table, const std::string& prefix, ParsedPolicy& parsed);

// One text says what the policy of system calls is.
Status check_one_policy(const Reader& reader, const TomlValue& item, const PolicyLayer& layer) {
  std::vector<std::string> given;
  for (const char* path : {"seccomp.policy", "seccomp.kafel", "seccomp.kafel_file"}) {
    const auto found = layer.values.find(path);
    if (found != layer.values.end() && std::holds_alternative<std::string>(found->second.value)) given.emplace_back(path);
  }
  if (given.size() < 2) return {};
  return reader.key_error(item, given[0] + " and " + given[1] + " exclude each other").with_hint("leave one out");
}

Status read_item(const Reader& reader, const TomlValue& item, const std::string& path, ParsedPolicy& parsed) {
  PolicyLayer& layer = parsed.layer;
  if (path == "fs.mount") {
    return read_tables(reader, item, path, kMostMounts, [&](const TomlValue& entry) -> Status {
      layer.mounts.push_back(SBX_TRY(read_mount(reader, entry)));
      return {};
    });
  }
  if (path == "seccomp.rule") {
    return read_tables(reader, item, path, kMostRules, [&](const TomlValue& entry) -> Status {
      for (SyscallRule& rule : SBX_TRY(parse_syscall_rule(entry, reader.name)))
        layer.syscall_rules.push_back(std::move(rule));
      if (layer.syscall_rules.size() > kMostRules) return reader.error(entry, "more than 1024 system call rules");
      return {};
    });
  }
  if (const KeyRow* row = find_key(path); row != nullptr) {
    KeyValue value = SBX_TRY(read_value(reader, *row, item));
    if (Status status = check_value(*row, value); !status.ok())
      return status.take_error().with_origin(toml_place(reader.name, item));
    if (path == "seccomp.kafel" && std::holds_alternative<std::string>(value)) layer.kafel = SBX_TRY(read_kafel(reader, item));
    layer.values[path] = LayerValue{std::move(value), reader.origin(item)};
    if (row->path == std::string_view("seccomp.policy") || starts_with(path, "seccomp.kafel")) return check_one_policy(reader, item, layer);
    return {};
  }
  if (!is_section(path)) return unknown_path(reader, item, path);
  if (!item.is(TomlValue::Kind::table))
    return reader.error(item, quoted(path) + " is a section, not a value").with_hint("write [" + path + "]");
  read_table(reader, item, path, parsed);
  return {};
}

// A mistake in one item does not hide those in the others.
void read_table(const Reader& reader, const TomlValue& table, const std::string& prefix, ParsedPolicy& parsed) {
  for (const TomlValue& item : table.items) {
    const std::string path = prefix.empty() ? item.key : prefix + "." + item.key;
    if (Status status = read_item(reader, item, path, parsed); !status.ok()) parsed.mistakes.push_back(status.take_error());
  }
}

ParsedPolicy read_document(const TomlValue& table, const std::string& section, const std::string& name, std::string_view text) {
  const Reader reader{name, name.find('/') != std::string::npos || name.find(".toml") != std::string::npos, text};
  ParsedPolicy parsed;
  parsed.layer.name = name;
  read_table(reader, table, section, parsed);
  return parsed;
}

Result<PolicyLayer> without_mistakes(ParsedPolicy parsed) {
  if (!parsed.mistakes.empty()) return std::move(parsed.mistakes.front());
  return std::move(parsed.layer);
}

}  // namespace

ParsedPolicy parse_whole_native_toml(std::string_view text, const std::string& name) {
  Result<TomlValue> document = parse_toml(text, name);
  if (document.ok()) return read_document(document.value(), "", name, text);
  ParsedPolicy parsed;
  parsed.layer.name = name;
  parsed.mistakes.push_back(document.take_error().with_hint("sbx policy new prints a policy to start from"));
  return parsed;
}

Result<PolicyLayer> parse_native_section(const TomlValue& table, const std::string& section, const std::string& name) {
  return without_mistakes(read_document(table, section, name, ""));
}

Result<PolicyLayer> parse_native_toml(std::string_view text, const std::string& name) {
  return without_mistakes(parse_whole_native_toml(text, name));
}

}  // namespace sbx

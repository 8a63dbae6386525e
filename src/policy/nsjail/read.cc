#include "policy/nsjail/read.h"

#include <cstring>
#include <limits>
#include <vector>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::nsjail {

Result<Config> parse_config(std::string_view text, const std::string& name) {
  if (text.size() > kMaxConfigBytes) {
    return Error(ErrorKind::policy, "the configuration is larger than " + format_size(Bytes{kMaxConfigBytes})).with_origin(name);
  }
  const size_t first = text.find_first_not_of(" \t\r\n\v\f");
  if (first == std::string_view::npos) return Error(ErrorKind::policy, "the configuration is empty").with_origin(name);
  return text[first] == '{' ? parse_json(text, name) : parse_textproto(text, name);
}

Result<Config> read_config(const std::string& path) {
  Result<UniqueFd> file = sys::open(path, O_RDONLY | O_NOCTTY);
  if (!file.ok()) return Error(ErrorKind::usage, file.error().text());
  const Result<std::string> text = sys::read_all(file.value().get(), kMaxConfigBytes);
  if (!text.ok()) return Error(ErrorKind::usage, "configuration " + quoted_path(path) + ": " + text.error().text());
  return parse_config(text.value(), path);
}

std::string expected(const Field& field) {
  switch (field.type) {
    case FieldType::text:
    case FieldType::bytes: return "a string in quotes";
    case FieldType::boolean: return "true or false";
    case FieldType::u32: return "a number from 0 to 4294967295";
    case FieldType::u64: return "a number from 0 to 18446744073709551615";
    case FieldType::i32: return "a number from -2147483648 to 2147483647";
    case FieldType::i64: return "a number from -9223372036854775808 to 9223372036854775807";
    case FieldType::message: return "a message in { }";
    case FieldType::choice: break;
  }
  std::vector<std::string> names;
  for (const EnumName& choice : field.choices) names.emplace_back(choice.name);
  return "one of " + join(names, ", ");
}

namespace {

template <typename T>
bool put(Number number, void* slot) {
  constexpr uint64_t most = static_cast<uint64_t>(std::numeric_limits<T>::max());
  if (number.negative) {
    if constexpr (std::numeric_limits<T>::is_signed) {
      if (number.magnitude > most + 1) return false;
      *static_cast<T*>(slot) = static_cast<T>(uint64_t{0} - number.magnitude);
      return true;
    }
    return false;
  }
  if (number.magnitude > most) return false;
  *static_cast<T*>(slot) = static_cast<T>(number.magnitude);
  return true;
}

}  // namespace

Status store_number(const Field& field, Number number, void* slot) {
  bool fits = false;
  switch (field.type) {
    case FieldType::u32: fits = put<uint32_t>(number, slot); break;
    case FieldType::u64: fits = put<uint64_t>(number, slot); break;
    case FieldType::i32: fits = put<int32_t>(number, slot); break;
    case FieldType::i64: fits = put<int64_t>(number, slot); break;
    case FieldType::choice:
      for (const EnumName& choice : field.choices) {
        if (number.negative || static_cast<uint64_t>(choice.number) != number.magnitude) continue;
        std::memcpy(slot, &choice.number, sizeof choice.number);
        fits = true;
      }
      break;
    default: break;
  }
  if (fits) return {};
  return Error(ErrorKind::policy, std::string("'") + field.name + "' takes " + expected(field));
}

Status store_choice(const Field& field, std::string_view name, void* slot) {
  std::vector<std::string> names;
  for (const EnumName& choice : field.choices) {
    if (name == choice.name) {
      std::memcpy(slot, &choice.number, sizeof choice.number);
      return {};
    }
    names.emplace_back(choice.name);
  }
  const std::string near = did_you_mean(name, names);
  return Error(ErrorKind::policy, std::string("'") + field.name + "' takes " + expected(field) + ", not " + quoted(name))
      .with_hint(near.empty() ? "" : "did you mean " + near + "?");
}

Error unknown_field(const Schema& schema, std::string_view name, const std::string& origin) {
  std::vector<std::string> names;
  for (const Field& field : schema.fields) names.emplace_back(field.name);
  std::string near = did_you_mean(name, names);
  // Of releases before 3.0.
  if (name == "chroot_dir" || name == "is_root_rw") near = "";
  std::string hint = near.empty() ? "" : "did you mean '" + near + "'?";
  if (name == "chroot_dir") hint = "since release 3.0 it is a mount: mount { src: \"DIR\" dst: \"/\" is_bind: true }";
  if (name == "is_root_rw") hint = "since release 3.0 it is a mount at \"/\" with rw: true, or the flag --rw";
  return Error(ErrorKind::policy, "unknown field " + quoted(name) + " in " + schema.name).with_origin(origin).with_hint(hint);
}

Status check_required(const Schema& schema, const void* message, const std::string& path, const std::string& origin) {
  for (const Field& field : schema.fields) {
    if (field.label != Label::required || schema.const_origins(message).has(field.name)) continue;
    return Error(ErrorKind::policy, "'" + path + field.name + "' is missing").with_origin(origin);
  }
  return {};
}

}  // namespace sbx::nsjail

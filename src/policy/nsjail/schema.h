// The fields of nsjail's configuration as one table: name, type, default, how often, what it means. Parsers, writer,
// flags and docs/nsjail.md read it; a value is reached through the row's accessors, whatever its type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/nsjail/config.h"

namespace sbx::nsjail {

enum class FieldType { text, bytes, boolean, u32, u64, i32, i64, choice, message };
enum class Label { optional, required, repeated };
enum class Support {
  works,
  comment,      // says something to people only
  refused,      // read, and then a set-up error
  cgroup_v1,    // steers cgroup v1 only: a set-up error unless cgroup v2 is in use
};

struct EnumName {
  const char* name;
  int32_t number;
};

struct Schema;

struct Field {
  const char* name;
  FieldType type;
  Label label;
  Support support;
  const char* doc;
  std::span<const EnumName> choices;  // of FieldType::choice
  const Schema* message;              // of FieldType::message
  // The place for a value: the field itself, or a fresh last element of a repeated one. A boolean is bool, text and
  // bytes std::string, a choice int32_t of an enum (copied with memcpy).
  void* (*slot)(void* message);
  // The index'th value; nullptr when there is none.
  const void* (*read)(const void* message, size_t index);
};

struct Schema {
  const char* name;  // "MountPt"
  std::span<const Field> fields;
  Origins& (*origins)(void* message);
  const Origins& (*const_origins)(const void* message);
  const void* (*defaults)();  // a message in which nobody has set anything
  const Field* find(std::string_view field) const;
};

const Schema& config_schema();
const char* type_name(const Field& field);  // "string", "uint32", "Mode", "MountPt" …
// The default as it stands in the text format ("600", "\"/\"", "ONCE"); "" where presence is tested, and for lists.
std::string default_text(const Field& field, const Schema& schema);

// A scalar in the text format.
std::string value_text(const Field& field, const void* value);
// A configuration in the text format: what differs from the defaults, in the order of the table. Reading it gives an
// equal configuration.
std::string write_textproto(const Config& config);

}  // namespace sbx::nsjail

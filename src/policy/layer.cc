#include "policy/layer.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace sbx {
namespace {

// capabilities(7), Linux 5.9 and newer; the order of the kernel's numbers.
constexpr std::array<std::string_view, 41> kCapabilities = {
    "cap_chown",          "cap_dac_override", "cap_dac_read_search", "cap_fowner",         "cap_fsetid",
    "cap_kill",           "cap_setgid",       "cap_setuid",          "cap_setpcap",        "cap_linux_immutable",
    "cap_net_bind_service", "cap_net_broadcast", "cap_net_admin",    "cap_net_raw",        "cap_ipc_lock",
    "cap_ipc_owner",      "cap_sys_module",   "cap_sys_rawio",       "cap_sys_chroot",     "cap_sys_ptrace",
    "cap_sys_pacct",      "cap_sys_admin",    "cap_sys_boot",        "cap_sys_nice",       "cap_sys_resource",
    "cap_sys_time",       "cap_sys_tty_config", "cap_mknod",         "cap_lease",          "cap_audit_write",
    "cap_audit_control",  "cap_setfcap",      "cap_mac_override",    "cap_mac_admin",      "cap_syslog",
    "cap_wake_alarm",     "cap_block_suspend", "cap_audit_read",     "cap_perfmon",        "cap_bpf",
    "cap_checkpoint_restore"};

// execve(2): one string of the environment (MAX_ARG_STRLEN), the zero at its end included.
constexpr size_t kLongestVariable = size_t{128} << 10;
constexpr size_t kMostListElements = 1024;

Error bad(std::string message) { return Error(ErrorKind::policy, std::move(message)); }

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// RFC 1123 labels; the kernel takes 64 bytes (uts(7)).
bool is_host_name(std::string_view text) {
  if (text.empty() || text.size() > 64) return false;
  if (!is_name_character(text.front()) || !is_name_character(text.back())) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_name_character(c) || c == '-' || c == '.' || c == '_'; });
}

// Names of files that we look up: nothing that could lead out of their folder.
bool is_plain_name(std::string_view text) {
  if (text.empty() || text.size() > 64 || text.front() == '.') return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_name_character(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_call_name(std::string_view text) {
  if (!text.empty() && text.front() == '@') text.remove_prefix(1);
  if (text.empty() || text.size() > 64) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; });
}

Status check_variable_name(std::string_view name) {
  if (name.empty() || name.find('=') != std::string_view::npos || name.find('\0') != std::string_view::npos)
    return bad(quoted(name) + " is no name of an environment variable")
        .with_hint("names are not empty and hold no '='");
  return {};
}

Status check_text(const KeyRow& row, const std::string& text) {
  const std::string_view path = row.path;
  if (path == "sandbox.hostname") {
    if (!is_host_name(text))
      return bad(quoted(text) + " is no host name")
          .with_hint("use letters, digits, '-', '_' and '.', at most 64, with a letter or digit at both ends");
    return {};
  }
  if (path == "seccomp.kafel" || path == "seccomp.kafel_file") {
    if (text.empty() || text.find('\0') != std::string::npos)
      return bad(std::string(path) + (text.empty() ? " is empty" : " holds a zero byte")).with_hint("\"none\" is the value of nothing");
    return {};
  }
  if (!is_plain_name(text))
    return bad(quoted(text) + " is no name").with_hint("use letters, digits, '-', '_' and '.'");
  return {};
}

Status check_list(const KeyRow& row, const std::vector<std::string>& list) {
  const std::string_view path = row.path;
  if (list.size() > kMostListElements)
    return bad("a list of more than " + std::to_string(kMostListElements) + " elements");
  for (const std::string& element : list) {
    if (path == "env.pass") {
      SBX_TRY(check_variable_name(element));
    } else if (path == "hardening.capabilities") {
      if (std::find(kCapabilities.begin(), kCapabilities.end(), element) == kCapabilities.end()) {
        const std::vector<std::string> names(kCapabilities.begin(), kCapabilities.end());
        const std::string guess = did_you_mean(element, names);
        return bad(quoted(element) + " is no capability")
            .with_hint(guess.empty() ? "see capabilities(7); names are lower case and begin with cap_"
                                     : "did you mean \"" + guess + "\"?");
      }
    } else if (!is_call_name(element)) {
      return bad(quoted(element) + " is no name of a system call or group")
          .with_hint("write the kernel's name, such as io_uring_setup, or a group, such as @network-io");
    }
  }
  return {};
}

std::string number_text(const KeyRow& row, uint64_t number) {
  switch (row.type) {
    case KeyType::size: return format_size(Bytes{number});
    case KeyType::duration: return format_duration(Millis{static_cast<int64_t>(number)});
    case KeyType::decimal_cpus: {
      std::string text = std::to_string(number / 1000);
      if (number % 1000 == 0) return text;
      std::string fraction = std::to_string(1000 + number % 1000).substr(1);
      while (fraction.back() == '0') fraction.pop_back();
      return text + "." + fraction;
    }
    case KeyType::boolean:
    case KeyType::integer:
    case KeyType::text:
    case KeyType::text_list:
    case KeyType::choice:
    case KeyType::text_map: break;
  }
  return std::to_string(number);
}

Status check_range(const KeyRow& row, uint64_t number) {
  if (number < row.least)
    return bad(number_text(row, number) + " is too small for " + row.path + ", at least " +
               number_text(row, row.least) + " is needed")
        .with_hint("write " + number_text(row, row.least) + " or more" + (row.may_be_none ? ", or none" : ""));
  if (number > row.most)
    return bad(number_text(row, number) + " is too large for " + row.path + ", the most is " +
               number_text(row, row.most))
        .with_hint("write " + number_text(row, row.most) + " or less" + (row.may_be_none ? ", or none" : ""));
  return {};
}

// "1", "1.5" to thousandths, rounded down; at most three digits count.
Result<uint64_t> parse_cpus(std::string_view text) {
  const size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const Result<uint64_t> number = parse_integer(whole);
  if (!number.ok() || number.value() > 1'000'000) return Error(ErrorKind::usage, quoted(text) + " is no number");
  uint64_t milli = number.value() * 1000;
  if (point != std::string_view::npos) {
    const std::string_view fraction = text.substr(point + 1);
    if (fraction.empty() || fraction.size() > 9 || !parse_integer(fraction).ok())
      return Error(ErrorKind::usage, quoted(text) + " is no number");
    uint64_t scale = 100;
    for (const char digit : fraction.substr(0, 3)) {
      milli += static_cast<uint64_t>(digit - '0') * scale;
      scale /= 10;
    }
  }
  return milli;
}

Result<KeyValue> value_from_text(const KeyRow& row, std::string_view text) {
  if (row.may_be_none && text == "none") return KeyValue(Unlimited{});
  switch (row.type) {
    case KeyType::boolean:
      if (text == "true") return KeyValue(true);
      if (text == "false") return KeyValue(false);
      return Error(ErrorKind::usage, quoted(text) + " is neither true nor false");
    case KeyType::integer: return KeyValue(SBX_TRY(parse_integer(text)));
    case KeyType::decimal_cpus: return KeyValue(SBX_TRY(parse_cpus(text)));
    case KeyType::size: return KeyValue(SBX_TRY(parse_size(text)));
    case KeyType::duration: return KeyValue(SBX_TRY(parse_duration(text)));
    case KeyType::text:
    case KeyType::choice: return KeyValue(std::string(text));
    case KeyType::text_list: return KeyValue(std::vector<std::string>{std::string(text)});
    case KeyType::text_map: {
      const size_t equals = text.find('=');
      if (equals == std::string_view::npos || equals == 0)
        return Error(ErrorKind::usage, quoted(text) + " is not of the form NAME=VALUE");
      return KeyValue(std::map<std::string, std::string>{
          {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))}});
    }
  }
  return Error(ErrorKind::internal, "a key type without a reader");
}

// "--memory 512M": the row's example as it is written after its flag.
std::string flag_example(const KeyRow& row) {
  std::string text = row.example;
  std::erase_if(text, [](char c) { return c == '"' || c == '[' || c == ']' || c == '{' || c == '}'; });
  return std::string(row.flag != nullptr ? row.flag : row.path) + " " + std::string(trim(text));
}

}  // namespace

std::string expected_value(const KeyRow& row) {
  std::string text;
  switch (row.type) {
    case KeyType::boolean: text = "true or false"; break;
    case KeyType::integer: text = "a whole number"; break;
    case KeyType::decimal_cpus: text = "a number of processors"; break;
    case KeyType::size: text = "a size"; break;
    case KeyType::duration: text = "a duration"; break;
    case KeyType::text: text = "a text"; break;
    case KeyType::text_list: text = "a list of texts"; break;
    case KeyType::choice:
      for (size_t i = 0; i < row.choices.size(); ++i) {
        if (i > 0) text += i + 1 == row.choices.size() ? " or " : ", ";
        text += "\"" + row.choices[i] + "\"";
      }
      return text;
    case KeyType::text_map: text = "a table of texts"; break;
  }
  if (row.type != KeyType::boolean) text += std::string(", such as ") + row.example;
  if (row.may_be_none) text += ", or \"none\"";
  return text;
}

std::string format_value(const KeyRow& row, const KeyValue& value) {
  if (std::holds_alternative<Unlimited>(value)) return "none";
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* number = std::get_if<uint64_t>(&value)) return number_text(row, *number);
  if (const auto* bytes = std::get_if<Bytes>(&value)) return format_size(*bytes);
  if (const auto* millis = std::get_if<Millis>(&value)) return format_duration(*millis);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return join(*list, ", ");
  std::vector<std::string> entries;
  for (const auto& [name, text] : std::get<std::map<std::string, std::string>>(value))
    entries.push_back(name + "=" + text);
  return join(entries, ", ");
}

Status check_value(const KeyRow& row, const KeyValue& value) {
  if (std::holds_alternative<Unlimited>(value)) {
    if (row.may_be_none) return {};
    return bad(std::string(row.path) + " cannot be \"none\"").with_hint("write " + expected_value(row));
  }
  switch (row.type) {
    case KeyType::boolean:
      if (std::string_view(row.path) == "hardening.no_new_privs" && !std::get<bool>(value))
        return bad("hardening.no_new_privs cannot be switched off")
            .with_hint("leave the key out: set-uid programs never give rights in a sandbox");
      return {};
    case KeyType::integer:
    case KeyType::decimal_cpus: return check_range(row, std::get<uint64_t>(value));
    case KeyType::size: return check_range(row, std::get<Bytes>(value).value);
    case KeyType::duration: return check_range(row, static_cast<uint64_t>(std::get<Millis>(value).value));
    case KeyType::text: return check_text(row, std::get<std::string>(value));
    case KeyType::text_list: return check_list(row, std::get<std::vector<std::string>>(value));
    case KeyType::choice: {
      const std::string& text = std::get<std::string>(value);
      if (std::find(row.choices.begin(), row.choices.end(), text) != row.choices.end()) return {};
      const std::string guess = did_you_mean(text, row.choices);
      return bad(quoted(text) + " is no value of " + row.path)
          .with_hint(guess.empty() ? "write " + expected_value(row) : "did you mean \"" + guess + "\"?");
    }
    case KeyType::text_map:
      for (const auto& [name, text] : std::get<std::map<std::string, std::string>>(value)) {
        SBX_TRY(check_variable_name(name));
        if (text.find('\0') != std::string::npos) return bad("the value of " + quoted(name) + " holds a zero byte");
        if (name.size() + text.size() + 2 > kLongestVariable)
          return bad("the variable " + quoted(name) + " is longer than the kernel's 128K");
      }
      return {};
  }
  return Error(ErrorKind::internal, "a key type without a check");
}

Status set_from_text(PolicyLayer& layer, std::string_view path, std::string_view text, const std::string& origin) {
  const bool from_flag = starts_with(origin, "flag ");
  const ErrorKind kind = from_flag ? ErrorKind::usage : ErrorKind::policy;
  const KeyRow* row = find_key(path);
  if (row == nullptr) return Error(kind, "unknown key " + quoted(path)).with_origin(origin);

  Result<KeyValue> value = value_from_text(*row, text);
  if (!value.ok()) {
    const Error problem = value.take_error();
    return Error(kind, problem.text()).with_origin(origin).with_hint(
        "for example " + flag_example(*row) + (row->may_be_none ? ", or none" : ""));
  }
  if (const Status status = check_value(*row, value.value()); !status.ok()) {
    // The kind tells who asked; message and hint stay.
    return Error(kind, status.error().text()).with_origin(origin).with_hint(status.error().hint());
  }

  const auto [place, inserted] = layer.values.try_emplace(std::string(path), LayerValue{value.value(), origin});
  if (inserted) return {};
  if (row->type == KeyType::text_list) {
    auto& list = std::get<std::vector<std::string>>(place->second.value);
    list.push_back(std::get<std::vector<std::string>>(value.value()).front());
    return {};
  }
  if (row->type == KeyType::text_map) {
    auto& map = std::get<std::map<std::string, std::string>>(place->second.value);
    for (auto& [name, entry] : std::get<std::map<std::string, std::string>>(value.value())) map[name] = entry;
    return {};
  }
  place->second = LayerValue{value.take(), origin};
  return {};
}

}  // namespace sbx

// Kafel policies nobody would write, and arguments near every number in them.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace kafel_random {

// A call with what its arguments are called, widths of 4, 8 and 2 among them.
struct Call {
  const char* name;
  std::vector<const char*> arguments;
};

inline const std::vector<Call>& calls() {
  static const std::vector<Call> all = {
      {"read", {"fd", "buf", "count"}},
      {"mmap", {"addr", "len", "prot", "flags", "fd", "off"}},
      {"mprotect", {"start", "len", "prot"}},
      {"openat", {"dfd", "filename", "flags", "mode"}},
      {"socket", {"family", "type", "protocol"}},
      {"ioctl", {"fd", "cmd", "arg"}},
      {"clone", {"clone_flags", "newsp"}},
      {"lseek", {"fd", "offset", "whence"}},
      {"prctl", {"option", "arg2", "arg3", "arg4", "arg5"}},
      {"newfstat", {"fd", "statbuf"}},
      {"getpid", {}},
  };
  return all;
}

class Policies {
 public:
  explicit Policies(unsigned seed) : random_(seed) {}

  // Always lets a program start. Constants of the last text: numbers().
  std::string text() {
    numbers_ = {0, 1, 0xffffffff, 0x100000000, ~uint64_t{0}};
    policies_ = 0;
    std::string text = "#define ONE 1\n#define HIGH 0x100000001\n#define SYS_NUM 700\n";
    numbers_.insert(numbers_.end(), {0x100000001});
    for (unsigned i = pick(4); i > 0; --i) {
      text += "POLICY p" + std::to_string(policies_) + " {" + entries() + "}\n";
      ++policies_;
    }
    text += entries();
    // Juxtaposed, after a comment that holds a word of the language.
    text += " /* DEFAULT */ " + entries() + "\nALLOW { execve, exit_group } // USE\n";
    if (pick(4) != 0) text += "DEFAULT " + action() + "\n";
    return text;
  }

  // Six arguments, each near a number that the text compares with, or about as far from all as can be.
  std::array<uint64_t, 6> arguments() {
    std::array<uint64_t, 6> all{};
    for (uint64_t& each : all) {
      const uint64_t number = numbers_[pick(static_cast<unsigned>(numbers_.size()))];
      switch (pick(9)) {
        case 0: each = number - 1; break;
        case 1: each = number + 1; break;
        case 2: each = number | (uint64_t{1} << 32); break;
        case 3: each = number & 0xffffffff; break;
        case 4: each = number << 32; break;
        case 5: each = uint64_t{1} << pick(64); break;
        case 6: each = (uint64_t{random_()} << 32) | random_(); break;
        default: each = number; break;
      }
    }
    if (pick(3) == 0) all[1 + pick(5)] = all[0];
    return all;
  }

  unsigned pick(unsigned below) { return static_cast<unsigned>(random_() % below); }

 private:
  std::string entries() {
    std::string text;
    for (unsigned i = 1 + pick(4); i > 0; --i) {
      if (!text.empty()) text += ", ";
      if (policies_ > 0 && pick(3) == 0) {
        text += "USE p" + std::to_string(pick(policies_));
        continue;
      }
      text += action() + " {";
      const unsigned rules = pick(5);
      for (unsigned r = 0; r < rules; ++r) text += (r > 0 ? ", " : " ") + rule();
      text += " }";
    }
    return text;
  }

  std::string action() {
    switch (pick(9)) {
      case 0: return "ALLOW";
      case 1: return "LOG";
      case 2: return "KILL";
      case 3: return "DENY";
      case 4: return "KILL_PROCESS";
      case 5: return "ERRNO(" + std::to_string(pick(200)) + ")";
      case 6: return "TRAP(0x" + std::to_string(pick(90)) + ")";
      case 7: return "TRACE(0" + std::to_string(pick(8)) + ")";
      default: return "USER_NOTIF";
    }
  }

  std::string rule() {
    const Call& call = calls()[pick(static_cast<unsigned>(calls().size()))];
    names_.assign(call.arguments.begin(), call.arguments.end());
    std::string text = call.name;
    if (pick(6) == 0) {
      // By number, or a call with names of the rule's own, which are all 64 bits wide.
      constexpr const char* kCalls[] = {"SYSCALL[0]", "SYSCALL[9]", "SYSCALL[600]", "SYSCALL[-1]", "SYSCALL[1073741900]", "SYS_NUM", "read"};
      text = kCalls[pick(7)];
      names_.clear();
      if (pick(2) == 0) {
        names_ = {"a", "b", "c"};
        text += "(a, b, c)";
      } else if (text == "read") {
        text += "()";
      }
    }
    if (pick(12) == 0) text += " ON arm64";
    if (pick(12) == 0 && text.find(" ON ") == std::string::npos) text += " ON {amd64, AARCH64}";
    if (pick(4) != 0) text += " { " + condition(pick(4)) + " }";
    return text;
  }

  std::string condition(unsigned depth) {
    if (depth == 0) return comparison();
    switch (pick(7)) {
      case 0: return condition(depth - 1) + " && " + condition(depth - 1);
      case 1: return condition(depth - 1) + " || " + condition(depth - 1);
      case 2: return condition(depth - 1) + ", " + condition(depth - 1);
      case 3: return "!" + condition(depth - 1);
      case 4: return "!(" + condition(depth - 1) + ")";
      case 5: return "(" + condition(depth - 1) + ") && (" + condition(depth - 1) + ")";
      default: return comparison();
    }
  }

  std::string comparison() {
    constexpr const char* kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
    return bits(pick(3)) + " " + kOperators[pick(6)] + " " + bits(pick(6) == 0 ? 2 : 0);
  }

  std::string bits(unsigned depth) {
    if (depth > 0) {
      const char* op = pick(2) == 0 ? " & " : " | ";
      const std::string left = bits(depth - 1);
      const std::string right = bits(depth - 1);
      return pick(2) == 0 ? "(" + left + op + right + ")" : left + op + right;
    }
    if (!names_.empty() && pick(2) == 0) return names_[pick(static_cast<unsigned>(names_.size()))];
    return number();
  }

  std::string number() {
    uint64_t value = 0;
    std::string text;
    switch (pick(9)) {
      case 0: return "ONE";
      case 1: return "HIGH";
      case 2: value = pick(8), text = std::to_string(value); break;
      case 3: value = uint64_t{1} << pick(64), text = std::to_string(value); break;
      case 4: value = 0xffffffff, text = "0xffffffff"; break;
      case 5: value = ~uint64_t{0}, text = "-1"; break;
      case 6: value = 6, text = "0b110"; break;
      case 7: value = 8 * 7 + 7, text = "077"; break;
      default: value = (uint64_t{random_()} << pick(32)), text = std::to_string(value); break;
    }
    numbers_.push_back(value);
    return text;
  }

  std::mt19937 random_;
  unsigned policies_ = 0;
  std::vector<std::string> names_;
  std::vector<uint64_t> numbers_;
};

}  // namespace kafel_random

// Man pages in man(7), from the same pages and tables as --help.
#include <string_view>

#include "base/text.h"
#include "cli/command.h"
#include "cli/page.h"
#include "policy/layer.h"
#include "policy/reference.h"
#include "version.h"

namespace sbx::cli {
namespace {

// Text in a man page: nothing of it is taken for a request, and a minus stays one that can be pasted.
std::string roff(std::string_view text) {
  std::string result;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') result += "\\e";
    else if (c == '-') result += "\\-";
    else if (c == '`') result += "\\(ga";
    else if (c == '^') result += "\\(ha";
    else if (c == '~') result += "\\(ti";
    else result += c;
    line_start = c == '\n';
  }
  return result;
}
std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string head(const std::string& name, int section, const std::string& summary) {
  std::string upper = name;
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return ".TH " + roff(upper) + " " + std::to_string(section) + " \"\" \"sbx " SBX_VERSION "\"\n.SH NAME\n" + roff(name) + " \\- " + roff(summary) + "\n";
}

// As it stands, without filling.
std::string verbatim(const std::string& text) { return ".nf\n" + roff(text) + "\n.fi\n"; }

// Lines that begin with spaces are a list and stay as they are; the rest is filled.
std::string paragraphs(const std::string& text) {
  std::string result;
  bool listing = false;
  bool fresh = true;  // nothing of a paragraph is there yet
  for (const std::string& line : split(text, '\n')) {
    const bool indented = starts_with(line, "  ");
    if (listing && !indented) result += ".fi\n";
    if ((line.empty() || listing != indented) && !fresh) {
      result += ".PP\n";
      fresh = true;
    }
    if (indented && !listing) result += ".nf\n";
    listing = indented;
    if (line.empty()) continue;
    result += roff(line) + "\n";
    fresh = false;
  }
  return result + (listing ? ".fi\n" : "");
}

std::string usage_lines(const std::string& usage) {
  std::string text = usage;
  text.erase(0, std::string_view("usage: ").size());
  std::string result;
  for (const std::string& line : split(text, '\n')) result += (result.empty() ? "" : "\n.br\n") + roff(trim(line));
  return result + "\n";
}

std::string options_of(const Page& page, const char* heading) {
  std::string text;
  std::string group;
  for (const Option& option : page.options) {
    if (option.group != group) {
      group = option.group;
      text += std::string(heading) + " " + roff(group) + "\n";
    }
    text += ".TP\n";
    const std::string value = option.metavar.empty() ? "" : " " + italic(option.metavar);
    if (option.letter != 0) text += bold(std::string("-") + option.letter) + (option.name.empty() ? value : ", ");
    if (!option.name.empty()) text += bold("--" + option.name) + value;
    text += "\n" + roff(option.doc) + (option.standard.empty() ? "" : roff(" (default " + option.standard + ")")) + ".\n";
  }
  return text;
}

std::string examples_of(const Page& page) {
  std::string text;
  for (const Example& example : page.examples) text += (text.empty() ? "" : "\n") + example.line;
  return text;
}

std::string dashed(std::string name) {
  for (char& c : name)
    if (c == ' ') c = '-';
  return "sbx-" + name;
}

constexpr char kStatus[] =
    ".SH EXIT STATUS\n"
    ".TP\nthe program's own\nIt ended by itself.\n"
    ".TP\n124\nThe wall time or the CPU time was used up.\n"
    ".TP\n137\nThe memory or the output limit was reached.\n"
    ".TP\n159\nA forbidden system call ended the program.\n"
    ".TP\n128+N\nSignal N ended the program, or sbx.\n"
    ".TP\n125\nThe sandbox could not be set up; nothing ran.\n"
    ".TP\n126, 127\nNot executable; command or toolchain not found.\n"
    ".TP\n2\nWrong usage: an option, a file, a policy.\n"
    ".PP\nA program can return any of these itself. The verdict of\n\\fB\\-\\-result\\fR\ncannot be forged.\n";

}  // namespace

std::string man_text(const Command& command, const Page& page, std::span<const Command> verbs) {
  std::string text = head(dashed(command.name), 1, command.summary) + ".SH SYNOPSIS\n" + usage_lines(page.usage) + ".SH DESCRIPTION\n" + paragraphs(page.about);
  if (verbs.empty()) {
    text += ".SH OPTIONS\n" + options_of(page, ".SS");
  }
  std::string examples = verbs.empty() ? examples_of(page) : "";
  for (const Command& verb : verbs) {
    const Result<Page> own = verb.page();
    if (!own.ok()) continue;  // a command line without defaults: the shipped default policy is always there
    text += ".SH " + roff(verb.name) + "\n" + usage_lines(own.value().usage) + ".PP\n" + paragraphs(own.value().about) + options_of(own.value(), ".SS");
    examples += (examples.empty() ? "" : "\n") + examples_of(own.value());
  }
  text += ".SH EXAMPLES\n" + verbatim(examples);
  if (command.run == run_command || command.run == exec_command) text += kStatus;
  return text + ".SH SEE ALSO\n.BR sbx (1),\n.BR sbx\\-policy (5)\n";
}

std::string man_overview(std::span<const Command> commands) {
  std::string text = head("sbx", 1, "run programs that nobody should trust, in a sandbox") + ".SH SYNOPSIS\n.B sbx\n" + italic("COMMAND") + " [" + italic("OPTIONS") +
                     "] ...\n.SH DESCRIPTION\n" +
                     "sbx runs a program that you do not trust on an ordinary Linux machine: no daemon, no container image, no root.\n"
                     "The program sees the machine's own interpreters and compilers read\\-only, a private place to write, no network, and\n"
                     "nothing of yours; it ends at a limit; and what happened is reported.\n.SH COMMANDS\n";
  std::string also;
  for (const Command& command : commands) {
    text += ".TP\n.BR " + roff(dashed(command.name)) + " (1)\n" + roff(command.summary) + "\n";
    also += ".BR " + roff(dashed(command.name)) + " (1),\n";
  }
  text += ".SH OPTIONS\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nAn overview; after a command its options.\n"
          ".TP\n\\fB\\-V\\fR, \\fB\\-\\-version\\fR\nThe version.\n";
  text += kStatus;
  text += ".SH ENVIRONMENT\n"
          ".TP\nXDG_CONFIG_HOME\nYour own policies and languages lie in its sbx/policies (default: the .config of your home).\n"
          ".TP\nXDG_CACHE_HOME\nWhat was found out about interpreters is kept in its sbx (default: the .cache of your home).\n"
          ".TP\nPATH, VIRTUAL_ENV, version managers' variables\nWhich interpreter is taken.\n"
          ".SH FILES\n.TP\n\\(ti/.config/sbx/policies/*.toml\nYour own policies.\n"
          ".TP\n\\(ti/.config/sbx/policies/lang/*.toml\nYour own languages.\n"
          ".SH EXAMPLES\n";
  return text + verbatim("sbx run main.py\nsbx run --workspace . --memory 2G tests/run.py\necho 'print(6*7)' | sbx run --lang python\nsbx exec -- sort numbers.txt") +
         ".SH SEE ALSO\n" + also + ".BR sbx\\-policy (5)\n";
}

std::string man_policy_format() {
  std::string text = head("sbx-policy", 5, "policies of sbx: what a payload may do") +
                     ".SH DESCRIPTION\n"
                     "A policy is a TOML file. It names only what it changes: every key has a value in the built\\-in default. Later layers win, key by\n"
                     "key: the default, what the language sets, the policies of\n\\fB\\-\\-policy\\fR\nin their order, the command line.\n.PP\n"
                     "Sizes are bytes, or a text with K, M, G, T (powers of 1024). Durations are seconds, or a text with ms, s, m, h. An unknown\n"
                     "key, a wrong type or a value out of range stops the run and is named with line and column.\n";
  std::string section;
  for (const KeyRow& row : key_table()) {
    const std::string path = row.path;
    const std::string here = path.substr(0, path.find('.'));
    if (here != section) {
      section = here;
      text += ".SH [" + roff(section) + "]\n";
    }
    text += ".TP\n" + bold(path.substr(path.find('.') + 1)) + " = " + italic(key_type_name(row.type)) + (row.may_be_none ? " or \"none\"" : "") + "\n" + roff(row.doc) + ".\n";
    if (const std::string range = key_range(row); !range.empty()) text += roff(range) + ".\n";
    if (row.flag != nullptr) text += "Flag: " + bold(row.flag) + " " + italic(row.metavar) + ".\n";
    text += "Example: " + roff(path.substr(path.find('.') + 1) + " = " + row.example) + "\n";
  }
  text += ".SH MOUNTS\nMounts are put up in order, after those of earlier layers.\n.PP\n" +
          verbatim(
              "[[fs.mount]]\n"
              "source = \"/srv/data\"      # absolute; links are resolved\n"
              "target = \"/data\"          # inside; the same path when left out\n"
              "mode = \"ro\"               # or \"rw\"\n"
              "optional = false          # true: nothing happens where the source is missing\n"
              "no_exec = false\n"
              "type = \"bind\"             # or \"overlay\" (writable, the host stays as it was), \"private\" (empty, writable)") +
          ".SH SYSTEM CALL RULES\nOne answer for calls whose arguments pass all tests; the first rule that holds decides.\n.PP\n" +
          verbatim(
              "[[seccomp.rule]]\n"
              "calls = [\"socket\"]\n"
              "when = [{ arg = 0, bits = 32, equals = 16 }]\n"
              "answer = \"EACCES\"         # or allow, deny, log, kill") +
          ".SH FILES\n.TP\n\\(ti/.config/sbx/policies/NAME.toml\nWhat \\fB\\-\\-policy\\fR NAME finds before the shipped policies.\n"
          ".SH EXAMPLES\n" +
          verbatim("sbx policy new ./ci.toml\nsbx policy check ./ci.toml\nsbx policy explain ./ci.toml\nsbx run --policy ./ci.toml main.py") +
          ".SH SEE ALSO\n.BR sbx (1),\n.BR sbx\\-policy (1)\n";
  return text;
}

}  // namespace sbx::cli

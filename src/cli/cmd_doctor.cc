// sbx doctor: what this host gives a sandbox, what sbx does meanwhile, what mends it.
#include <unistd.h>

#include <sys/wait.h>

#include "base/sys.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "runtime/doctor.h"
#include "version.h"

namespace sbx::cli {
namespace {

using runtime::Diagnosis;
using runtime::Finding;
using runtime::FindingState;
using runtime::HostReport;

constexpr int kNotMet = 1;

struct DoctorOptions {
  bool json = false, help = false, verbose = false, list = false, fix = false, install = false;
  std::vector<std::string> require;
};

std::vector<Option> doctor_options(DoctorOptions& out) {
  return {
      flag_option("Options", 0, "json", "print JSON (docs/schema/doctor-v1.json)", out.json),
      flag_option("Options", 'v', "verbose", "every need, with how it was tried", out.verbose),
      flag_option("Options", 0, "list", "the names that --require takes; tries nothing", out.list),
      flag_option("Options", 'h', "help", "this page", out.help),
      {"For scripts", 0, "require", "NAME,...",
       "status 1 unless these are all ok, each that is not named on stderr; `all`: everything; lang:NAME: a language", "",
       [&out](const std::string& value) -> Status {
         for (const std::string& name : split(value, ',')) {
           if (name.empty()) return Error(ErrorKind::usage, "--require names nothing").with_hint("sbx doctor --list names what there is");
           out.require.push_back(name);
         }
         return {};
       },
       ValueKind::choice, runtime::finding_names()},
      flag_option("Mending", 0, "fix",
                  "print an AppArmor profile that lets this binary make user namespaces; --fix=install, as root, installs and loads it",
                  out.fix),
  };
}

// ---- the profile -----------------------------------------------------------------------------------------------

// Whoever may replace the program, or a directory above it, would be given what the profile gives.
Status only_root_may_replace(const std::string& path) {
  for (std::string at = path;; at = dir_name(at)) {
    const struct stat info = SBX_TRY(sys::stat(at));
    const bool others = (info.st_mode & 022) != 0 && !(S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0);
    if (info.st_uid != 0 || others) {
      return Error(ErrorKind::permission, "not only root can replace '" + printable(at) + "', and the profile would go to whoever does")
          .with_hint("install sbx first (sudo make install), then: sudo /usr/local/bin/sbx doctor --fix=install");
    }
    if (at == "/") return {};
  }
}

Status load_profile() {
  const pid_t pid = ::fork();
  if (pid < 0) return Error::from_errno(errno, "start apparmor_parser");
  if (pid == 0) {
    const char* const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", nullptr};
    for (const char* program : {"/usr/sbin/apparmor_parser", "/sbin/apparmor_parser"}) {
      ::execle(program, "apparmor_parser", "--replace", runtime::kAppArmorProfilePath, nullptr, environment);
    }
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    return Error(ErrorKind::not_found, "apparmor_parser is not installed").with_hint("sudo apt-get install apparmor");
  }
  return Error(ErrorKind::system, std::string("apparmor_parser does not take the profile ") + runtime::kAppArmorProfilePath);
}

Status install_profile(const std::string& path, const std::string& profile) {
  if (::geteuid() != 0) {
    return Error(ErrorKind::permission, "--fix=install needs root").with_hint("sudo " + shell_quote(path) + " doctor --fix=install");
  }
  SBX_TRY(only_root_may_replace(path));
  if (!sys::stat("/etc/apparmor.d/abi/4.0").ok()) {
    return Error(ErrorKind::unsupported, "this host has no AppArmor 4, and so no rule that a profile could lift")
        .with_hint("sbx doctor says what else is in the way");
  }
  SBX_TRY(write_file_atomically(runtime::kAppArmorProfilePath, profile, 0644));
  return load_profile();
}

int fix(const DoctorOptions& options) {
  Result<std::string> self = sys::realpath("/proc/self/exe");
  if (!self.ok()) {
    say_error(self.error());
    return exit_code_for(self.error().kind());
  }
  const std::string profile = runtime::apparmor_profile(self.value());
  if (profile.empty()) {
    say_error(Error(ErrorKind::unsupported, "the path '" + printable(self.value()) + "' cannot stand in an AppArmor profile")
                  .with_hint("install sbx under a plain path: sudo make install"));
    return exit_code_for(ErrorKind::unsupported);
  }
  if (!options.install) {
    const int status = print_or_fail(profile);
    if (runtime::read_namespace_knobs().apparmor_restrict != 1) {
      say("AppArmor does not restrict user namespaces here: the profile is not needed");
    } else {
      say(std::string("to install it: sudo ") + shell_quote(self.value()) + " doctor --fix=install   (writes " +
          runtime::kAppArmorProfilePath + " and loads it)");
    }
    return status;
  }
  if (Status installed = install_profile(self.value(), profile); !installed.ok()) {
    say_error(installed.error());
    return exit_code_for(installed.error().kind());
  }
  return print_or_fail(std::string(runtime::kAppArmorProfilePath) + " is installed and loaded; to take it back: sudo apparmor_parser --remove " +
                       runtime::kAppArmorProfilePath + " && sudo rm " + runtime::kAppArmorProfilePath + "\n");
}

// ---- output ----------------------------------------------------------------------------------------------------

std::string as_json(const HostReport& report, const Diagnosis& diagnosis, const std::vector<std::string>& required,
                    const std::vector<std::string>& unmet) {
  const auto optional = [](const std::string& text) { return text.empty() ? std::string("null") : json_text(text); };
  const auto boolean = [](bool value) { return value ? "true" : "false"; };
  const auto findings = [&](const std::vector<Finding>& all) {
    std::string text = "[";
    for (const Finding& f : all) {
      text += text.back() == '[' ? "\n" : ",\n";
      text += "    {\"name\": " + json_text(f.name) + ", \"state\": " + json_text(finding_state_name(f.state)) +
              ", \"severity\": " + json_text(severity_name(f.severity)) + ",\n     \"title\": " + json_text(f.title) +
              ", \"tried\": " + json_text(f.tried) + ",\n     \"found\": " + json_text(f.found) +
              ",\n     \"meanwhile\": " + optional(f.meanwhile) + ",\n     \"mend\": " + optional(f.mend) + "}";
    }
    return text + "\n  ]";
  };
  return "{\n  \"schema\": \"sbx-doctor\",\n  \"version\": 1,\n  \"sbx_version\": " + json_text(SBX_VERSION) +
         ",\n  \"works\": " + boolean(diagnosis.works) + ",\n  \"verdict\": " + json_text(diagnosis.verdict) +
         ",\n  \"host\": {\"kernel\": " + json_text(report.kernel) + ", \"arch\": " + json_text(report.arch) +
         ", \"uid\": " + std::to_string(report.uid) + ", \"container\": " + optional(report.knobs.container) +
         ", \"wsl\": " + boolean(report.wsl) + ", \"gvisor\": " + boolean(report.gvisor) +
         ", \"run_us\": " + (report.run_ok ? std::to_string(report.run_us) : "null") + "},\n  \"required\": " + json_list(required) +
         ",\n  \"unmet\": " + json_list(unmet) + ",\n  \"findings\": " + findings(diagnosis.findings) +
         ",\n  \"languages\": " + findings(diagnosis.languages) + "\n}\n";
}

// Two spaces in front, so that what belongs to a row stands below it.
std::string below(const char* label, const std::string& text) {
  return text.empty() ? "" : std::string("    ") + label + printable(text, 2000) + "\n";
}

std::string as_text(const Diagnosis& diagnosis, bool verbose) {
  std::string text;
  std::string fine;
  std::vector<std::vector<std::string>> rows;
  for (const Finding& f : diagnosis.findings) {
    const bool shown = verbose || f.state != FindingState::ok || f.severity == runtime::Severity::fact ||
                       f.name == "kernel" || f.name == "sandbox" || f.name == "toolchains" || f.name == "cgroup";
    if (!shown) {
      fine += (fine.empty() ? "" : ", ") + f.name;
      continue;
    }
    std::string state = finding_state_name(f.state);
    state.append(state.size() < 9 ? 9 - state.size() : 0, ' ');
    std::string name = f.name;
    name.append(name.size() < 20 ? 20 - name.size() : 0, ' ');
    text += state + " " + name + " " + printable(f.found, 2000) + "\n";
    if (verbose) text += below("tried:     ", f.tried);
    text += below("meanwhile: ", f.meanwhile) + below("to mend:   ", f.mend);
  }
  if (!fine.empty()) text += "ok        " + fine + "\n";
  return text + "\n" + printable(diagnosis.verdict, 2000) + "\n";
}

}  // namespace

Result<Page> doctor_page() {
  DoctorOptions unused;
  return Page{"usage: sbx doctor [--json] [--require NAME,...] [--fix[=install]]",
              "Tries what a sandbox needs on this very host, and says what was found, what sbx does\n"
              "meanwhile and the command or setting that mends it. Changes nothing, but for --fix=install.\n"
              "Status: 0 sandboxes work here; 1 they do not, or something required is not ok; 2 wrong\n"
              "usage; 125 inside a sandbox of sbx.",
              doctor_options(unused),
              {{"Options", "sbx doctor -v"},
               {"For scripts", "sbx doctor --require sandbox,lang:python && make check"},
               {"Mending", "sudo sbx doctor --fix=install"}}};
}

int doctor_command(const Invocation& invocation) {
  DoctorOptions wanted;
  std::vector<std::string> words = invocation.arguments();
  for (std::string& word : words) {
    if (word != "--fix=install") continue;
    word = "--fix";
    wanted.install = true;
  }
  Result<Parsed> parsed = parse_options(doctor_options(wanted), words);
  if (parsed.ok() && !parsed.value().rest.empty()) {
    parsed = Error(ErrorKind::usage, "sbx doctor takes no argument '" + printable(parsed.value().rest[0]) + "'");
  }
  if (!parsed.ok()) return fail_usage("doctor", parsed.error());
  if (wanted.help) return show_help(doctor_page);
  if (wanted.list) {
    std::string names;
    for (const std::string& name : runtime::finding_names()) names += name + "\n";
    return print_or_fail(names);
  }
  if (wanted.fix) return fix(wanted);
  if (runtime::is_inside_sbx()) {
    say("this is the inside of an sbx sandbox, where no second one can be made: run sbx doctor outside");
    return exit_code_for(ErrorKind::unsupported);
  }
  runtime::Observer observer;
  if (can_show_progress()) observer.progress = show_progress;
  const HostReport report = runtime::probe_report(runtime::probe_host(), observer);
  const Diagnosis diagnosis = runtime::diagnose(report);
  const Result<std::vector<std::string>> unmet = runtime::unmet_requirements(diagnosis, wanted.require);
  if (!unmet.ok()) {
    say_error(unmet.error());
    return exit_code_for(unmet.error().kind());
  }
  const int printed = wanted.json ? print_or_fail(as_json(report, diagnosis, wanted.require, unmet.value()))
                                  : print_or_fail(as_text(diagnosis, wanted.verbose));
  for (const std::string& line : unmet.value()) say("required, but " + line);
  if (!unmet.value().empty() || (wanted.require.empty() && !diagnosis.works)) return kNotMet;
  return printed;
}

}  // namespace sbx::cli

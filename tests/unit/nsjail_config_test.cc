#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "policy/kafel/kafel.h"
#include "policy/nsjail/flags.h"
#include "policy/nsjail/lower.h"
#include "policy/nsjail/read.h"
#include "policy/nsjail/reference.h"
#include "policy/nsjail/review.h"
#include "policy/nsjail/schema.h"

using namespace sbx;
using namespace sbx::nsjail;

namespace {

Config parsed(const std::string& text) {
  Result<Config> config = parse_config(text, "j.cfg");
  REQUIRE_MESSAGE(config.ok(), config.error().text());
  return config.take();
}
std::string failure(const std::string& text) {
  const Result<Config> config = parse_config(text, "j.cfg");
  REQUIRE_FALSE_MESSAGE(config.ok(), text);
  CHECK(config.error().kind() == ErrorKind::policy);
  return config.error().text();
}
bool fails(const std::string& text) { return !parse_config(text, "j.cfg").ok(); }

CommandLine line(const std::vector<std::string>& words, const std::string& file = "") {
  Result<CommandLine> parsed = parse_command_line(words, [&](const std::string& path) { return parse_config(file, path); });
  REQUIRE_MESSAGE(parsed.ok(), parsed.error().text());
  return parsed.take();
}
std::string wrong(const std::vector<std::string>& words) {
  const Result<CommandLine> parsed = parse_command_line(words, [](const std::string& path) { return parse_config("# nothing", path); });
  REQUIRE_FALSE(parsed.ok());
  return parsed.error().text() + " | " + parsed.error().hint();
}

}  // namespace

TEST_CASE("the text format: comments, separators, both kinds of messages and lists") {
  const Config config = parsed(
      "# a comment\r\n"
      "name: 'one' \" and\"  # between\n"
      "   \"\\ttwo\"\n"
      "description: [\"a\", 'b'], description: \"c\";\n"
      "mode: RERUN  time_limit:0x10,max_cpus:010;rlimit_as:1 cwd:\"/\"hostname:\"h\"\n");
  CHECK(config.name == "one and\ttwo");
  CHECK(config.description == std::vector<std::string>{"a", "b", "c"});
  CHECK(config.mode == Mode::rerun);
  CHECK(config.time_limit == 16);
  CHECK(config.max_cpus == 8);
  CHECK(config.hostname == "h");
  CHECK(fails("rlimit_as:1cwd:\"/\""));
}

TEST_CASE("a field given twice is refused, wherever it stands") {
  CHECK(failure("cwd: \"/\"\ncwd: \"/x\"") == "j.cfg:2:1: 'cwd' is given twice");
  CHECK(failure("exec_bin { path: \"a\" } exec_bin { path: \"b\" }") == "j.cfg:1:24: 'exec_bin' is given twice");
  CHECK(failure("mount { dst: \"/\" }\nmount { dst: \"/\"\n  dst: \"/\" }") == "j.cfg:3:3: 'mount[1].dst' is given twice");
}

TEST_CASE("lists and messages may be written in every way that exists") {
  const Config config = parsed(
      "mount: [ { dst: \"/a\" }, < dst: \"/b\" > ]\n"
      "mount [ { dst: \"/c\" } ] mount < dst: \"/d\"; > mount: { dst: \"/e\", } mount { dst:\"/f\"is_bind:true }\n"
      "pass_fd: [] pass_fd: [3, 4] pass_fd: 5\n"
      "uidmap {inside_id: \"1000\"}");
  REQUIRE(config.mount.size() == 6);
  CHECK(config.mount[5].dst == "/f");
  CHECK(config.mount[5].is_bind);
  CHECK(config.pass_fd == std::vector<int32_t>{3, 4, 5});
  CHECK(config.uidmap[0].inside_id == "1000");
  CHECK(config.origins.at("mount", 1) == "j.cfg:1:25");
  CHECK(config.origins.at("pass_fd", 2) == "j.cfg:3:38");
  CHECK(fails("pass_fd: [3,]"));
  CHECK(fails("cwd: [\"/\"]"));
  CHECK(fails("mount { dst: \"/\" >"));
  CHECK(fails("mount { dst: \"/\" "));
  CHECK(fails("cwd: \"/\",,"));
  CHECK(fails("[ext.field]: 1"));
}

TEST_CASE("strings: quotes, adjacent literals and every escape") {
  const Config config = parsed("mount { dst: '\\a\\b\\f\\n\\r\\t\\v\\\\\\'\\\"\\?\\101\\x41\\u00e9\\U0001F600\\ud83d\\ude00' '\"' src_content: \"\\400\\xff\" }");
  CHECK(config.mount[0].dst == "\a\b\f\n\r\t\v\\'\"?AA\u00e9\U0001F600\U0001F600\"");
  CHECK(config.mount[0].src_content == std::string("\0\xff", 2));
  CHECK(failure("cwd: \"a\nb\"") == "j.cfg:1:6: the string is not closed on its line");
  CHECK(failure("cwd: \"\\q\"") == "j.cfg:1:7: unknown escape: \"\\q\"");
  CHECK(fails("cwd: \"\\X41\""));
  CHECK(fails("cwd: \"\\u12\""));
  CHECK(fails("cwd: \"\\x\""));
  CHECK(fails("cwd: \"a\\000b\""));  // a path cannot hold it
}

TEST_CASE("numbers, booleans and choices are strict") {
  const Config config = parsed("rlimit_as: 0x1F rlimit_cpu: 017 nice_level: - 5 cgroup_mem_swap_max: -1 mode: 0 keep_env: t silent: 0x1 clone_newnet: False log_level: 4");
  CHECK(config.rlimit_as == 31);
  CHECK(config.rlimit_cpu == 15);
  CHECK(config.nice_level == -5);
  CHECK(config.mode == Mode::listen);
  CHECK(config.keep_env);
  CHECK(config.silent);
  CHECK_FALSE(config.clone_newnet);
  CHECK(config.log_level == LogLevel::fatal);
  for (const char* text : {"time_limit: 4294967296", "time_limit: -1", "time_limit: 09", "time_limit: 1e3", "time_limit: 1.5", "time_limit: +1", "time_limit: 1_0",
                           "time_limit: \"1\"", "time_limit: 5a", "time_limit: 0x", "rlimit_as: 18446744073709551616", "nice_level: 2147483648", "silent: TRUE",
                           "silent: yes", "silent: 2", "silent: \"true\"", "mode: once", "mode: \"ONCE\"", "mode: 4", "cwd: x", "uidmap { inside_id: 0 }", "// c", "/* c */"}) {
    CHECK_MESSAGE(fails(text), text);
  }
  CHECK(parsed("nice_level: -2147483648").nice_level == -2147483647 - 1);
}

TEST_CASE("errors name line, column, the field, and what was probably meant") {
  CHECK(failure("\n  hostnam: \"x\"") == "j.cfg:2:3: unknown field \"hostnam\" in NsJailConfig");
  CHECK(parse_config("hostnam: 1", "j").error().hint() == "did you mean 'hostname'?");
  CHECK(failure("mount {\n\tdst: \"/\" Rw: true }") == "j.cfg:2:11: unknown field \"Rw\" in MountPt");
  CHECK(failure("mode: ONC") == "j.cfg:1:7: 'mode' takes one of LISTEN, ONCE, RERUN, EXECVE, not \"ONC\"");
  CHECK(failure("mount { }") == "j.cfg:1:9: 'mount[0].dst' is missing");
  CHECK(failure("mount { dst: \"/\" }\nexec_bin { arg: \"x\" }") == "j.cfg:2:12: 'exec_bin.path' is missing");
  CHECK(failure("hostname \"x\"") == "j.cfg:1:10: ':' is missing after 'hostname'");
  CHECK(failure("\xef\xbb\xbfname: \"x\"") == "j.cfg:1:1: the text begins with a byte order mark: save it without one");
  CHECK(failure(" \n") == "j.cfg: the configuration is empty");
  CHECK(parsed("# nothing but this").time_limit == 600);
  CHECK(parse_config("chroot_dir: \"/\"", "j").error().hint().find("since release 3.0") == 0);
}

TEST_CASE("text and nesting are bounded") {
  CHECK(fails(std::string(kMaxConfigBytes + 1, ' ')));
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "user_net { pasta { ";
  CHECK(fails(deep));
  std::string json;
  for (int i = 0; i < 100000; ++i) json += "{\"mount\":[";
  CHECK(fails(json));
}

TEST_CASE("JSON says the same") {
  const Config config = parsed(
      "{\"name\": \"x\", \"timeLimit\": 5, \"rlimit_as\": \"18446744073709551615\", \"mode\": \"LISTEN\", \"logLevel\": 4, \"nice_level\": -3, \"hostname\": null,\n"
      " \"mount\": [{\"dst\": \"/\", \"srcContent\": \"aGkKAA==\", \"isBind\": true}], \"envar\": [\"A=b\"], \"passFd\": [], \"exec_bin\": {\"path\": \"/x\", \"arg\": [\"1\"]}}");
  CHECK(config.time_limit == 5);
  CHECK(config.rlimit_as == ~uint64_t{0});
  CHECK(config.mode == Mode::listen);
  CHECK(config.nice_level == -3);
  CHECK(config.hostname == "NSJAIL");
  CHECK_FALSE(config.origins.has("hostname"));
  CHECK(config.mount[0].src_content == std::string("hi\n\0", 4));
  CHECK(config.exec_bin->arg[0] == "1");
  CHECK(failure("{\n \"hostnam\": \"x\"}") == "j.cfg:2:11: unknown field \"hostnam\" in NsJailConfig");
  CHECK(failure("{\"time_limit\": \"x\"}") == "j.cfg:1:19: 'time_limit' takes a number from 0 to 4294967295");
  for (const char* text : {"{\"cwd\": 1}", "{\"cwd\": [\"/\"]}", "{\"mount\": {\"dst\": \"/\"}}", "{\"mount\": [{}]}", "{\"mount\": [null]}", "{\"envar\": \"A\"}", "{\"time_limit\": 1.5}",
                           "{\"time_limit\": -1}", "{\"silent\": 1}", "{\"cwd\": \"/\", \"cwd\": \"/\"}", "{'cwd': \"/\"}", "{\"cwd\": \"/\",}", "{cwd: \"/\"}", "{\"mount\": [[{}]]}",
                           "{\"mount\": [{\"dst\": \"/\", \"src_content\": \"*\"}]}", "{", "{} {}"}) {
    CHECK_MESSAGE(fails(text), text);
  }
}

TEST_CASE("the defaults are the documented ones") {
  const Config config;
  CHECK(config.mode == Mode::once);
  CHECK(config.hostname == "NSJAIL");
  CHECK(config.time_limit == 600);
  CHECK(config.nice_level == 19);
  CHECK(config.rlimit_as == 4096);
  CHECK(config.rlimit_fsize == 1);
  CHECK(config.rlimit_nofile == 32);
  CHECK(config.rlimit_cpu == 600);
  CHECK(config.rlimit_nproc_type == RlimitType::soft);
  CHECK(config.cgroup_mem_swap_max == -1);
  CHECK(config.clone_newcgroup);
  CHECK_FALSE(config.clone_newtime);
  CHECK_FALSE(config.mount_proc);
  CHECK(Mount{}.mandatory);
}

TEST_CASE("what is written is read again as the same") {
  // Every field of the table gets a value that is not its default.
  const auto fill = [](const auto& self, const Schema& schema, const std::string& indent) -> std::string {
    std::string text;
    for (const Field& field : schema.fields) {
      const std::string standard = default_text(field, schema);
      const std::string name = indent + field.name;
      switch (field.type) {
        case FieldType::text:
        case FieldType::bytes: text += name + ": \"v\\001\\n\\\"" + std::string(field.name) + "\"\n"; break;
        case FieldType::boolean: text += name + (standard == "true" ? ": false\n" : ": true\n"); break;
        case FieldType::choice: text += name + ": " + (standard == field.choices.back().name ? field.choices.front().name : field.choices.back().name) + "\n"; break;
        case FieldType::message: text += name + " {\n" + self(self, *field.message, indent + "  ") + indent + "}\n"; break;
        default: text += name + ": 7\n"; break;
      }
    }
    return text;
  };
  const std::string text = fill(fill, config_schema(), "");
  const Config config = parsed(text);
  CHECK(write_textproto(config) == text);
  CHECK(parsed(write_textproto(config)) == config);
  CHECK(write_textproto(Config{}).empty());
}

TEST_CASE("every configuration of the test data is read; all together say every field") {
  std::set<std::string> said;
  for (const char* name : {"all-fields.cfg", "forms.cfg", "all-fields.json"}) {
    std::ifstream file(std::string(SBX_SOURCE_DIR) + "/tests/nsjail/" + name);
    std::stringstream text;
    text << file.rdbuf();
    const Config config = parsed(text.str());
    for (const Field& field : config_schema().fields)
      if (config.origins.has(field.name)) said.insert(field.name);
  }
  for (const Field& field : config_schema().fields) CHECK_MESSAGE(said.count(field.name) == 1, field.name);
}

TEST_CASE("flags after -C change the file, those before it are forgotten but for a few") {
  const CommandLine all = line({"-H", "before", "-t", "7", "-c", "/root", "--rw", "-u", "1:2", "--pass_fd", "9", "-v", "-C", "f.cfg", "-D", "/w", "-E", "B=2", "--", "-x", "y"},
                               "hostname: \"file\" envar: \"A=1\" uidmap { inside_id: \"5\" } pass_fd: 8");
  CHECK(all.config.hostname == "file");
  CHECK(all.config.time_limit == 600);
  CHECK(all.config.cwd == "/w");
  CHECK(all.chroot == "/root");
  CHECK(all.root_rw);
  CHECK(all.config.envar == std::vector<std::string>{"A=1", "B=2"});
  REQUIRE(all.config.uidmap.size() == 2);
  CHECK(all.config.uidmap[0].inside_id == "1");
  CHECK(all.config.uidmap[1].inside_id == "5");
  CHECK(all.config.origins.at("uidmap", 0) == "flag --user");
  CHECK(all.config.pass_fd == std::vector<int32_t>{9, 8});
  CHECK(all.config.log_level == LogLevel::debug);
  CHECK_FALSE(all.config.mount_proc);
  CHECK(all.argv == std::vector<std::string>{"-x", "y"});
  CHECK(line({"--", "x"}).config.mount_proc);
  CHECK(line({"-C", "1", "-C", "2"}, "cwd: \"/z\" cap: \"CAP_CHOWN\"").config.cap.size() == 1);
}

TEST_CASE("flags are read as getopt_long reads them") {
  const CommandLine flags = line({"-Mo", "-t5", "--really", "--rlimit_as=MAX", "--rlimit_cpu", "inf", "--rlimit_stack", "0x10", "cmd", "-N", "-p", "99", "-m", "none:/t:tmpfs:size=1:x=2",
                                  "-B", "/a:/b:ro:zz", "-R/c", "-T", "/t", "-s", "to:/l", "-U", "0:100:65536", "-g", "::3", "arg"});
  CHECK(flags.config.mode == Mode::listen);  // by -p
  CHECK(flags.config.port == 99);
  CHECK(flags.config.time_limit == 5);
  CHECK(flags.config.log_level == LogLevel::fatal);
  CHECK(flags.config.rlimit_as_type == RlimitType::hard);
  CHECK(flags.config.rlimit_cpu_type == RlimitType::inf);
  CHECK(flags.config.rlimit_stack == 16);
  CHECK(flags.config.rlimit_stack_type == RlimitType::value);
  CHECK_FALSE(flags.config.clone_newnet);
  REQUIRE(flags.config.mount.size() == 5);
  CHECK(flags.config.mount[0].options == "size=1:x=2");
  CHECK(flags.config.mount[1].rw);
  CHECK(flags.config.mount[2].dst == "/c");
  CHECK_FALSE(flags.config.mount[2].rw);
  CHECK(flags.config.mount[3].options == "size=4194304");
  CHECK(flags.config.mount[4].is_symlink);
  CHECK(flags.config.uidmap[0].use_newidmap);
  CHECK(flags.config.gidmap[0].count == 3);
  CHECK(flags.argv == std::vector<std::string>{"cmd", "arg"});
  CHECK(line({"-h"}).help);
  CHECK(line({"-?"}).help);
}

TEST_CASE("junk on the command line is refused") {
  CHECK(wrong({"-t", "abc"}).find("flag --time_limit: no number: \"abc\"") == 0);
  CHECK(wrong({"-t", "08"}).find("no number") != std::string::npos);
  CHECK(wrong({"-t", "-1"}).find("takes a number from 0") != std::string::npos);
  CHECK(wrong({"--rlimit_as", "much"}).find("takes a number, or soft, hard or inf") != std::string::npos);
  CHECK(wrong({"-M", "x"}).find("flag --mode") == 0);
  CHECK(wrong({"--hostnam_e", "x"}).find("did you mean --hostname?") != std::string::npos);
  CHECK(wrong({"--chroot"}).find("a value is missing") != std::string::npos);
  CHECK(wrong({"--experimental_mnt", "x"}).find("takes new, old or auto") != std::string::npos);
  CHECK(wrong({"-u", "1:2:x"}).find("no number") != std::string::npos);
}

TEST_CASE("every flag sets a field that exists, and every number has its range") {
  std::set<std::string> names;
  for (const Flag& flag : flags()) {
    CHECK_MESSAGE(names.insert(flag.name).second, flag.name);
    const std::string field = flag.field;
    if (field.empty() || field.find("exec_bin.") == 0) continue;
    CHECK_MESSAGE(config_schema().find(field) != nullptr, flag.name);
  }
  CHECK(names.size() >= 104);
  CHECK(usage_text("nsjail").find("Usage: nsjail [options] -- path_to_command [args]") == 0);
}

// ---- as a policy of run and exec

namespace {

Lowered lowered(const std::string& text, std::map<std::string, std::string> variables = {}) {
  LowerInput input;
  input.name = "j.cfg";
  input.directory = "/work";
  input.variable = [variables](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  input.read = [](const std::string& path) { return path == "/work/p.kafel" ? Result<std::string>("DEFAULT ALLOW") : Result<std::string>(Error(ErrorKind::usage, "no " + path)); };
  return to_policy(parsed(text), input);
}
std::string said(const Lowered& policy, const char* key) {
  const auto found = policy.layer.values.find(key);
  return found == policy.layer.values.end() ? "" : format_value(*find_key(key), found->second.value) + " (" + found->second.origin + ")";
}

}  // namespace

TEST_CASE("a configuration without a word is nsjail's defaults, on an empty root") {
  const Lowered policy = lowered("# nothing");
  CHECK(policy.wrong.empty());
  CHECK(policy.mistakes.empty());
  CHECK(said(policy, "limits.time") == "10m (j.cfg: nsjail's default time_limit)");
  CHECK(said(policy, "limits.file_size") == "1M (j.cfg: nsjail's default rlimit_fsize)");
  CHECK(said(policy, "limits.open_files") == "32 (j.cfg: nsjail's default rlimit_nofile)");
  CHECK(said(policy, "limits.cpu_time") == "10m (j.cfg: nsjail's default rlimit_cpu)");
  CHECK(said(policy, "sandbox.hostname") == "NSJAIL (j.cfg: nsjail's default hostname)");
  CHECK(said(policy, "fs.root") == "empty (j.cfg: nsjail's default mount)");
  CHECK(said(policy, "net.mode") == "none (j.cfg: nsjail's default clone_newnet)");
  CHECK(said(policy, "limits.memory").empty());
}

TEST_CASE("what a policy can say is said exactly") {
  const Lowered policy = lowered(
      "time_limit: 0 rlimit_fsize_type: INF rlimit_nproc: 5 rlimit_nproc_type: VALUE cgroup_mem_max: 67108864 max_cpus: 2 clone_newnet: false skip_setsid: true\n"
      "uidmap { inside_id: \"7\" } cap: \"CAP_CHOWN\" envar: \"A=b\" envar: \"C\" seccomp_policy_file: \"p.kafel\"\n"
      "mount { src: \"x\" prefix_src_env: \"P\" dst: \"a/../b\" is_bind: true rw: true noexec: true mandatory: false }\n"
      "mount { dst: \"/t\" fstype: \"tmpfs\" options: \"size=1m,nr_inodes=1k,mode=700\" rw: true } mount { dst: \"/f\" src_content: \"c\" } mount { src: \"t\" dst: \"/l\" is_symlink: true }\n"
      "mount { dst: \"/proc\" fstype: \"proc\" } mount { src: \"/dev/null\" dst: \"/dev/null\" is_bind: true rw: true }", {{"P", "/host/"}});
  CHECK(policy.wrong.empty());
  CHECK(policy.mistakes.empty());
  CHECK(said(policy, "limits.time") == "none (j.cfg:1:13)");
  CHECK(said(policy, "limits.file_size") == "none (j.cfg:1:34)");
  CHECK(said(policy, "limits.pids") == "5 (j.cfg:1:52)");
  CHECK(said(policy, "limits.memory").find("64M") == 0);
  CHECK(said(policy, "limits.cpus").find("2 ") == 0);
  CHECK(said(policy, "net.mode").find("host") == 0);
  CHECK(said(policy, "sandbox.new_session").find("false") == 0);
  CHECK(said(policy, "sandbox.uid") == "7 (j.cfg:2:8)");
  CHECK(policy.layer.kafel.has_value());
  REQUIRE(policy.layer.mounts.size() == 4);
  const auto& bind = std::get<BindOp>(policy.layer.mounts[0]);
  CHECK(bind.source == "/host/x");
  CHECK(bind.target == "/b");
  CHECK_FALSE(bind.read_only);
  CHECK(bind.no_exec);
  CHECK(bind.optional);
  CHECK(bind.origin == "j.cfg:3:7");
  CHECK(std::get<TmpfsOp>(policy.layer.mounts[1]) == TmpfsOp{"/t", Bytes{1 << 20}, 1024, 0700});
  CHECK(std::get<FileOp>(policy.layer.mounts[2]).content == "c");
  CHECK(std::get<SymlinkOp>(policy.layer.mounts[3]).text == "t");
}

TEST_CASE("what no sandbox can have is a mistake with its place, never weaker") {
  for (const char* text : {"clone_newuser: false", "clone_newns: false", "clone_newpid: false", "keep_caps: true", "keep_env: true", "disable_no_new_privs: true", "pass_fd: 3",
                           "user_net { }", "iface_own: \"e\"", "uidmap { count: 2 }", "gidmap { use_newidmap: true }", "uidmap { } uidmap { }", "mount { src: \"/\" dst: \"/\" is_bind: true }",
                           "mount { dst: \"/x\" fstype: \"sysfs\" }", "mount { dst: \"/x\" fstype: \"tmpfs\" noexec: true rw: true }", "mount { dst: \"/x\" src_content: \"c\" rw: true }",
                           "mount { src: \"x\" prefix_src_env: \"NOT\" dst: \"/x\" is_bind: true }", "mount { dst: \"/x\" fstype: \"tmpfs\" options: \"huge=always\" rw: true }",
                           "seccomp_policy_file: \"none\"", "rlimit_nofile: 1", "disable_tsc: true"}) {
    const Lowered policy = lowered(text);
    REQUIRE_MESSAGE(policy.mistakes.size() == 1, text);
    CHECK_MESSAGE(policy.mistakes[0].origin().find("j.cfg:1:") == 0, text);
  }
  CHECK(lowered("seccomp_string: \"nonsense\"").wrong.size() == 1);
  CHECK(lowered("user_net { enable: false }").mistakes.empty());
}

// ---- what is risky

TEST_CASE("risks are named with the field's place and a fix in nsjail's words; a careful configuration has none") {
  const auto names = [](const std::string& text) {
    std::set<std::string> found;
    const std::vector<std::string> known = risk_names();
    for (const Risk& risk : review(parsed(text))) {
      CHECK_MESSAGE(std::find(known.begin(), known.end(), risk.name) != known.end(), risk.name);
      CHECK_FALSE(risk.fix.empty());
      found.insert(risk.name);
    }
    return found;
  };
  CHECK(names("cgroup_mem_max: 1 cgroup_pids_max: 1 seccomp_string: \"ALLOW { read } DEFAULT KILL\"").empty());
  CHECK(names("# nothing") == std::set<std::string>{"no-filter", "no-memory-limit", "no-process-limit"});
  for (const auto& [text, name] : std::vector<std::pair<std::string, std::string>>{
           {"mount { src: \"/\" dst: \"/\" is_bind: true }", "whole-host"}, {"mount { src: \"/var/run/docker.sock\" dst: \"/s\" is_bind: true }", "control-socket"},
           {"mount { src: \"/usr\" dst: \"/usr\" is_bind: true rw: true }", "writable-system"}, {"mount { src: \"/home/x\" dst: \"/x\" is_bind: true }", "home"},
           {"mount { src: \"/srv\" dst: \"/x\" is_bind: true rw: true }", "set-uid-programs"}, {"skip_setsid: true", "terminal-injection"}, {"clone_newnet: false", "host-network"},
           {"keep_caps: true", "capabilities"}, {"keep_env: true", "secret-variable"}, {"uidmap { outside_id: \"0\" }", "host-root"}, {"no_pivotroot: true", "chroot-only"},
           {"disable_no_new_privs: true", "set-uid-programs"}, {"time_limit: 0", "no-time-limit"}, {"mode: LISTEN", "no-connection-limit"},
           {"seccomp_string: \"DEFAULT ALLOW\"", "kernel-code"}, {"clone_newuser: false", "no-user-namespace"}, {"mount { dst: \"/proc\" fstype: \"proc\" rw: true }", "writable-proc"}}) {
    CHECK_MESSAGE(names(text).count(name) == 1, text);
  }
  // The fix for a missing filter is a filter.
  for (const Risk& risk : review(parsed("# nothing"))) {
    if (risk.name != "no-filter") continue;
    const size_t begin = risk.fix.find('"') + 1;
    CHECK(kafel::compile(risk.fix.substr(begin, risk.fix.find('"', begin) - begin)).ok());
  }
}

TEST_CASE("docs/nsjail-fields.md is written from the tables") {
  std::ifstream file(std::string(SBX_SOURCE_DIR) + "/docs/nsjail-fields.md");
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str() == field_reference_markdown());
}

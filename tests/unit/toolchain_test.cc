#include <doctest/doctest.h>

#include "runtime/toolchain.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/toolchain_cache.h"
#include "runtime/toolchain_choose.h"
#include "runtime/toolchain_paths.h"
#include "runtime/toolchain_shim.h"
#include "runtime/toolchain_venv.h"

namespace fs = std::filesystem;
using namespace sbx;
using namespace sbx::runtime;

namespace {

// A made-up machine below a temporary directory: HOME is `home`, the caller stands in `work`.
struct Tree {
  Tree() {
    char name[] = "/tmp/sbx-toolchain-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    root = fs::canonical(name).string();
    home = root + "/homes/ann";
    work = root + "/work/project";
    fs::create_directories(home);
    fs::create_directories(work);
    facts.uid = ::geteuid();
    facts.home = home;
    facts.other_homes = {root + "/homes/bob", "/nonexistent", "/"};
    runner.name = "python";
    runner.commands = {"python3", "python"};
    runner.version_argv = {"{tool}", "--version"};
    runner.probe_argv = {"{tool}", "-c", "print"};
    runner.steering_environment = {"PYENV_VERSION"};
    runner.steering_files = {".python-version"};
    request.runner = &runner;
    request.working_directory = work;
  }
  ~Tree() {
    std::error_code ignored;
    fs::remove_all(root, ignored);
  }

  std::string file(const std::string& path, const std::string& content, mode_t mode = 0644) {
    const std::string full = path.front() == '/' ? path : root + "/" + path;
    fs::create_directories(fs::path(full).parent_path());
    const UniqueFd fd = sys::open(full, O_WRONLY | O_CREAT | O_TRUNC, mode).take();
    REQUIRE(sys::write_all(fd.get(), content).ok());
    REQUIRE(::fchmod(fd.get(), mode) == 0);
    return full;
  }
  std::string elf(const std::string& path) { return file(path, std::string("\x7f") + "ELF fake " + path, 0755); }
  std::string script(const std::string& path) { return file(path, "#!/bin/sh\nexec true\n", 0755); }
  std::string link(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    fs::create_symlink(text, path);
    return path;
  }
  Result<Toolchain> find() { return find_toolchain(request, facts, probe); }

  std::string root, home, work;
  HostFacts facts;
  RunnerSpec runner;
  ToolchainRequest request;
  // What the shim answers, and what it was asked.
  std::string answer;
  std::vector<ProbeSpec> asked;
  ProbeRunner probe = [this](const ProbeSpec& spec) -> Result<std::string> {
    asked.push_back(spec);
    if (answer.empty()) return Error(ErrorKind::system, "status 1: pyenv: version `9.9' is not installed");
    return answer;
  };
};

// pyenv with two versions and its shims first on PATH.
struct Pyenv : Tree {
  Pyenv() {
    pyenv = home + "/.pyenv";
    shim = script(pyenv + "/shims/python3");
    real = elf(pyenv + "/versions/3.11.7/bin/python3.11");
    link(pyenv + "/versions/3.11.7/bin/python3", "python3.11");
    other = elf(pyenv + "/versions/3.9.1/bin/python3.9");
    link(pyenv + "/versions/3.9.1/bin/python3", "python3.9");
    file(pyenv + "/version", "3.11.7\n");
    request.environment["PATH"] = pyenv + "/shims:/usr/bin:/bin";
    request.environment["PYENV_ROOT"] = pyenv;
    answer = real + "\n" + pyenv + "/versions/3.11.7\n";
  }
  std::string pyenv, shim, real, other;
};

bool has_mount(const std::vector<BindOp>& mounts, const std::string& source, const std::string& target) {
  return std::any_of(mounts.begin(), mounts.end(), [&](const BindOp& mount) {
    return mount.source == source && mount.target == target && mount.read_only;
  });
}
bool shows(const std::vector<BindOp>& mounts, const std::string& path) {
  return std::any_of(mounts.begin(), mounts.end(),
                     [&](const BindOp& mount) { return path_is_under(path, mount.source); });
}
bool contains(const std::vector<std::string>& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}
std::string error_of(const Result<Toolchain>& result) {
  REQUIRE_FALSE(result.ok());
  return result.error().text();
}

// As an ordinary user, where the tests run as root: what `check` returns there.
bool as_ordinary_user(const std::function<bool()>& check) {
  if (::geteuid() != 0) return check();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool dropped = ::setresgid(65534, 65534, 65534) == 0 && ::setresuid(65534, 65534, 65534) == 0;
    ::_exit(dropped && check() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("toolchain: a command in /usr is used where it is, without mounts") {
  Tree tree;
  tree.runner.commands = {"no-such-shell", "sh"};
  tree.request.environment["PATH"] = "/usr/bin:/bin";
  const auto found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == "/usr/bin/sh");
  CHECK(found.value().mounts.empty());
  CHECK(found.value().origin == "PATH");
  CHECK(tree.asked.empty());
}

TEST_CASE("toolchain: a binary elsewhere brings the parent of its bin directory and nothing else of the home") {
  Tree tree;
  const std::string prefix = tree.home + "/.nvm/versions/node/v20.1.0";
  const std::string node = tree.elf(prefix + "/bin/node");
  tree.runner.name = "node";
  tree.runner.commands = {"node"};
  tree.request.environment["PATH"] = prefix + "/bin";
  auto found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == node);
  REQUIRE(found.value().mounts.size() == 1);
  CHECK(has_mount(found.value().mounts, prefix, prefix));
  CHECK(tree.asked.empty());

  // Through a link: the real place.
  tree.link(tree.home + "/bin/node", node);
  tree.request.environment["PATH"] = tree.home + "/bin";
  found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == node);
  CHECK(has_mount(found.value().mounts, prefix, prefix));
}

TEST_CASE("toolchain: a prefix that holds more than a toolchain is not mounted") {
  Tree tree;
  tree.runner.probe_argv.clear();
  SUBCASE("a home directory: the file alone") {
    const std::string binary = tree.elf(tree.home + "/bin/python3");
    tree.file(tree.home + "/lib/secret", "x");
    tree.request.environment["PATH"] = tree.home + "/bin";
    const auto found = tree.find();
    REQUIRE(found.ok());
    REQUIRE(found.value().mounts.size() == 1);
    CHECK(has_mount(found.value().mounts, binary, binary));
  }
  SUBCASE("another user's home directory") {
    const std::string binary = tree.elf(tree.root + "/homes/bob/bin/python3");
    tree.request.environment["PATH"] = tree.root + "/homes/bob/bin";
    const auto found = tree.find();
    REQUIRE(found.ok());
    CHECK(has_mount(found.value().mounts, binary, binary));
    CHECK(found.value().mounts.size() == 1);
  }
  SUBCASE("a directory that holds home directories") {
    tree.elf(tree.root + "/bin/python3");
    tree.request.environment["PATH"] = tree.root + "/bin";
    const auto found = tree.find();
    REQUIRE(found.ok());
    CHECK_FALSE(shows(found.value().mounts, tree.home));
    CHECK(shows(found.value().mounts, tree.root + "/bin/python3"));
  }
  SUBCASE("~/.local: its bin and lib") {
    tree.elf(tree.home + "/.local/bin/python3");
    tree.file(tree.home + "/.local/lib/python3.11/os.py", "");
    tree.file(tree.home + "/.local/share/keyrings/login", "");
    tree.request.environment["PATH"] = tree.home + "/.local/bin";
    const auto found = tree.find();
    REQUIRE(found.ok());
    CHECK(shows(found.value().mounts, tree.home + "/.local/bin/python3"));
    CHECK(shows(found.value().mounts, tree.home + "/.local/lib/python3.11/os.py"));
    CHECK_FALSE(shows(found.value().mounts, tree.home + "/.local/share/keyrings/login"));
  }
  SUBCASE("a directory that everybody may write") {
    tree.elf("scratch/bin/python3");
    tree.file("scratch/other", "x");
    REQUIRE(::chmod((tree.root + "/scratch").c_str(), 01777) == 0);
    tree.request.environment["PATH"] = tree.root + "/scratch/bin";
    const auto found = tree.find();
    REQUIRE(found.ok());
    CHECK(shows(found.value().mounts, tree.root + "/scratch/bin/python3"));
    CHECK_FALSE(shows(found.value().mounts, tree.root + "/scratch/other"));
  }
  SUBCASE("a credential directory: refused, and said") {
    tree.elf(tree.home + "/.ssh/bin/python3");
    tree.request.environment["PATH"] = tree.home + "/.ssh/bin";
    const auto found = tree.find();
    REQUIRE_FALSE(found.ok());
    CHECK(found.error().kind() == ErrorKind::not_found);
    CHECK(error_of(found).find("never shown") != std::string::npos);
  }
}

TEST_CASE("toolchain: a binary beside its lib brings that directory, a lone one comes alone") {
  Tree tree;
  tree.runner.commands = {"zig"};
  const std::string zig = tree.elf("opt/zig-0.13/zig");
  tree.request.environment["PATH"] = tree.root + "/opt/zig-0.13";
  auto found = tree.find();
  REQUIRE(found.ok());
  CHECK(has_mount(found.value().mounts, zig, zig));
  tree.file("opt/zig-0.13/lib/std.zig", "");
  found = tree.find();
  REQUIRE(found.ok());
  CHECK(has_mount(found.value().mounts, tree.root + "/opt/zig-0.13", tree.root + "/opt/zig-0.13"));
}

TEST_CASE("toolchain: a PATH entry that the working directory would decide is not looked at") {
  CHECK(path_directories(":.:bin:/a//b/:/a/b:/c/../d") == std::vector<std::string>{"/a/b", "/d"});
  Tree tree;
  tree.elf(tree.work + "/python3");
  tree.request.environment["PATH"] = ".::bin";
  CHECK(error_of(tree.find()).find("names no directory") != std::string::npos);
}

TEST_CASE("toolchain: nothing found names what was looked for and the package") {
  Tree tree;
  tree.request.environment["PATH"] = tree.root + "/empty";
  const auto found = tree.find();
  CHECK(error_of(found) == "no python found: looked for python3, python on PATH");
  CHECK(found.error().kind() == ErrorKind::not_found);
  CHECK_FALSE(found.error().hint().empty());

  const std::map<std::string, std::string> packages = {{"debian", "python3"}, {"fedora", "python3-libs"}};
  CHECK(install_hint(packages, "ID=debian\n") == "install it with: apt-get install python3");
  CHECK(install_hint(packages, "NAME=x\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n") ==
        "install it with: apt-get install python3");
  CHECK(install_hint(packages, "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n") ==
        "install it with: dnf install python3-libs");
  CHECK(install_hint(packages, "ID=alpine\n").empty());
  CHECK(install_hint({{"nixos", "go"}}, "ID=nixos\n") == "install it with: nix-env -iA nixos.go");
  CHECK(install_hint(packages, "").empty());
}

TEST_CASE("toolchain: a directory the caller may not enter is passed over and named when nothing else is found") {
  Tree tree;
  tree.elf("private/bin/python3");
  REQUIRE(::chmod((tree.root + "/private").c_str(), 0) == 0);
  REQUIRE(::chmod(tree.root.c_str(), 0755) == 0);
  tree.request.environment["PATH"] = tree.root + "/private/bin";
  CHECK(as_ordinary_user([&] {
    const auto found = tree.find();
    return !found.ok() && found.error().kind() == ErrorKind::not_found &&
           found.error().text().find("/private/bin' is not readable by you") != std::string::npos;
  }));
  tree.runner.commands = {"sh"};
  tree.request.environment["PATH"] += ":/usr/bin";
  CHECK(as_ordinary_user([&] {
    const auto found = tree.find();
    return found.ok() && found.value().executable == "/usr/bin/sh";
  }));
  ::chmod((tree.root + "/private").c_str(), 0755);
}

TEST_CASE("toolchain: a virtual environment keeps its link and brings the base interpreter") {
  Tree tree;
  const std::string base = tree.root + "/opt/py/3.11";
  const std::string real = tree.elf(base + "/bin/python3.11");
  tree.link(base + "/bin/python3", "python3.11");
  const std::string venv = tree.work + "/.venv";
  tree.file(venv + "/pyvenv.cfg", "home = " + base + "/bin\ninclude-system-site-packages = false\n");
  tree.link(venv + "/bin/python3", base + "/bin/python3");
  tree.request.environment["PATH"] = venv + "/bin:/usr/bin";
  const auto check = [&](const Result<Toolchain>& found) {
    REQUIRE(found.ok());
    CHECK(found.value().executable == venv + "/bin/python3");
    CHECK(has_mount(found.value().mounts, venv, venv));
    CHECK(has_mount(found.value().mounts, base, base));
    CHECK(found.value().mounts.size() == 2);
    CHECK(found.value().environment.at("VIRTUAL_ENV") == venv);
    CHECK(found.value().path_prepend == std::vector<std::string>{venv + "/bin"});
  };
  SUBCASE("first on PATH") { check(tree.find()); }
  SUBCASE("--venv") {
    tree.request.environment["PATH"] = "/usr/bin";
    tree.request.venv = ".venv";
    check(tree.find());
  }
  SUBCASE("--toolchain with its python") {
    tree.request.environment["PATH"] = "/usr/bin";
    tree.request.choose = venv + "/bin/python3";
    check(tree.find());
  }
  SUBCASE("active, with a python but no python3") {
    fs::rename(venv + "/bin/python3", venv + "/bin/python");
    tree.elf("other/bin/python3");
    tree.request.environment["PATH"] = venv + "/bin:" + tree.root + "/other/bin";
    tree.request.environment["VIRTUAL_ENV"] = venv;
    const auto found = tree.find();
    REQUIRE(found.ok());
    CHECK(found.value().executable == venv + "/bin/python");
  }
  SUBCASE("a copied interpreter needs its home") {
    fs::remove(venv + "/bin/python3");
    tree.elf(venv + "/bin/python3");
    check(tree.find());
    tree.file(venv + "/pyvenv.cfg", "home = /nonexistent\n");
    CHECK(error_of(tree.find()).find("is a copy") != std::string::npos);
  }
  SUBCASE("links that go through a link to a directory are shown as they are named") {
    const std::string current = tree.link(tree.root + "/opt/py/current", "3.11");
    fs::remove(venv + "/bin/python3");
    tree.link(venv + "/bin/python3", current + "/bin/python3");
    const auto found = tree.find();
    REQUIRE(found.ok());
    CHECK(has_mount(found.value().mounts, base, current));
    CHECK(has_mount(found.value().mounts, base, base));
  }
  CHECK(fs::exists(real));
}

TEST_CASE("toolchain: a virtual environment may lie about its base and gets nothing for it") {
  Tree tree;
  tree.file(tree.home + "/.ssh/id", "key", 0700);
  tree.elf(tree.home + "/bin/python3");
  const std::string venv = tree.work + "/venv";
  tree.request.venv = venv;
  tree.file(venv + "/pyvenv.cfg", "home = " + tree.home + "/bin\n");
  SUBCASE("a link to a file that is no program") {
    tree.link(venv + "/bin/python3", tree.home + "/.ssh/id");
    CHECK(error_of(tree.find()).find("no Python interpreter") != std::string::npos);
  }
  SUBCASE("a link to a program that is no Python") {
    tree.link(venv + "/bin/python3", tree.elf(tree.home + "/secret/bin/tool"));
    CHECK(error_of(tree.find()).find("no Python interpreter") != std::string::npos);
  }
  SUBCASE("a script that is called python") {
    tree.link(venv + "/bin/python3", tree.script(tree.home + "/secret/bin/python3"));
    CHECK(error_of(tree.find()).find("no Python interpreter") != std::string::npos);
  }
  SUBCASE("a dangling link") {
    tree.link(venv + "/bin/python3", "/nonexistent/python3");
    CHECK(error_of(tree.find()).find("leads nowhere") != std::string::npos);
  }
  SUBCASE("a home directory as the base: the binary alone") {
    tree.link(venv + "/bin/python3", tree.home + "/bin/python3");
    const auto found = tree.find();
    REQUIRE(found.ok());
    CHECK(shows(found.value().mounts, tree.home + "/bin/python3"));
    CHECK_FALSE(shows(found.value().mounts, tree.home));
    CHECK_FALSE(shows(found.value().mounts, tree.home + "/.ssh/id"));
  }
  SUBCASE("a link through somebody's directory does not show that directory") {
    const std::string real = tree.elf("opt/py/bin/python3");
    const std::string station = tree.link(tree.home + "/secret/bin/python3", real);
    tree.file(tree.home + "/secret/notes", "x");
    tree.link(venv + "/bin/python3", station);
    const auto found = tree.find();
    REQUIRE(found.ok());
    CHECK_FALSE(shows(found.value().mounts, tree.home + "/secret/notes"));
    CHECK(has_mount(found.value().mounts, real, station));
  }
  SUBCASE("a home directory that claims to be one") {
    tree.file(tree.home + "/pyvenv.cfg", "home = /usr/bin\n");
    tree.request.venv = tree.home;
    CHECK(error_of(tree.find()).find("cannot be shown") != std::string::npos);
  }
}

TEST_CASE("toolchain: the home key of pyvenv.cfg is an absolute path or nothing") {
  CHECK(venv_home("home = /opt/py/bin\n") == "/opt/py/bin");
  CHECK(venv_home("version = 3\nhome=/opt//py/./bin") == "/opt/py/bin");
  CHECK(venv_home("home = bin\n").empty());
  CHECK(venv_home("home = /a\x01b\n").empty());
  CHECK(venv_home("homes = /a\n").empty());
  CHECK(venv_home("home = \xff/a\n").empty());
  CHECK(venv_home(std::string(20000, '#') + "\nhome = /a\n").empty());
  CHECK(venv_home("").empty());
}

TEST_CASE("toolchain: --venv that is none, or for a language without, is wrong usage") {
  Tree tree;
  tree.request.venv = "nowhere";
  auto found = tree.find();
  REQUIRE_FALSE(found.ok());
  CHECK(found.error().kind() == ErrorKind::usage);
  tree.runner.commands = {"node"};
  found = tree.find();
  REQUIRE_FALSE(found.ok());
  CHECK(found.error().kind() == ErrorKind::usage);
  tree.request.choose = "3.11";
  found = tree.find();
  REQUIRE_FALSE(found.ok());
  CHECK(found.error().kind() == ErrorKind::usage);
}

TEST_CASE("toolchain: a shim is asked in a sandbox that sees its manager and the steering files only") {
  Pyenv tree;
  tree.file(tree.work + "/.python-version", "3.11.7\n");
  tree.file("work/.python-version", "3.9.1\n");
  tree.file("work/.tool-versions", "python 3.9.1\n");  // asdf's; pyenv does not read it
  tree.runner.steering_files.emplace_back(".tool-versions");
  tree.request.environment["PYENV_VERSION"] = "3.11.7";
  tree.request.environment["SECRET"] = "token";
  const auto found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == tree.real);
  REQUIRE(found.value().mounts.size() == 1);
  CHECK(has_mount(found.value().mounts, tree.pyenv + "/versions/3.11.7", tree.pyenv + "/versions/3.11.7"));
  CHECK(found.value().origin == "pyenv shim");

  REQUIRE(tree.asked.size() == 1);
  const ProbeSpec& asked = tree.asked.front();
  CHECK(asked.argv == std::vector<std::string>{tree.shim, "-c", "print"});
  CHECK(asked.mounts.size() == 3);
  CHECK(has_mount(asked.mounts, tree.pyenv, tree.pyenv));
  CHECK(has_mount(asked.mounts, tree.work + "/.python-version", tree.work + "/.python-version"));
  CHECK(has_mount(asked.mounts, tree.root + "/work/.python-version", tree.root + "/work/.python-version"));
  CHECK(asked.working_directory == tree.work);
  CHECK(contains(asked.environment, "PYENV_VERSION=3.11.7"));
  CHECK(contains(asked.environment, "PYENV_ROOT=" + tree.pyenv));
  CHECK(contains(asked.environment, "HOME=/home/sandbox"));
  CHECK(contains(asked.environment, "PATH=" + tree.pyenv + "/shims:/usr/bin:/bin"));
  for (const std::string& entry : asked.environment) CHECK(entry.find("SECRET") == std::string::npos);
}

TEST_CASE("toolchain: steering files that are links or too large are not shown, and that is said") {
  Pyenv tree;
  tree.file(tree.home + "/.ssh/id", "key");
  tree.link(tree.work + "/.python-version", tree.home + "/.ssh/id");
  tree.file("work/.python-version", std::string(5000, 'x'));
  fs::create_directories(tree.root + "/.python-version");
  const auto found = tree.find();
  REQUIRE(found.ok());
  REQUIRE(tree.asked.size() == 1);
  CHECK(tree.asked.front().mounts.size() == 1);
  CHECK(tree.asked.front().working_directory == "/");
  CHECK(found.value().origin.find("(a link)") != std::string::npos);
  CHECK(found.value().origin.find("(more than 4 KiB)") != std::string::npos);
}

TEST_CASE("toolchain: a shim's answer is believed only inside what it was shown and in /usr") {
  Pyenv tree;
  SUBCASE("/usr (version system)") {
    tree.answer = "/usr/bin/env\n";
    const auto found = tree.find();
    REQUIRE(found.ok());
    CHECK(found.value().mounts.empty());
  }
  SUBCASE("somewhere else") {
    tree.answer = tree.elf(tree.home + "/other/bin/python3") + "\n";
    CHECK(error_of(tree.find()).find("outside") != std::string::npos);
  }
  SUBCASE("a link that leads out") {
    tree.link(tree.pyenv + "/versions/evil/bin/python3", tree.elf(tree.home + "/other/bin/python3"));
    tree.answer = tree.pyenv + "/versions/evil/bin/python3\n";
    CHECK(error_of(tree.find()).find("outside") != std::string::npos);
  }
  SUBCASE("a prefix that is the home directory") {
    tree.answer = tree.real + "\n" + tree.home + "\n";
    CHECK(error_of(tree.find()).find("outside") != std::string::npos);
  }
  SUBCASE("a way up") {
    tree.answer = tree.pyenv + "/versions/../../.ssh\n";
    CHECK_FALSE(tree.find().ok());
  }
  SUBCASE("a file that is no program") {
    tree.answer = tree.pyenv + "/version\n";
    CHECK(error_of(tree.find()).find("not a program") != std::string::npos);
  }
  SUBCASE("the shim itself") {
    tree.answer = tree.shim + "\n";
    CHECK(error_of(tree.find()).find("itself") != std::string::npos);
  }
  SUBCASE("a directory stands for its bin/COMMAND") {
    tree.answer = tree.pyenv + "/versions/3.9.1\n";
    const auto found = tree.find();
    REQUIRE(found.ok());
    CHECK(found.value().executable == tree.other);
  }
  SUBCASE("a virtual environment of the manager") {
    const std::string venv = tree.pyenv + "/versions/3.11.7/envs/web";
    tree.file(venv + "/pyvenv.cfg", "home = " + tree.pyenv + "/versions/3.11.7/bin\n");
    tree.link(venv + "/bin/python3", tree.pyenv + "/versions/3.11.7/bin/python3.11");
    tree.link(tree.pyenv + "/versions/web", venv);
    tree.answer = tree.pyenv + "/versions/web/bin/python3\n";
    const auto found = tree.find();
    REQUIRE(found.ok());
    CHECK(found.value().executable == venv + "/bin/python3");
    CHECK(found.value().environment.at("VIRTUAL_ENV") == venv);
    CHECK(shows(found.value().mounts, tree.real));
  }
}

TEST_CASE("toolchain: the answer of a probe is read strictly") {
  const auto lines = parse_probe_output("/a/b\n/c/./d\n");
  REQUIRE(lines.ok());
  CHECK(lines.value() == std::vector<std::string>{"/a/b", "/c/d"});
  CHECK(parse_probe_output("/a").ok());
  for (const std::string& bad : {std::string(""), std::string("\n"), std::string("a/b\n"), std::string("/a\n\n/b\n"),
                                 std::string("/a\nwarning: x\n"), std::string("/a\x1b[0m\n"), std::string("/a\0b\n", 5),
                                 std::string("/a\xff\n"), "/" + std::string(5000, 'x') + "\n"}) {
    CAPTURE(printable(bad));
    CHECK_FALSE(parse_probe_output(bad).ok());
  }
  std::string many;
  for (int i = 0; i < 17; ++i) many += "/a\n";
  CHECK_FALSE(parse_probe_output(many).ok());
}

TEST_CASE("toolchain: a shim without the version gives its own words and the file that asked for it") {
  Pyenv tree;
  tree.file(tree.work + "/.python-version", "9.9\n");
  tree.answer.clear();
  const auto found = tree.find();
  CHECK(error_of(found).find("version `9.9' is not installed") != std::string::npos);
  CHECK(found.error().kind() == ErrorKind::not_found);
  CHECK(found.error().hint().find(tree.work + "/.python-version") != std::string::npos);
  CHECK(found.error().hint().find("--toolchain") != std::string::npos);
}

TEST_CASE("toolchain: a probe that cannot be sandboxed is not the shim's fault") {
  Pyenv tree;
  tree.probe = [](const ProbeSpec&) -> Result<std::string> {
    return Error(ErrorKind::unsupported, "no user namespaces");
  };
  const auto found = tree.find();
  CHECK(error_of(found).find("no user namespaces") != std::string::npos);
  CHECK(found.error().kind() == ErrorKind::unsupported);
}

TEST_CASE("toolchain: the next name is tried only beside a shim that failed") {
  Pyenv tree;
  tree.script(tree.pyenv + "/shims/python");
  tree.probe = [&](const ProbeSpec& spec) -> Result<std::string> {
    if (base_name(spec.argv.front()) == "python3") return Error(ErrorKind::system, "pyenv: python3: command not found");
    return tree.other + "\n";
  };
  auto found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == tree.other);

  fs::remove(tree.pyenv + "/shims/python");
  tree.elf("other/bin/python");
  tree.request.environment["PATH"] += ":" + tree.root + "/other/bin";
  CHECK(error_of(tree.find()).find("command not found") != std::string::npos);
}

TEST_CASE("toolchain: a script of a language without a probe is the tool itself") {
  Tree tree;
  tree.runner.commands = {"kotlinc"};
  tree.runner.probe_argv.clear();
  const std::string tool = tree.script("opt/kotlinc/bin/kotlinc");
  tree.request.environment["PATH"] = tree.root + "/opt/kotlinc/bin";
  const auto found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == tool);
  CHECK(has_mount(found.value().mounts, tree.root + "/opt/kotlinc", tree.root + "/opt/kotlinc"));
}

TEST_CASE("toolchain: a wrapper in the home's bin is asked without showing the home") {
  Tree tree;
  const std::string wrapper = tree.script(tree.home + "/bin/python3");
  tree.request.environment["PATH"] = tree.home + "/bin";
  tree.answer = "/usr/bin/env\n";
  REQUIRE(tree.find().ok());
  REQUIRE(tree.asked.size() == 1);
  REQUIRE(tree.asked.front().mounts.size() == 1);
  CHECK(has_mount(tree.asked.front().mounts, wrapper, wrapper));
}

TEST_CASE("toolchain: a rustup proxy is asked under its own name, without the directory of cargo's credentials") {
  Tree tree;
  tree.runner.name = "rust";
  tree.runner.commands = {"rustc"};
  tree.runner.probe_argv = {"{tool}", "--print", "sysroot"};
  tree.runner.steering_files = {"rust-toolchain.toml"};
  tree.runner.steering_environment = {"RUSTUP_TOOLCHAIN"};
  const std::string rustup = tree.elf(tree.home + "/.cargo/bin/rustup");
  tree.file(tree.home + "/.cargo/credentials.toml", "token");
  const std::string prefix = tree.home + "/.rustup/toolchains/stable-x86_64-unknown-linux-gnu";
  const std::string rustc = tree.elf(prefix + "/bin/rustc");
  tree.request.environment["PATH"] = tree.home + "/.cargo/bin";
  tree.answer = prefix + "\n";
  SUBCASE("a symbolic link") { tree.link(tree.home + "/.cargo/bin/rustc", "rustup"); }
  SUBCASE("a hard link") { fs::create_hard_link(rustup, tree.home + "/.cargo/bin/rustc"); }
  const auto found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == rustc);
  CHECK(has_mount(found.value().mounts, prefix, prefix));
  CHECK(found.value().origin == "rustup proxy");
  REQUIRE(tree.asked.size() == 1);
  const ProbeSpec& asked = tree.asked.front();
  CHECK(asked.argv.front() == tree.home + "/.cargo/bin/rustc");
  CHECK(shows(asked.mounts, prefix));
  CHECK_FALSE(shows(asked.mounts, tree.home + "/.cargo/credentials.toml"));
  CHECK(std::any_of(asked.mounts.begin(), asked.mounts.end(),
                    [&](const BindOp& mount) { return mount.target == tree.home + "/.cargo/bin/rustc"; }));
  CHECK(contains(asked.environment, "RUSTUP_HOME=" + tree.home + "/.rustup"));
  CHECK(asked.working_directory == tree.work);
}

TEST_CASE("toolchain: a shim's answer is cached until something it depends on changes") {
  Pyenv tree;
  tree.request.cache_directory = tree.root + "/cache";
  const auto version_file = tree.file(tree.work + "/.python-version", "3.11.7\n");
  REQUIRE(tree.find().ok());
  auto again = tree.find();
  REQUIRE(again.ok());
  CHECK(again.value().executable == tree.real);
  CHECK(has_mount(again.value().mounts, tree.pyenv + "/versions/3.11.7", tree.pyenv + "/versions/3.11.7"));
  CHECK(again.value().origin == "pyenv shim, cached");
  REQUIRE(tree.asked.size() == 1);

  struct stat info {};
  REQUIRE(::stat((tree.root + "/cache/toolchains").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0700);
  for (const auto& entry : fs::directory_iterator(tree.root + "/cache/toolchains")) {
    REQUIRE(::stat(entry.path().c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0600);
  }

  SUBCASE("a steering file's content") { tree.file(version_file, "3.9.1\n"); }
  SUBCASE("a steering file more") { tree.file("work/.python-version", "3.9.1\n"); }
  SUBCASE("a steering file less") { fs::remove(version_file); }
  SUBCASE("a steering variable") { tree.request.environment["PYENV_VERSION"] = "3.9.1"; }
  SUBCASE("the manager's global version") { tree.file(tree.pyenv + "/version", "3.9.1\n"); }
  SUBCASE("a version installed") { tree.elf(tree.pyenv + "/versions/3.12.0/bin/python3"); }
  SUBCASE("PATH") { tree.request.environment["PATH"] += ":/opt/x"; }
  SUBCASE("the shim") { tree.file(tree.shim, "#!/bin/sh\nexec false or longer\n", 0755); }
  SUBCASE("a link to the interpreter") {
    tree.answer = tree.pyenv + "/versions/3/bin/python3.11\n";
    tree.link(tree.pyenv + "/versions/3", "3.11.7");
    REQUIRE(tree.find().ok());
    REQUIRE(tree.find().ok());
    REQUIRE(tree.asked.size() == 2);
    tree.asked.pop_back();
    tree.answer = tree.real + "\n";
    struct timespec times[2];
    REQUIRE(::stat((tree.pyenv + "/versions").c_str(), &info) == 0);
    times[0] = info.st_atim;
    times[1] = info.st_mtim;
    fs::remove(tree.pyenv + "/versions/3");
    tree.elf(tree.pyenv + "/versions/3.11.8/bin/python3.11");
    tree.link(tree.pyenv + "/versions/3", "3.11.8");
    // The listing looks untouched: the witness alone has to tell.
    REQUIRE(::utimensat(AT_FDCWD, (tree.pyenv + "/versions").c_str(), times, 0) == 0);
  }
  SUBCASE("the interpreter") { tree.elf(tree.real + ".new"); fs::rename(tree.real + ".new", tree.real); }
  SUBCASE("the probe") { tree.runner.probe_argv.emplace_back("more"); }
  SUBCASE("an entry cut short, filled with rubbish, or of another form") {
    for (const auto& entry : fs::directory_iterator(tree.root + "/cache/toolchains")) {
      tree.file(entry.path().string(), "sbx-toolchain=1\nexecutable=/usr/bin/env\n", 0600);
    }
  }
  SUBCASE("a cache that others can read or write") {
    REQUIRE(::chmod((tree.root + "/cache/toolchains").c_str(), 0755) == 0);
  }
  SUBCASE("a cache that is a link") {
    fs::rename(tree.root + "/cache/toolchains", tree.root + "/elsewhere");
    tree.link(tree.root + "/cache/toolchains", "../elsewhere");
  }
  const auto changed = tree.find();
  REQUIRE(changed.ok());
  CHECK(changed.value().executable == tree.real);
  CHECK(tree.asked.size() == 2);
}

TEST_CASE("toolchain: a cached mount that may no longer be shown is asked for again, and refused") {
  Pyenv tree;
  tree.request.cache_directory = tree.root + "/cache";
  REQUIRE(tree.find().ok());
  tree.facts.other_homes.push_back(tree.pyenv + "/versions/3.11.7");
  CHECK_FALSE(tree.find().ok());
  CHECK(tree.asked.size() == 2);
}

TEST_CASE("toolchain: a failure is not cached, and without a cache directory nothing is written") {
  Pyenv tree;
  REQUIRE(tree.find().ok());
  REQUIRE(tree.find().ok());
  CHECK(tree.asked.size() == 2);
  tree.request.cache_directory = tree.root + "/cache";
  tree.answer.clear();
  CHECK_FALSE(tree.find().ok());
  CHECK_FALSE(fs::exists(tree.root + "/cache"));
}

TEST_CASE("toolchain: a cache entry reads back as written, and nothing else is read") {
  CacheEntry entry;
  entry.toolchain.executable = "/opt/x/bin/x";
  entry.toolchain.origin = "pyenv shim";
  entry.toolchain.path_prepend = {"/opt/x/bin"};
  entry.toolchain.environment = {{"VIRTUAL_ENV", "/opt/x=y"}};
  entry.toolchain.mounts.emplace_back();
  entry.toolchain.mounts.back().source = "/opt/x";
  entry.toolchain.mounts.back().target = "/opt/y";
  entry.witnesses.push_back({"/opt/x/bin/x", {1, 2, 3, 4}});
  const std::string text = format_cache_entry(entry);
  const auto back = parse_cache_entry(text);
  REQUIRE(back.has_value());
  CHECK(back->toolchain.mounts == entry.toolchain.mounts);
  CHECK(back->toolchain.environment == entry.toolchain.environment);
  CHECK(back->toolchain.path_prepend == entry.toolchain.path_prepend);
  CHECK(back->witnesses == entry.witnesses);
  CHECK(format_cache_entry(*back) == text);
  // Every cut is noticed.
  for (size_t size = 0; size < text.size(); ++size) CHECK_FALSE(parse_cache_entry(text.substr(0, size)).has_value());
  const auto with = [&](const std::string& line) {
    std::string changed = text;
    return parse_cache_entry(changed.insert(changed.find("end=1"), line)).has_value();
  };
  CHECK(with(""));
  CHECK_FALSE(with("unknown=1\n"));
  CHECK_FALSE(with("target=/a\n"));
  CHECK_FALSE(with("mount=/a\n"));
  CHECK_FALSE(with("mount=a\ntarget=/a\n"));
  CHECK_FALSE(with("mount=/a/../b\ntarget=/a\n"));
  CHECK_FALSE(with("identity=1:2:3:4\n"));
  CHECK_FALSE(with("witness=/a\nidentity=1:2:3\n"));
  CHECK_FALSE(with("env==x\n"));
  CHECK_FALSE(with("\n"));
  entry.toolchain.executable = "/opt/x\n/bin/x";
  CHECK(format_cache_entry(entry).empty());
}

TEST_CASE("toolchain: --toolchain with a path takes that file, or the installation in that directory") {
  Pyenv tree;
  tree.request.choose = tree.pyenv + "/versions/3.9.1/bin/python3";
  auto found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == tree.other);
  CHECK(found.value().origin == "--toolchain");
  tree.request.choose = "../../homes/ann/.pyenv/versions/3.9.1";
  found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == tree.other);
  CHECK(tree.asked.empty());
  tree.request.choose = tree.shim;
  found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == tree.real);
  for (const std::string& bad : {std::string("./missing"), tree.pyenv + "/version", tree.work}) {
    tree.request.choose = bad;
    found = tree.find();
    REQUIRE_FALSE(found.ok());
    CHECK(found.error().kind() == ErrorKind::usage);
  }
}

TEST_CASE("toolchain: --toolchain with a version takes the newest that matches, or lists what there is") {
  Pyenv tree;
  tree.elf(tree.pyenv + "/versions/3.11.10/bin/python3");
  tree.elf(tree.pyenv + "/versions/3.110.0/bin/python3");
  tree.request.choose = "3.11";
  auto found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == tree.pyenv + "/versions/3.11.10/bin/python3");
  tree.request.choose = "3.9.1";
  found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == tree.other);
  const std::string named = tree.elf("opt/bin/python3.6");
  tree.request.environment["PATH"] += ":" + tree.root + "/opt/bin";
  tree.request.choose = "3.6";
  found = tree.find();
  REQUIRE(found.ok());
  CHECK(found.value().executable == named);
  tree.request.choose = "2";
  found = tree.find();
  CHECK(error_of(found) == "no python 2 found; there are 3.110.0, 3.11.10, 3.11.7, 3.9.1");
  CHECK(found.error().kind() == ErrorKind::usage);
  tree.request.choose = "3.1;x";
  found = tree.find();
  CHECK(error_of(found).find("neither a path nor a version") != std::string::npos);

  tree.elf(tree.home + "/.nvm/versions/node/v18.2.0/bin/node");
  const std::string node = tree.elf(tree.home + "/.nvm/versions/node/v20.9.0/bin/node");
  tree.runner.name = "node";
  tree.runner.commands = {"node"};
  for (const char* version : {"20", "v20", "v20.9.0"}) {
    tree.request.choose = version;
    found = tree.find();
    REQUIRE(found.ok());
    CHECK(found.value().executable == node);
  }
}

TEST_CASE("toolchain: versions compare by their numbers") {
  CHECK(version_less("3.9", "3.11"));
  CHECK_FALSE(version_less("3.11", "3.9"));
  CHECK(version_less("3.11", "3.11.1"));
  CHECK_FALSE(version_less("3.11", "3.11"));
  CHECK(version_less("3.13a1", "3.13.0"));
  CHECK(version_less("3.14-dev", "3.14"));
  CHECK_FALSE(version_less("3.13.0", "3.13a1"));
  CHECK(version_matches("3.11.7", "3.11"));
  CHECK_FALSE(version_matches("3.110", "3.11"));
  CHECK(version_matches("stable-x86_64-unknown-linux-gnu", "stable"));
  CHECK(version_of_directory("v20.11.0") == "20.11.0");
  CHECK(version_of_directory("go1.22.1") == "1.22.1");
  CHECK(version_of_directory("cpython-3.12.1-linux-x86_64-gnu") == "3.12.1");
  CHECK(version_of_directory("java-17-openjdk-amd64") == "17");
  CHECK(version_of_directory("stable-x86_64-unknown-linux-gnu") == "stable");
  CHECK(version_of_directory("system") == "system");
}

TEST_CASE("toolchain: the version line is asked for once") {
  Pyenv tree;
  tree.request.cache_directory = tree.root + "/cache";
  Toolchain toolchain;
  toolchain.executable = tree.real;
  tree.answer = "\nPython 3.11.7\x1b\nmore\n";
  for (int i = 0; i < 2; ++i) {
    const auto version = toolchain_version(tree.request, toolchain, tree.probe);
    REQUIRE(version.ok());
    CHECK(version.value() == "Python 3.11.7\\x1b");
  }
  REQUIRE(tree.asked.size() == 1);
  CHECK(tree.asked.front().argv == std::vector<std::string>{tree.real, "--version"});
  tree.elf(tree.real + ".new");
  fs::rename(tree.real + ".new", tree.real);
  REQUIRE(toolchain_version(tree.request, toolchain, tree.probe).ok());
  CHECK(tree.asked.size() == 2);
}

// The toolchains of the machine that the tests run on. The probe runs bare here: what is asked is the caller's own.
TEST_CASE("toolchain: what this machine has is found, exists and comes without a home directory") {
  const char* path = std::getenv("PATH");
  const char* home = std::getenv("HOME");
  Tree tree;
  if (path == nullptr || home == nullptr) return;
  tree.facts.home = normalize_path(home);
  tree.request.environment = {{"PATH", path}};
  for (const char* name : {"PYENV_ROOT", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "PYENV_VERSION"}) {
    if (const char* value = std::getenv(name)) tree.request.environment[name] = value;
  }
  const ProbeRunner bare = [](const ProbeSpec& spec) -> Result<std::string> {
    auto pipe = sys::pipe();
    REQUIRE(pipe.ok());
    sys::Pipe ends = pipe.take();
    std::vector<char*> argv, environment;
    for (const std::string& word : spec.argv) argv.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& entry : spec.environment) environment.push_back(const_cast<char*>(entry.c_str()));
    argv.push_back(nullptr);
    environment.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends.write.get(), 1);
      if (::chdir(spec.working_directory.c_str()) == 0) ::execve(argv[0], argv.data(), environment.data());
      ::_exit(127);
    }
    ends.write.reset();
    auto output = sys::read_all(ends.read.get(), 65536);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (status != 0) return Error(ErrorKind::system, "status " + std::to_string(status));
    return output;
  };
  struct Language {
    std::vector<std::string> commands;
    std::vector<std::string> probe;
  };
  for (const Language& language :
       {Language{{"python3", "python"},
                 {"{tool}", "-c", "import os, sys; print(os.path.realpath(sys.executable)); print(sys.base_prefix)"}},
        Language{{"node"}, {"{tool}", "-p", "process.execPath"}}, Language{{"go"}, {"{tool}", "env", "GOROOT"}},
        Language{{"rustc"}, {"{tool}", "--print", "sysroot"}}, Language{{"gcc", "cc"}, {}}}) {
    tree.runner.commands = language.commands;
    tree.runner.probe_argv = language.probe;
    tree.request.cache_directory = tree.root + "/cache-" + language.commands.front();
    const auto found = find_toolchain(tree.request, tree.facts, bare);
    CAPTURE(language.commands.front());
    if (!found.ok()) {
      MESSAGE(language.commands.front() << ": " << found.error().text());
      CHECK(found.error().kind() == ErrorKind::not_found);
      continue;
    }
    CAPTURE(found.value().executable);
    CHECK(::access(found.value().executable.c_str(), X_OK) == 0);
    CHECK((is_system_path(found.value().executable) || shows(found.value().mounts, found.value().executable)));
    CHECK_FALSE(shows(found.value().mounts, tree.facts.home));
    const auto again = find_toolchain(tree.request, tree.facts, bare);
    REQUIRE(again.ok());
    CHECK(again.value().executable == found.value().executable);
  }
}

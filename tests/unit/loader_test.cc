#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "policy/loader.h"

using namespace sbx;

namespace {

struct Folder {
  std::string path;

  Folder() {
    std::string name = "/tmp/sbx-loader-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = std::filesystem::canonical(name).string();
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    const std::string whole = path + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    std::ofstream(whole) << content;
    REQUIRE(chmod(whole.c_str(), mode) == 0);
    return whole;
  }
};

constexpr const char* kNoNetwork = "[net]\nmode = \"none\"\n";

}  // namespace

TEST_CASE("the built-in default has a value for every key") {
  const Result<PolicyLayer> layer = load_policy("default", {});
  REQUIRE_MESSAGE(layer.ok(), layer.error().text());
  CHECK(layer.value().name == "default policy");
  for (const KeyRow& row : key_table()) {
    CAPTURE(row.path);
    REQUIRE(layer.value().values.count(row.path) == 1);
    CHECK(layer.value().values.at(row.path).origin == "default policy");
  }
}

TEST_CASE("every shipped policy can be read") {
  const std::vector<std::string> names = policy_names({});
  CHECK(names == std::vector<std::string>{"build", "default", "judge", "network", "strict"});
  for (const std::string& name : names) {
    const Result<PolicyLayer> layer = load_policy(name, {});
    CHECK_MESSAGE(layer.ok(), layer.error().text());
  }
}

TEST_CASE("the user's own policy wins over a shipped one of the same name, the default excepted") {
  const Folder config;
  const std::string strict = config.file("strict.toml", kNoNetwork);
  config.file("default.toml", "[net]\nmode = \"host\"\n");
  config.file("mine.toml", kNoNetwork);
  const PolicySearch search{.config_directory = config.path, .workspace = ""};
  const Result<PolicyLayer> layer = load_policy("strict", search);
  REQUIRE_MESSAGE(layer.ok(), layer.error().text());
  CHECK(layer.value().values.size() == 1);
  CHECK(layer.value().values.at("net.mode").origin == strict + ":2:1");
  CHECK(load_policy("default", search).value().name == "default policy");
  const std::vector<std::string> names = policy_names(search);
  CHECK(std::count(names.begin(), names.end(), "mine") == 1);
  CHECK(std::count(names.begin(), names.end(), "strict") == 1);
}

TEST_CASE("a policy of the user's folder that others can change is refused") {
  const Folder config;
  const std::string file = config.file("mine.toml", kNoNetwork, 0666);
  const PolicySearch search{.config_directory = config.path, .workspace = ""};
  const Result<PolicyLayer> layer = load_policy("mine", search);
  REQUIRE_FALSE(layer.ok());
  CHECK(layer.error().kind() == ErrorKind::policy);
  CHECK(layer.error().text().find("can be changed by other users") != std::string::npos);
  CHECK(layer.error().hint() == "chmod go-w " + file);

  REQUIRE(chmod(file.c_str(), 0644) == 0);
  REQUIRE(load_policy("mine", search).ok());
  REQUIRE(chmod(config.path.c_str(), 0777) == 0);
  CHECK(load_policy("mine", search).error().hint() == "chmod go-w " + config.path);
}

TEST_CASE("an unknown policy gets a suggestion, and otherwise the list") {
  const Result<PolicyLayer> near = load_policy("strcit", {});
  REQUIRE_FALSE(near.ok());
  CHECK(near.error().kind() == ErrorKind::policy);
  CHECK(near.error().hint() == "did you mean --policy strict?");
  const Result<PolicyLayer> far = load_policy("xxxxxxxxxxxx", {});
  REQUIRE_FALSE(far.ok());
  CHECK(far.error().hint().find("build, default, judge, network, strict") != std::string::npos);
}

TEST_CASE("a file that is missing, a directory or too large is refused") {
  const Folder folder;
  const Result<PolicyLayer> missing = load_policy(folder.path + "/strcit.toml", {});
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().kind() == ErrorKind::usage);
  CHECK(missing.error().text().find("no policy file") != std::string::npos);
  CHECK(missing.error().hint() == "did you mean --policy strict?");

  const Result<PolicyLayer> directory = load_policy(folder.path + "/.", {});
  REQUIRE_FALSE(directory.ok());
  CHECK(directory.error().text().find("not a regular file") != std::string::npos);

  const std::string large = folder.file("large.toml", std::string((1 << 20) + 1, '#'));
  CHECK_FALSE(load_policy(large, {}).ok());
  CHECK_FALSE(load_policy("", {}).ok());
}

TEST_CASE("errors of a file name it as the caller did") {
  const Folder folder;
  const std::string file = folder.file("p.toml", "[limits]\nmemroy = 1\n");
  CHECK(load_policy(file, {}).error().origin() == file + ":2:1");
}

TEST_CASE("a policy that lies in the workspace may only tighten, through a link too") {
  const Folder workspace;
  const Folder elsewhere;
  const std::string inside = workspace.file("sub/p.toml", kNoNetwork);
  const std::string outside = elsewhere.file("p.toml", kNoNetwork);
  const std::string link = elsewhere.path + "/link.toml";
  REQUIRE(symlink(inside.c_str(), link.c_str()) == 0);
  const PolicySearch search{.config_directory = elsewhere.path, .workspace = workspace.path};
  CHECK(load_policy(inside, search).value().may_only_tighten);
  CHECK(load_policy(link, search).value().may_only_tighten);
  CHECK(load_policy("link", search).value().may_only_tighten);
  CHECK_FALSE(load_policy(outside, search).value().may_only_tighten);
}

TEST_CASE("mount sources of a policy file have their links resolved and their kind looked up") {
  const Folder folder;
  std::filesystem::create_directory(folder.path + "/data");
  REQUIRE(symlink((folder.path + "/data").c_str(), (folder.path + "/link").c_str()) == 0);
  const std::string file =
      folder.file("p.toml", "[[fs.mount]]\nsource = \"" + folder.path + "/link\"\ntarget = \"/data\"\n");
  const Result<PolicyLayer> layer = load_policy(file, {});
  REQUIRE_MESSAGE(layer.ok(), layer.error().text());
  const auto& bind = std::get<BindOp>(layer.value().mounts.at(0));
  CHECK(bind.source == folder.path + "/data");
  CHECK(S_ISDIR(bind.source_mode));
}

TEST_CASE("the user's languages replace and extend the shipped ones") {
  const Folder config;
  const std::string language =
      "source_name = \"main.x\"\ncommands = [\"x\"]\nversion_argv = [\"{tool}\"]\nrun_argv = [\"{tool}\", \"{src}\"]\n";
  config.file("lang/mine.toml", "name = \"mine\"\n" + language);
  config.file("lang/python.toml", "name = \"python\"\ntitle = \"Mine\"\n" + language);
  const PolicySearch search{.config_directory = config.path, .workspace = ""};
  const Result<std::vector<RunnerSpec>> runners = load_runners(search);
  REQUIRE_MESSAGE(runners.ok(), runners.error().text());
  CHECK(runners.value().size() == load_runners({}).value().size() + 1);
  size_t found = 0;
  for (const RunnerSpec& runner : runners.value()) {
    if (runner.name == "mine") ++found;
    if (runner.name == "python" && runner.title == "Mine") ++found;
  }
  CHECK(found == 2);

  const std::string broken = config.path + "/lang/broken.toml";
  config.file("lang/broken.toml", "name = 3\n");
  const Result<std::vector<RunnerSpec>> stopped = load_runners(search);
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.error().hint().ends_with("to go on without it: mv " + broken + " " + broken + ".off"));
  REQUIRE(::rename(broken.c_str(), (broken + ".off").c_str()) == 0);
  CHECK(load_runners(search).ok());

  config.file("lang/awk.toml", "name = \"awk\"\n" + language, 0664);
  CHECK_FALSE(load_runners(search).ok());
}

TEST_CASE("a language is found by what its text mentions without reading the others") {
  for (const char* word : {"python", "py", ".py", "python3"}) {
    CAPTURE(word);
    const Result<std::vector<RunnerSpec>> runners = load_runners({}, word);
    REQUIRE(runners.ok());
    REQUIRE(runners.value().size() == 1);
    CHECK(runners.value().front().name == "python");
  }
  CHECK(load_runners({}, "nothing like it").value().empty());
}

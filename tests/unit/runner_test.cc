#include "runtime/runner.h"

#include <doctest/doctest.h>

using namespace sbx;
using namespace sbx::runtime;

namespace {

std::vector<RunnerSpec> some_runners() {
  RunnerSpec python;
  python.name = "python";
  python.title = "Python";
  python.aliases = {"py", "python3"};
  python.extensions = {".py"};
  python.interpreters = {"python", "python3"};
  python.commands = {"python3", "python"};
  RunnerSpec cpp;
  cpp.name = "cpp";
  cpp.title = "C++";
  cpp.aliases = {"c++"};
  cpp.extensions = {".cpp", ".C"};
  return {python, cpp};
}

std::string chosen(const std::string& language, const std::string& name, std::string_view head) {
  static const std::vector<RunnerSpec> runners = some_runners();
  const Result<LanguageChoice> choice = choose_language(runners, language, name, head);
  return choice.ok() ? choice.value().runner->name : "error: " + choice.error().text();
}

}  // namespace

TEST_CASE("the language comes from --lang, else the extension, else the #! line") {
  CHECK(chosen("cpp", "x.py", "#!/usr/bin/python3\n") == "cpp");
  CHECK(chosen("PY", "x", "") == "python");
  CHECK(chosen("", "x.cpp", "#!/usr/bin/python3\n") == "cpp");
  CHECK(chosen("", "x.CPP", "") == "cpp");
  CHECK(chosen("", "x", "#!/usr/bin/env python3.12\nprint()") == "python");
  CHECK(chosen("", "x.weird", "#!/usr/bin/env python3") == "python");
  CHECK(chosen("", "", "#!/opt/bin/python3.11\n") == "python");
}

TEST_CASE("a language that cannot be told is an error that lists those there are") {
  const std::vector<RunnerSpec> runners = some_runners();
  const Result<LanguageChoice> mistyped = choose_language(runners, "pyton", "x", "");
  REQUIRE(!mistyped.ok());
  CHECK(mistyped.error().kind() == ErrorKind::usage);
  CHECK(mistyped.error().text() == "unknown language 'pyton': did you mean 'python'?");
  CHECK(mistyped.error().hint() == "languages: python, cpp");
  std::vector<RunnerSpec> more = runners;
  more.emplace_back().name = "fortran";
  CHECK(choose_language(more, "pyton", "x", "").error().hint() == "languages: python, cpp and 1 more, which sbx langs lists");
  CHECK(chosen("", "notes.txt", "hello") ==
        "error: which language is 'notes.txt'? It has the unknown extension '.txt' and no #! line");
  CHECK(chosen("", ".py", "hello") == "error: which language is '.py'? It has no extension and no #! line");
  CHECK(chosen("", "", "hello") == "error: which language is it? The program has neither a file name nor a #! line");
  CHECK(chosen("", "x", "#!/usr/bin/perl") == "error: the #! line names 'perl', which no language here claims");
}

TEST_CASE("the interpreter of a #! line is found behind env, its flags and assignments") {
  CHECK(shebang_interpreter("#!/bin/sh\n") == "sh");
  CHECK(shebang_interpreter("#! /usr/bin/env  -S A=1 node --flag\nx") == "node");
  CHECK(shebang_interpreter("#!/usr/bin/env\n") == "");
  CHECK(shebang_interpreter("#!\n/bin/sh") == "");
  CHECK(shebang_interpreter("print()") == "");
  CHECK(shebang_interpreter("") == "");
}

TEST_CASE("placeholders expand to words and parts of words") {
  StepValues values;
  values.tool = "/usr/bin/g++";
  values.source = "/box/a b.cpp";
  values.output = "/run/sbx/build/a b";
  values.arguments = {"x", "", "{src}"};
  values.flags = {"-Wall"};
  const Result<std::vector<std::string>> words =
      expand_words({"{tool}", "-I{src_dir}", "{src}", "{flags}", "-o", "{out}", "{args}"}, values, "cpp.toml");
  REQUIRE(words.ok());
  CHECK(words.value() == std::vector<std::string>{"/usr/bin/g++", "-I/box", "/box/a b.cpp", "-Wall", "-o",
                                                  "/run/sbx/build/a b", "x", "", "{src}"});
}

TEST_CASE("many words cannot be part of one, and a command is not empty") {
  for (const char* word : {"-x{args}", "{flags},", "{sources}{sources}"}) {
    const Result<std::vector<std::string>> words = expand_words({"{tool}", word}, StepValues{}, "x.toml");
    REQUIRE(!words.ok());
    CHECK(words.error().kind() == ErrorKind::policy);
    CHECK(words.error().origin() == "x.toml");
  }
  CHECK(!expand_words({"{args}"}, StepValues{}, "x.toml").ok());
}

TEST_CASE("braces that are no placeholder stay as they are") {
  StepValues values;
  values.source = "/box/main.awk";
  const Result<std::vector<std::string>> words = expand_words({"{ print }", "{nothing}", "{src", "{}"}, values, "x.toml");
  REQUIRE(words.ok());
  CHECK(words.value() == std::vector<std::string>{"{ print }", "{nothing}", "{src", "{}"});
}

TEST_CASE("limits reach the command, and what names a limit that is not set is left out") {
  StepValues values;
  values.source = "/box/a.b.java";
  values.tool = "/opt/jdk/bin/javac";
  values.tool_directory = "/opt/jdk/bin";
  values.tools["javascript"] = "/usr/bin/node";
  values.sources = {"/box/a.b.java", "/box/c d.java"};
  const std::vector<std::string> words = {"{tool_dir}/java", "-Xmx{memory_mb:75}m", "-c{cpus}", "{stem}", "{tool:javascript}",
                                          "{sources}", "{out_dir}"};
  Result<std::vector<std::string>> expanded = expand_words(words, values, "x.toml");
  REQUIRE(expanded.ok());
  CHECK(expanded.value() == std::vector<std::string>{"/opt/jdk/bin/java", "a.b", "/usr/bin/node", "/box/a.b.java",
                                                     "/box/c d.java", "/run/sbx/build"});
  values.memory = Bytes{512 << 20};
  values.cpus_milli = 1500;
  expanded = expand_words(words, values, "x.toml");
  REQUIRE(expanded.ok());
  CHECK(expanded.value()[1] == "-Xmx384m");
  CHECK(expanded.value()[2] == "-c2");

  const std::map<std::string, std::string> variables = {{"GOMEMLIMIT", "{memory_mb:90}MiB"}, {"N", "{cpus}"}, {"X", "y"}};
  CHECK(expand_environment(variables, values, "x.toml").value() ==
        std::vector<std::pair<std::string, std::string>>{{"GOMEMLIMIT", "460MiB"}, {"N", "2"}, {"X", "y"}});
  CHECK(expand_environment(variables, StepValues{}, "x.toml").value() ==
        std::vector<std::pair<std::string, std::string>>{{"X", "y"}});
}

TEST_CASE("a built program is called like its source") {
  CHECK(output_name("main.cpp") == "main");
  CHECK(output_name("a.b.cpp") == "a.b");
  CHECK(output_name("main") == "main");
  CHECK(output_name(".cpp") == ".cpp");
  CHECK(output_name("..") == "program");
}

TEST_CASE("a runner is found by a command's name") {
  const std::vector<RunnerSpec> runners = some_runners();
  REQUIRE(runner_of_command(runners, "python") != nullptr);
  CHECK(runner_of_command(runners, "python")->name == "python");
  CHECK(runner_of_command(runners, "perl") == nullptr);
}

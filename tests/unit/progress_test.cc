#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/progress.h"

using sbx::runtime::Progress;

TEST_CASE("progress shows nothing before its time, and only what it showed is taken away") {
  std::vector<std::string> shown;
  Progress progress([&](const std::string& text) { shown.push_back(text); });
  CHECK(progress.due_ms() == -1);
  progress.begin("compiling");
  CHECK(progress.due_ms() > 200);
  CHECK(progress.due_ms() <= Progress::kDelayMs);
  progress.look();  // at once: too early
  progress.end();
  CHECK(progress.due_ms() == -1);
  progress.look();
  CHECK(shown.empty());
}

TEST_CASE("without anybody to show it to nothing is due") {
  Progress progress({});
  progress.begin("compiling");
  CHECK(progress.due_ms() == -1);
  progress.look();
  progress.end();
}

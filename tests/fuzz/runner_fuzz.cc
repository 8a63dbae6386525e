// A language's description: whatever is accepted can be run at all.
#include "fuzz.h"
#include "policy/loader.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const sbx::Result<sbx::RunnerSpec> runner = sbx::parse_runner_toml(fuzz::text_of(data, size), "fuzz.toml");
  if (runner.ok()) {
    HOLDS(!runner.value().run_argv.empty());
    HOLDS(!runner.value().name.empty());
  } else {
    HOLDS(!runner.error().text().empty());
  }
  return 0;
}

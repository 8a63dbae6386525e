// replay FILE…: runs a fuzz target on each file, on every beginning of it and on it with each byte changed, without a fuzzer.
// `make test` sees so to it that the targets build with every compiler and that what was once found stays mended.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz.h"

namespace {

// Long files are not tried at every byte: the replay is a test, not a search.
constexpr size_t kPlaces = 300;
// A folder of seeds that was lost, or emptied, must not look like success.
constexpr size_t kLeastSeeds = 3;

void run(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

}  // namespace

int main(int argc, char** argv) {
  size_t inputs = 0, seeds = 0;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "replay: cannot read %s\n", argv[i]);
      return 1;
    }
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    run(text);
    const size_t step = std::max<size_t>(1, text.size() / kPlaces);
    for (size_t at = 0; at < text.size(); at += step) {
      run(text.substr(0, at));
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ 0x55);
      run(changed);
      inputs += 2;
    }
    ++inputs;
    if (text.size() >= 4) ++seeds;
  }
  std::printf("%zu inputs of %zu seeds\n", inputs, seeds);
  if (seeds < kLeastSeeds) std::fprintf(stderr, "replay: fewer than %zu seeds of four bytes and more\n", kLeastSeeds);
  return seeds < kLeastSeeds ? 1 : 0;
}

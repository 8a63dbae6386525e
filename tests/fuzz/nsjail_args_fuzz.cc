// nsjail's command line: words separated by NUL. What is accepted can be written as a configuration and read again.
#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"
#include "fuzz.h"
#include "policy/nsjail/flags.h"
#include "policy/nsjail/read.h"
#include "policy/nsjail/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sbx;
  const std::vector<std::string> words = split(fuzz::text_of(data, size), '\0');
  if (words.size() > 200) return 0;
  size_t reads = 0;
  const Result<nsjail::CommandLine> line = nsjail::parse_command_line(words, [&](const std::string& path) -> Result<nsjail::Config> {
    HOLDS(++reads <= words.size());
    return nsjail::parse_config(path, "fuzz.cfg");  // what would be its name is its content
  });
  if (!line.ok()) {
    HOLDS(!line.error().text().empty());
    return 0;
  }
  const std::vector<std::string>& argv = line.value().argv;
  HOLDS(argv.size() <= words.size());
  // Options may stand between the program's words, which keep their order.
  auto from = words.begin();
  for (const std::string& word : argv) {
    from = std::find(from, words.end(), word);
    HOLDS(from != words.end());
    ++from;
  }
  const Result<nsjail::Config> again = nsjail::parse_textproto(nsjail::write_textproto(line.value().config), "again");
  HOLDS(again.ok() && again.value() == line.value().config);
  return 0;
}

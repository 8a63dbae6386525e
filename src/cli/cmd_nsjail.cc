// sbx nsjail: the words go to nsjail/nsjail.h as they are; the page is written from the table of flags.
#include "cli/command.h"
#include "nsjail/nsjail.h"
#include "policy/nsjail/flags.h"
#include "policy/nsjail/schema.h"

namespace sbx::cli {

int nsjail_command(const Invocation& invocation) { return nsjail::run(invocation.arguments(), invocation.words[0] + " nsjail"); }

Result<Page> nsjail_page() {
  Page page;
  page.usage = "usage: sbx nsjail [OPTIONS] -- COMMAND [ARGS…]";
  page.about =
      "nsjail's command line and configurations, as of 3.6: a jail that holds what they say. A link named nsjail that\n"
      "leads to sbx is the same. Of two settings the later counts; --config takes the place of all before it.";
  for (const nsjail::Flag& flag : nsjail::flags()) {
    const nsjail::Field* field = nsjail::config_schema().find(flag.field);
    page.options.push_back({.group = "Options", .name = flag.name, .metavar = flag.value == nullptr ? "" : flag.value,
                            .doc = flag.doc != nullptr ? flag.doc : field->doc, .standard = "", .take = {}});
  }
  page.examples = {{"Options", "sbx nsjail --config jail.cfg -- /usr/bin/python3 -c 'print(6 * 7)'"}};
  page.arguments = ValueKind::command;
  return page;
}

}  // namespace sbx::cli

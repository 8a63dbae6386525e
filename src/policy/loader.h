// Names to policy texts: what is embedded in the binary (policies/, rootfs/), the user's own folder
// ($XDG_CONFIG_HOME/sbx/policies, else ~/.config/sbx/policies), and paths.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/layer.h"
#include "policy/review.h"
#include "policy/runner_spec.h"

namespace sbx {

struct TomlValue;

// A file compiled into the binary, by its path in the source tree ("policies/default.toml"); nullptr: none.
const std::string_view* embedded_file(std::string_view path);
std::vector<std::string> embedded_files(std::string_view folder);
struct EmbeddedFile {
  std::string_view path;
  std::string_view content;
  std::string_view code;  // parsed (toml_code.h); "": it is no TOML
};
std::span<const EmbeddedFile> all_embedded_files();
// What parse makes of rootfs/NAME.toml, made while building; nothing: no such manifest.
struct EmbeddedManifestEntry {
  std::string_view path;
  uint32_t line;
  bool copy;
};
std::optional<std::span<const EmbeddedManifestEntry>> embedded_manifest(std::string_view path);

// The user's policy folder, from XDG_CONFIG_HOME ("" : not set; a relative one counts as such) and the home directory.
std::string user_policy_directory(const std::string& xdg_config_home, const std::string& home);

struct PolicySearch {
  std::string config_directory;  // the user's policy folder; "" : none
  std::string workspace;         // canonical; a policy file in it may only tighten; "" : none
  std::string dialect;           // of the files: "bwrap"; "" : by their extension
};

// Names that load_policy knows: built-in ones and the user's, sorted.
std::vector<std::string> policy_names(const PolicySearch& search);

// NAME (of the user's folder first, then built-in) or FILE (anything with a '/' or an extension that a dialect claims).
// Errors: policy with did-you-mean over the names; the parse error with line and column.
Result<PolicyLayer> load_policy(const std::string& name_or_file, const PolicySearch& search);
Result<PolicyLayer> parse_native_toml(std::string_view text, const std::string& name);
// One section of the same ("limits") where it stands in another document.
Result<PolicyLayer> parse_native_section(const TomlValue& table, const std::string& section, const std::string& name);

// A text read to its end whatever is wrong in it: `sbx policy check` names every mistake, in the order of the text. The
// layer holds what is right, and is good for nothing as long as there are mistakes.
struct ParsedPolicy {
  PolicyLayer layer;
  std::vector<Error> mistakes;
  // Of another dialect: right in itself, but no policy of `run` and `exec` by these; its risks as its own program runs it.
  std::vector<Error> elsewhere;
  std::vector<Risk> risks;
  std::vector<std::string> notes;  // what a text of another dialect says and this use of it leaves aside
};
ParsedPolicy parse_whole_native_toml(std::string_view text, const std::string& name);
// The same for NAME or FILE, as load_policy finds it. Errors: there is no such policy, or it cannot be read.
Result<ParsedPolicy> load_whole_policy(const std::string& name_or_file, const PolicySearch& search);

// All languages: the user's own, CONFIG/sbx/policies/lang/*.toml, then the embedded ones that they do not replace; each by
// name. With `mention` (a name, an extension, an interpreter) of the embedded ones only that of this name, or where there is
// none those whose texts have it as a string: what is looked for is found as in the whole list, at the cost of one language
// (60 us each) instead of all.
Result<std::vector<RunnerSpec>> load_runners(const PolicySearch& search, std::string_view mention = {});
Result<RunnerSpec> parse_runner_toml(std::string_view text, const std::string& name);

// The first layer under these: the built-in default, or, where one of them is in the words of another sandbox, what that does
// when nothing is said, with sbx's limits and filter.
PolicyLayer base_layer(PolicyLayer defaults, std::span<const PolicyLayer> layers);

// rootfs/NAME.toml to operations for this very host: entries that do not exist are left out, links are reproduced as
// links, a merged /usr is shown as such.
//
// What not everybody may read on the host is left out: nothing of the caller's rights shows inside. Small files are
// copied (kManifestCopyLimit), which costs less than a mount. Errors: policy (no such manifest, with did-you-mean).
inline constexpr size_t kManifestCopyLimit = size_t{16} << 10;
Result<std::vector<FsOp>> expand_manifest(const std::string& name);
// The same for a manifest's text; `root` stands before every path that is looked at ("" : this host).
Result<std::vector<FsOp>> expand_manifest_text(std::string_view text, const std::string& name, const std::string& root);

// The host's resolver settings with links resolved, for ResolveInput::resolv_conf; "" when there are none.
std::string host_resolver_config();

}  // namespace sbx

// A policy in any of the three languages, down to what the child does: an accepted policy becomes a spec within its own
// limits and a plan that can be performed; one that may only tighten never loosens. The first byte says which.
#include <string>

#include "base/text.h"
#include "fuzz.h"
#include "ns/build_plan.h"
#include "ns/plan_text.h"
#include "policy/bwrap/policy_file.h"
#include "policy/loader.h"
#include "policy/nsjail/lower.h"
#include "policy/nsjail/read.h"
#include "policy/nsjail/schema.h"
#include "policy/resolve.h"
#include "runtime/spec_text.h"
#include "../user_facts.h"

namespace {

using namespace sbx;

std::optional<PolicyLayer> layer_of(unsigned language, std::string_view text) {
  if (language < 2) {
    Result<PolicyLayer> layer = parse_native_toml(text, "fuzz.toml");
    if (!layer.ok()) return std::nullopt;
    layer.value().may_only_tighten = language == 1;
    return layer.take();
  }
  if (language == 2) {
    bwrap::Surroundings around;
    around.directory = "/work";
    ParsedPolicy parsed = bwrap::read_policy(text, "fuzz", around);
    if (!parsed.mistakes.empty()) return std::nullopt;
    return std::move(parsed.layer);
  }
  const Result<nsjail::Config> config = nsjail::parse_config(text, "fuzz.cfg");
  if (!config.ok()) return std::nullopt;
  nsjail::LowerInput input;
  input.name = "fuzz.cfg";
  input.directory = "/work";
  input.variable = [](const std::string&) { return std::optional<std::string>("v"); };
  input.read = [](const std::string&) -> Result<std::string> { return std::string("POLICY a { ALLOW { read, write } } USE a DEFAULT KILL"); };
  nsjail::Lowered lowered = nsjail::to_policy(config.value(), input);
  for (const std::string& note : lowered.notes) HOLDS(!note.empty());
  for (const Error& error : lowered.mistakes) HOLDS(!error.text().empty());
  if (!lowered.wrong.empty() || !lowered.mistakes.empty()) return std::nullopt;
  return std::move(lowered.layer);
}

template <typename T>
bool within(const std::optional<T>& value, const std::optional<T>& most) {
  return !most || (value && value->value <= most->value);
}

void check_tighter(const SandboxSpec& spec, const SandboxSpec& base) {
  HOLDS(within(spec.limits.wall, base.limits.wall) && within(spec.limits.memory, base.limits.memory) && within(spec.limits.output, base.limits.output));
  HOLDS(within(spec.limits.cpu_time, base.limits.cpu_time) && within(spec.limits.file_size, base.limits.file_size));
  HOLDS(spec.limits.pids && *spec.limits.pids <= *base.limits.pids && spec.limits.open_files && *spec.limits.open_files <= *base.limits.open_files);
  HOLDS(spec.limits.disk.value <= base.limits.disk.value && spec.limits.inodes <= base.limits.inodes);
  HOLDS(spec.net == NetMode::none && !spec.hardening.nested_userns && spec.hardening.keep_capabilities.empty() && spec.hardening.landlock);
  HOLDS(spec.namespaces == base.namespaces && spec.seccomp.enabled);
  for (const FsOp& op : spec.fs) {
    if (const auto* bind = std::get_if<BindOp>(&op)) HOLDS(bind->read_only && !bind->devices && !bind->sockets);
  }
}

Result<SandboxSpec> resolved(std::vector<PolicyLayer> layers) {
  static const Result<PolicyLayer> defaults = load_policy("default", {});
  layers.insert(layers.begin(), defaults.value());
  ResolveInput input;
  input.rootfs = {DirOp{"/usr"}, SymlinkOp{"/bin", "usr/bin"}, ProcOp{}, DevOp{}, FileOp{"/etc/hostname", "sandbox\n"}};
  input.argv = {"true"};
  input.exec_path = "true";
  input.caller_environment = {{"A", "b"}, {"LANG", "C"}};
  return resolve(layers, facts_of_a_user(), std::move(input));
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 4096) return 0;  // bwrap's mistakes are looked for group by group
  const unsigned language = data[0] % 4;
  std::optional<PolicyLayer> layer = layer_of(language, fuzz::text_of(data + 1, size - 1));
  if (!layer) return 0;
  const Result<SandboxSpec> spec = resolved({*layer});
  if (!spec.ok()) {
    HOLDS(!spec.error().text().empty());
    return 0;
  }
  HOLDS(!spec.value().limits.memory || spec.value().limits.disk.value < spec.value().limits.memory->value);
  for (const FsOp& op : spec.value().fs) {
    std::visit([](const auto& any) { HOLDS(!any.target.empty() && any.target[0] == '/' && normalize_path(any.target) == any.target); }, op);
    HOLDS(runtime::fs_op_text(op).find('\n') == std::string::npos);
  }
  HOLDS(resolved({*layer}).value() == spec.value());
  HOLDS(runtime::spec_digest(spec.value()).size() == 64);
  if (language == 1) {
    static const SandboxSpec base = resolved({}).take();
    check_tighter(spec.value(), base);
  }

  ns::PlanOptions options;
  options.pids_controller = (size & 1) != 0;
  const Result<std::unique_ptr<ns::PlannedChild>> planned = ns::build_plan(spec.value(), facts_of_a_user(), options);
  if (!planned.ok()) {
    HOLDS(!planned.error().text().empty());
    return 0;
  }
  const ns::PlannedChild& child = *planned.value();
  HOLDS(!child.text().empty());
  HOLDS(!ns::system_calls_of(child.plan).empty());
  // Whatever step the status page says.
  for (uint32_t step = 0; step < child.plan.step_count + 2; ++step) HOLDS(!child.step_text(step).empty() && child.step_origin(step).find('\n') == std::string::npos);
  HOLDS(!child.step_text(~uint32_t{0}).empty());
  return 0;
}

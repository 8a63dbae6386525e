#include "ns/plan.h"

namespace sbx::ns {

const char* stage_name(Stage stage) {
  switch (stage) {
    case Stage::none: return "none";
    case Stage::clone: return "clone";
    case Stage::id_maps: return "id maps";
    case Stage::wait: return "wait for the id maps";
    case Stage::cgroup: return "enter cgroup";
    case Stage::identity: return "identity";
    case Stage::death_signal: return "death signal";
    case Stage::mounts: return "mounts";
    case Stage::pivot: return "pivot";
    case Stage::network: return "network namespace";
    case Stage::host_name: return "hostname";
    case Stage::loopback: return "loopback";
    case Stage::terminal: return "terminal";
    case Stage::hand_over: return "hand-over";
    case Stage::fork: return "fork";
    case Stage::session: return "session";
    case Stage::streams: return "streams";
    case Stage::working_directory: return "working directory";
    case Stage::affinity: return "cpu affinity";
    case Stage::capabilities: return "capabilities";
    case Stage::no_new_privs: return "no_new_privs";
    case Stage::landlock: return "landlock";
    case Stage::descriptors: return "descriptors";
    case Stage::rlimits: return "rlimits";
    case Stage::seccomp: return "seccomp";
    case Stage::exec: return "exec";
    case Stage::running: return "running";
  }
  return "unknown";
}

}  // namespace sbx::ns

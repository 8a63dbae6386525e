#include "policy/nsjail/schema.h"

#include <array>
#include <cstring>

namespace sbx::nsjail {
namespace {

// ---- accessors from a pointer to member ---------------------------------------------------------------------------

template <typename T>
struct Holder {
  static void* slot(T& field) { return &field; }
  static const void* read(const T& field, size_t index) { return index == 0 ? &field : nullptr; }
};
template <typename T>
struct Holder<std::optional<T>> {
  static void* slot(std::optional<T>& field) { return &field.emplace(); }
  static const void* read(const std::optional<T>& field, size_t index) { return index == 0 && field ? &*field : nullptr; }
};
template <typename T>
struct Holder<std::vector<T>> {
  static void* slot(std::vector<T>& field) { return &field.emplace_back(); }
  static const void* read(const std::vector<T>& field, size_t index) { return index < field.size() ? &field[index] : nullptr; }
};

template <typename M, typename T>
T value_of(T M::*);
template <typename M, typename T>
M message_of(T M::*);

template <auto Member>
void* slot_of(void* message) {
  using M = decltype(message_of(Member));
  return Holder<decltype(value_of(Member))>::slot(static_cast<M*>(message)->*Member);
}
template <auto Member>
const void* read_of(const void* message, size_t index) {
  using M = decltype(message_of(Member));
  return Holder<decltype(value_of(Member))>::read(static_cast<const M*>(message)->*Member, index);
}

// The type, and how often, follow from the member.
template <typename T>
struct Kind;
template <>
struct Kind<std::string> { static constexpr FieldType type = FieldType::text; };
template <>
struct Kind<bool> { static constexpr FieldType type = FieldType::boolean; };
template <>
struct Kind<uint32_t> { static constexpr FieldType type = FieldType::u32; };
template <>
struct Kind<uint64_t> { static constexpr FieldType type = FieldType::u64; };
template <>
struct Kind<int32_t> { static constexpr FieldType type = FieldType::i32; };
template <>
struct Kind<int64_t> { static constexpr FieldType type = FieldType::i64; };
template <typename T>
struct Plain { using type = T; static constexpr Label label = Label::optional; };
template <typename T>
struct Plain<std::optional<T>> { using type = T; static constexpr Label label = Label::optional; };
template <typename T>
struct Plain<std::vector<T>> { using type = T; static constexpr Label label = Label::repeated; };

template <auto Member>
constexpr Field scalar(const char* name, const char* doc, Support support = Support::works) {
  using P = Plain<decltype(value_of(Member))>;
  return {name, Kind<typename P::type>::type, P::label, support, doc, {}, nullptr, slot_of<Member>, read_of<Member>};
}
template <auto Member>
constexpr Field one_of(const char* name, std::span<const EnumName> choices, const char* doc, Support support = Support::works) {
  using P = Plain<decltype(value_of(Member))>;
  static_assert(sizeof(typename P::type) == sizeof(int32_t));
  return {name, FieldType::choice, P::label, support, doc, choices, nullptr, slot_of<Member>, read_of<Member>};
}
template <auto Member>
constexpr Field inner(const char* name, const Schema& schema, const char* doc, Support support = Support::works) {
  return {name, FieldType::message, Plain<decltype(value_of(Member))>::label, support, doc, {}, &schema, slot_of<Member>, read_of<Member>};
}
constexpr Field required(Field field) {
  field.label = Label::required;
  return field;
}
constexpr Field bytes(Field field) {
  field.type = FieldType::bytes;
  return field;
}

template <typename M>
constexpr Schema schema_of(const char* name, std::span<const Field> fields) {
  return {name, fields,
          [](void* message) -> Origins& { return static_cast<M*>(message)->origins; },
          [](const void* message) -> const Origins& { return static_cast<const M*>(message)->origins; },
          []() -> const void* {
            static const M untouched{};
            return &untouched;
          }};
}

// ---- the table ----------------------------------------------------------------------------------------------------

constexpr EnumName kModes[] = {{"LISTEN", 0}, {"ONCE", 1}, {"RERUN", 2}, {"EXECVE", 3}};
constexpr EnumName kLevels[] = {{"DEBUG", 0}, {"INFO", 1}, {"WARNING", 2}, {"ERROR", 3}, {"FATAL", 4}};
constexpr EnumName kRlimits[] = {{"VALUE", 0}, {"SOFT", 1}, {"HARD", 2}, {"INF", 3}};
constexpr EnumName kProtocols[] = {{"UNKNOWN_PROTO", 0}, {"TCP", 1}, {"UDP", 2}, {"ICMP", 3}, {"ICMPV6", 4}};
constexpr EnumName kTrafficActions[] = {{"UNKNOWN_ACTION", 0}, {"DROP", 1}, {"REJECT", 2}, {"ALLOW", 3}};
constexpr EnumName kFamilies[] = {{"IPV4", 0}, {"IPV6", 1}};
constexpr EnumName kBackends[] = {{"NSTUN", 0}, {"PASTA", 1}};
constexpr EnumName kDirections[] = {{"GUEST_TO_HOST", 0}, {"HOST_TO_GUEST", 1}};
constexpr EnumName kNstunActions[] = {{"DROP", 0}, {"REJECT", 1}, {"ALLOW", 2}, {"REDIRECT", 3}, {"ENCAP_SOCKS5", 4}, {"ENCAP_CONNECT", 5}};
constexpr EnumName kNstunProtocols[] = {{"ANY", 0}, {"TCP", 1}, {"UDP", 2}, {"ICMP", 3}};

constexpr Field kIdMap[] = {
    scalar<&IdMap::inside_id>("inside_id", "id inside: a name or a number; empty: the caller's own"),
    scalar<&IdMap::outside_id>("outside_id", "id outside: a name or a number; empty: the caller's own"),
    scalar<&IdMap::count>("count", "how many ids from there on"),
    scalar<&IdMap::use_newidmap>("use_newidmap", "have newuidmap or newgidmap write the map, for ids of /etc/subuid and /etc/subgid"),
};
constexpr Schema kIdMapSchema = schema_of<IdMap>("IdMap", kIdMap);

constexpr Field kMount[] = {
    scalar<&Mount::src>("src", "what is mounted: a path (relative to the caller's directory), or a link's text"),
    scalar<&Mount::prefix_src_env>("prefix_src_env", "a variable of the caller whose value stands before src"),
    bytes(scalar<&Mount::src_content>("src_content", "a file with these bytes instead of src")),
    required(scalar<&Mount::dst>("dst", "where, inside; always below the new root")),
    scalar<&Mount::prefix_dst_env>("prefix_dst_env", "a variable of the caller whose value stands before dst"),
    scalar<&Mount::fstype>("fstype", "type of file system: tmpfs, proc …"),
    scalar<&Mount::options>("options", "options of the file system; ignored for binds"),
    scalar<&Mount::is_bind>("is_bind", "src is a tree of the host, shown with everything mounted below it"),
    scalar<&Mount::rw>("rw", "writable; else read-only, with everything below"),
    scalar<&Mount::is_dir>("is_dir", "whether dst is made as a directory; unset: as src is"),
    scalar<&Mount::mandatory>("mandatory", "false: may be absent"),
    scalar<&Mount::is_symlink>("is_symlink", "a symbolic link at dst that says src"),
    scalar<&Mount::nosuid>("nosuid", "set-uid bits do nothing there"),
    scalar<&Mount::nodev>("nodev", "device files do not open there"),
    scalar<&Mount::noexec>("noexec", "nothing there is executed"),
};
constexpr Schema kMountSchema = schema_of<Mount>("MountPt", kMount);

constexpr Field kExe[] = {
    required(scalar<&Exe::path>("path", "what is executed, inside; no PATH is searched")),
    scalar<&Exe::arg>("arg", "arguments after the program's name"),
    scalar<&Exe::arg0>("arg0", "the program's name for itself; unset: path"),
    scalar<&Exe::exec_fd>("exec_fd", "path is opened before the jail is made, and executed by descriptor"),
};
constexpr Schema kExeSchema = schema_of<Exe>("Exe", kExe);

constexpr Field kTrafficRule[] = {
    scalar<&TrafficRule::src_ip>("src_ip", "", Support::refused),
    scalar<&TrafficRule::dst_ip>("dst_ip", "", Support::refused),
    scalar<&TrafficRule::iif>("iif", "", Support::refused),
    scalar<&TrafficRule::oif>("oif", "", Support::refused),
    one_of<&TrafficRule::proto>("proto", kProtocols, "", Support::refused),
    scalar<&TrafficRule::sport>("sport", "", Support::refused),
    scalar<&TrafficRule::sport_end>("sport_end", "", Support::refused),
    scalar<&TrafficRule::dport>("dport", "", Support::refused),
    scalar<&TrafficRule::dport_end>("dport_end", "", Support::refused),
    one_of<&TrafficRule::action>("action", kTrafficActions, "", Support::refused),
    one_of<&TrafficRule::ip_family>("ip_family", kFamilies, "", Support::refused),
};
constexpr Schema kTrafficRuleSchema = schema_of<TrafficRule>("TrafficRule", kTrafficRule);

constexpr Field kNstunRule[] = {
    one_of<&NstunRule::direction>("direction", kDirections, "", Support::refused),
    one_of<&NstunRule::action>("action", kNstunActions, "", Support::refused),
    one_of<&NstunRule::proto>("proto", kNstunProtocols, "", Support::refused),
    scalar<&NstunRule::src_ip>("src_ip", "", Support::refused),
    scalar<&NstunRule::sport>("sport", "", Support::refused),
    scalar<&NstunRule::sport_end>("sport_end", "", Support::refused),
    scalar<&NstunRule::dst_ip>("dst_ip", "", Support::refused),
    scalar<&NstunRule::dport>("dport", "", Support::refused),
    scalar<&NstunRule::dport_end>("dport_end", "", Support::refused),
    scalar<&NstunRule::redirect_ip>("redirect_ip", "", Support::refused),
    scalar<&NstunRule::redirect_port>("redirect_port", "", Support::refused),
};
constexpr Schema kNstunRuleSchema = schema_of<NstunRule>("NstunRule", kNstunRule);

constexpr Field kPasta[] = {
    scalar<&Pasta::nat>("nat", "", Support::refused),
    scalar<&Pasta::enable_tcp>("enable_tcp", "", Support::refused),
    scalar<&Pasta::enable_udp>("enable_udp", "", Support::refused),
    scalar<&Pasta::enable_icmp>("enable_icmp", "", Support::refused),
    scalar<&Pasta::ip4_enabled>("ip4_enabled", "", Support::refused),
    scalar<&Pasta::mask4>("mask4", "", Support::refused),
    scalar<&Pasta::enable_ip4_dhcp>("enable_ip4_dhcp", "", Support::refused),
    scalar<&Pasta::ip6_enabled>("ip6_enabled", "", Support::refused),
    scalar<&Pasta::mask6>("mask6", "", Support::refused),
    scalar<&Pasta::enable_ip6_dhcp>("enable_ip6_dhcp", "", Support::refused),
    scalar<&Pasta::enable_ip6_ra>("enable_ip6_ra", "", Support::refused),
    scalar<&Pasta::enable_dns>("enable_dns", "", Support::refused),
    scalar<&Pasta::dns_forward>("dns_forward", "", Support::refused),
    scalar<&Pasta::map_gw>("map_gw", "", Support::refused),
    scalar<&Pasta::tcp_map_in>("tcp_map_in", "", Support::refused),
    scalar<&Pasta::udp_map_in>("udp_map_in", "", Support::refused),
    scalar<&Pasta::tcp_map_out>("tcp_map_out", "", Support::refused),
    scalar<&Pasta::udp_map_out>("udp_map_out", "", Support::refused),
};
constexpr Schema kPastaSchema = schema_of<Pasta>("Pasta", kPasta);

constexpr Field kUserNet[] = {
    scalar<&UserNet::enable>("enable", "", Support::refused),
    scalar<&UserNet::ip>("ip", "", Support::refused),
    scalar<&UserNet::mask>("mask", "", Support::refused),
    scalar<&UserNet::gw>("gw", "", Support::refused),
    scalar<&UserNet::ip6>("ip6", "", Support::refused),
    scalar<&UserNet::mask6>("mask6", "", Support::refused),
    scalar<&UserNet::gw6>("gw6", "", Support::refused),
    scalar<&UserNet::ns_iface>("ns_iface", "", Support::refused),
    scalar<&UserNet::tcp_ports>("tcp_ports", "", Support::refused),
    scalar<&UserNet::udp_ports>("udp_ports", "", Support::refused),
    scalar<&UserNet::enable_ip4_dhcp>("enable_ip4_dhcp", "", Support::refused),
    scalar<&UserNet::enable_dns>("enable_dns", "", Support::refused),
    scalar<&UserNet::dns_forward>("dns_forward", "", Support::refused),
    scalar<&UserNet::enable_tcp>("enable_tcp", "", Support::refused),
    scalar<&UserNet::enable_udp>("enable_udp", "", Support::refused),
    scalar<&UserNet::enable_icmp>("enable_icmp", "", Support::refused),
    scalar<&UserNet::no_map_gw>("no_map_gw", "", Support::refused),
    scalar<&UserNet::enable_ip6_dhcp>("enable_ip6_dhcp", "", Support::refused),
    scalar<&UserNet::enable_ip6_ra>("enable_ip6_ra", "", Support::refused),
    one_of<&UserNet::backend>("backend", kBackends, "", Support::refused),
    inner<&UserNet::pasta>("pasta", kPastaSchema, "", Support::refused),
    inner<&UserNet::rule4>("rule4", kNstunRuleSchema, "", Support::refused),
    inner<&UserNet::rule6>("rule6", kNstunRuleSchema, "", Support::refused),
    scalar<&UserNet::ip4>("ip4", "", Support::refused),
    scalar<&UserNet::gw4>("gw4", "", Support::refused),
};
constexpr Schema kUserNetSchema = schema_of<UserNet>("UserNet", kUserNet);

constexpr Field kConfig[] = {
    scalar<&Config::name>("name", "what people call it", Support::comment),
    scalar<&Config::description>("description", "for people", Support::comment),
    one_of<&Config::mode>("mode", kModes, "ONCE: one program; RERUN: again and again; LISTEN: one for each connection; EXECVE: in the caller's own process"),
    scalar<&Config::hostname>("hostname", "name of the host, inside"),
    scalar<&Config::cwd>("cwd", "working directory of the program, inside"),
    scalar<&Config::no_pivotroot>("no_pivotroot", "chroot instead of pivot_root, for an initramfs; the old root stays reachable for who has CAP_SYS_CHROOT"),
    scalar<&Config::port>("port", "TCP port of LISTEN; 0: the kernel chooses"),
    scalar<&Config::bindhost>("bindhost", "address of LISTEN: IPv6, or an IPv4 literal"),
    scalar<&Config::max_conns>("max_conns", "connections at a time, 0: any number; more are closed at once"),
    scalar<&Config::max_conns_per_ip>("max_conns_per_ip", "connections at a time from one address, 0: any number"),
    scalar<&Config::time_limit>("time_limit", "seconds until the program is killed, 0: never"),
    scalar<&Config::daemon>("daemon", "go to the background; the log goes to /var/log/nsjail.log then"),
    scalar<&Config::max_cpus>("max_cpus", "CPUs that the program may use, 0: all"),
    scalar<&Config::nice_level>("nice_level", "priority, -20 to 19"),
    scalar<&Config::log_fd>("log_fd", "descriptor for the log; unset: 2"),
    scalar<&Config::log_file>("log_file", "file that the log is appended to"),
    one_of<&Config::log_level>("log_level", kLevels, "the least that is logged; unset: INFO"),
    scalar<&Config::keep_env>("keep_env", "the program gets the caller's environment"),
    scalar<&Config::envar>("envar", "NAME=VALUE, or NAME for the caller's own value"),
    scalar<&Config::keep_caps>("keep_caps", "keep every capability"),
    scalar<&Config::cap>("cap", "a capability to keep: CAP_NET_BIND_SERVICE"),
    scalar<&Config::silent>("silent", "stdin, stdout and stderr are /dev/null"),
    scalar<&Config::skip_setsid>("skip_setsid", "stay in the caller's session: job control, and whoever may type into the terminal may do so"),
    scalar<&Config::stderr_to_null>("stderr_to_null", "stderr is /dev/null"),
    scalar<&Config::pass_fd>("pass_fd", "a descriptor that stays open, beside 0, 1 and 2"),
    scalar<&Config::disable_no_new_privs>("disable_no_new_privs", "let set-uid programs gain rights; a seccomp policy forbids it again"),
    scalar<&Config::forward_signals>("forward_signals", "SIGINT and SIGTERM go to the program instead of killing it"),
    scalar<&Config::disable_tsc>("disable_tsc", "the time stamp counter cannot be read (x86)"),
    scalar<&Config::oom_score_adj>("oom_score_adj", "how gladly the kernel kills it when memory runs out, -1000 to 1000"),
    scalar<&Config::use_core_scheduling>("use_core_scheduling", "never share a core with programs of others"),
    scalar<&Config::rlimit_as>("rlimit_as", "address space, MiB"),
    one_of<&Config::rlimit_as_type>("rlimit_as_type", kRlimits, "VALUE: the number; SOFT, HARD: the caller's own limit; INF: none"),
    scalar<&Config::rlimit_core>("rlimit_core", "core file, MiB"),
    one_of<&Config::rlimit_core_type>("rlimit_core_type", kRlimits, "as rlimit_as_type"),
    scalar<&Config::rlimit_cpu>("rlimit_cpu", "CPU time, seconds"),
    one_of<&Config::rlimit_cpu_type>("rlimit_cpu_type", kRlimits, "as rlimit_as_type"),
    scalar<&Config::rlimit_fsize>("rlimit_fsize", "size of a file, MiB"),
    one_of<&Config::rlimit_fsize_type>("rlimit_fsize_type", kRlimits, "as rlimit_as_type"),
    scalar<&Config::rlimit_nofile>("rlimit_nofile", "open files"),
    one_of<&Config::rlimit_nofile_type>("rlimit_nofile_type", kRlimits, "as rlimit_as_type"),
    scalar<&Config::rlimit_nproc>("rlimit_nproc", "processes of the user; counts only with rlimit_nproc_type: VALUE"),
    one_of<&Config::rlimit_nproc_type>("rlimit_nproc_type", kRlimits, "as rlimit_as_type"),
    scalar<&Config::rlimit_stack>("rlimit_stack", "stack, MiB; counts only with rlimit_stack_type: VALUE"),
    one_of<&Config::rlimit_stack_type>("rlimit_stack_type", kRlimits, "as rlimit_as_type"),
    scalar<&Config::rlimit_memlock>("rlimit_memlock", "locked memory, KiB; counts only with rlimit_memlock_type: VALUE"),
    one_of<&Config::rlimit_memlock_type>("rlimit_memlock_type", kRlimits, "as rlimit_as_type"),
    scalar<&Config::rlimit_rtprio>("rlimit_rtprio", "real-time priority; counts only with rlimit_rtprio_type: VALUE"),
    one_of<&Config::rlimit_rtprio_type>("rlimit_rtprio_type", kRlimits, "as rlimit_as_type"),
    scalar<&Config::rlimit_msgqueue>("rlimit_msgqueue", "message queues, bytes; counts only with rlimit_msgqueue_type: VALUE"),
    one_of<&Config::rlimit_msgqueue_type>("rlimit_msgqueue_type", kRlimits, "as rlimit_as_type"),
    scalar<&Config::disable_rl>("disable_rl", "leave every rlimit as the caller has it"),
    scalar<&Config::persona_addr_compat_layout>("persona_addr_compat_layout", "personality ADDR_COMPAT_LAYOUT"),
    scalar<&Config::persona_mmap_page_zero>("persona_mmap_page_zero", "personality MMAP_PAGE_ZERO"),
    scalar<&Config::persona_read_implies_exec>("persona_read_implies_exec", "personality READ_IMPLIES_EXEC"),
    scalar<&Config::persona_addr_limit_3gb>("persona_addr_limit_3gb", "personality ADDR_LIMIT_3GB"),
    scalar<&Config::persona_addr_no_randomize>("persona_addr_no_randomize", "personality ADDR_NO_RANDOMIZE"),
    scalar<&Config::clone_newnet>("clone_newnet", "a network of its own; false: the host's"),
    scalar<&Config::clone_newuser>("clone_newuser", "a user namespace of its own; false needs root"),
    scalar<&Config::clone_newns>("clone_newns", "a view of files of its own"),
    scalar<&Config::clone_newpid>("clone_newpid", "process numbers of its own; the program is number 1"),
    scalar<&Config::clone_newipc>("clone_newipc", "System V IPC and message queues of its own"),
    scalar<&Config::clone_newuts>("clone_newuts", "a host name of its own"),
    scalar<&Config::clone_newcgroup>("clone_newcgroup", "a cgroup namespace of its own"),
    scalar<&Config::clone_newtime>("clone_newtime", "a time namespace of its own"),
    inner<&Config::uidmap>("uidmap", kIdMapSchema, "user ids: the first entry's inside_id is the program's; none: the caller's, mapped to itself"),
    inner<&Config::gidmap>("gidmap", kIdMapSchema, "group ids, likewise"),
    scalar<&Config::mount_proc>("mount_proc", "mount proc after all listed mounts"),
    inner<&Config::mount>("mount", kMountSchema, "what is seen inside, in order"),
    scalar<&Config::seccomp_policy_file>("seccomp_policy_file", "file with a Kafel policy, read before the jail is made"),
    scalar<&Config::seccomp_string>("seccomp_string", "a Kafel policy; the lines of several are joined"),
    scalar<&Config::seccomp_log>("seccomp_log", "the kernel logs what the policy does not allow"),
    scalar<&Config::seccomp_unotify>("seccomp_unotify", "record files and connections by user notification", Support::refused),
    scalar<&Config::seccomp_unotify_report>("seccomp_unotify_report", "file for that record", Support::refused),
    scalar<&Config::cgroup_mem_max>("cgroup_mem_max", "memory of the whole jail, bytes; 0: no limit"),
    scalar<&Config::cgroup_mem_memsw_max>("cgroup_mem_memsw_max", "memory and swap together, bytes; 0: no limit"),
    scalar<&Config::cgroup_mem_swap_max>("cgroup_mem_swap_max", "swap, bytes; -1: no limit"),
    scalar<&Config::cgroup_mem_mount>("cgroup_mem_mount", "where the v1 memory controller is mounted", Support::cgroup_v1),
    scalar<&Config::cgroup_mem_parent>("cgroup_mem_parent", "v1 cgroup below it", Support::cgroup_v1),
    scalar<&Config::cgroup_pids_max>("cgroup_pids_max", "processes and threads of the whole jail; 0: no limit"),
    scalar<&Config::cgroup_pids_mount>("cgroup_pids_mount", "where the v1 pids controller is mounted", Support::cgroup_v1),
    scalar<&Config::cgroup_pids_parent>("cgroup_pids_parent", "v1 cgroup below it", Support::cgroup_v1),
    scalar<&Config::cgroup_net_cls_classid>("cgroup_net_cls_classid", "class of network packets", Support::refused),
    scalar<&Config::cgroup_net_cls_mount>("cgroup_net_cls_mount", "where the v1 net_cls controller is mounted", Support::cgroup_v1),
    scalar<&Config::cgroup_net_cls_parent>("cgroup_net_cls_parent", "v1 cgroup below it", Support::cgroup_v1),
    scalar<&Config::cgroup_cpu_ms_per_sec>("cgroup_cpu_ms_per_sec", "CPU time of the whole jail, ms a second; 0: no limit"),
    scalar<&Config::cgroup_cpu_mount>("cgroup_cpu_mount", "where the v1 cpu controller is mounted", Support::cgroup_v1),
    scalar<&Config::cgroup_cpu_parent>("cgroup_cpu_parent", "v1 cgroup below it", Support::cgroup_v1),
    scalar<&Config::cgroupv2_mount>("cgroupv2_mount", "cgroup v2 directory below which the jail's own is made"),
    scalar<&Config::use_cgroupv2>("use_cgroupv2", "limits by cgroup v2"),
    scalar<&Config::detect_cgroupv2>("detect_cgroupv2", "the same, if cgroupv2_mount is cgroup v2"),
    scalar<&Config::iface_no_lo>("iface_no_lo", "the loopback interface stays down"),
    scalar<&Config::iface_own>("iface_own", "a network interface of the host that moves inside", Support::refused),
    scalar<&Config::macvlan_iface>("macvlan_iface", "interface of the host that is cloned as vs", Support::refused),
    scalar<&Config::macvlan_vs_ip>("macvlan_vs_ip", "its address", Support::refused),
    scalar<&Config::macvlan_vs_nm>("macvlan_vs_nm", "its network mask", Support::refused),
    scalar<&Config::macvlan_vs_gw>("macvlan_vs_gw", "its gateway", Support::refused),
    scalar<&Config::macvlan_vs_ma>("macvlan_vs_ma", "its hardware address", Support::refused),
    scalar<&Config::macvlan_vs_mo>("macvlan_vs_mo", "its mode", Support::refused),
    inner<&Config::traffic_rule>("traffic_rule", kTrafficRuleSchema, "routing rules inside", Support::refused),
    inner<&Config::user_net>("user_net", kUserNetSchema, "a network in user space", Support::refused),
    inner<&Config::exec_bin>("exec_bin", kExeSchema, "what is executed; words after -- replace the arguments, not the path"),
};
constexpr Schema kConfigSchema = schema_of<Config>("NsJailConfig", kConfig);

std::string quote_text(const std::string& bytes) {
  std::string text = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '\n': text += "\\n"; continue;
      case '\t': text += "\\t"; continue;
      case '\r': text += "\\r"; continue;
      case '"': text += "\\\""; continue;
      case '\\': text += "\\\\"; continue;
      default: break;
    }
    if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {  // three digits always: what follows may be one
      text += {'\\', static_cast<char>('0' + (byte >> 6)), static_cast<char>('0' + (byte >> 3 & 7)), static_cast<char>('0' + (byte & 7))};
    }
  }
  return text + '"';
}

void write_message(const Schema& schema, const void* message, const std::string& indent, std::string& text) {
  for (const Field& field : schema.fields) {
    for (size_t index = 0; const void* value = field.read(message, index); ++index) {
      if (field.type == FieldType::message) {
        text += indent + field.name + " {\n";
        write_message(*field.message, value, indent + "  ", text);
        text += indent + "}\n";
        continue;
      }
      const std::string written = value_text(field, value);
      if (field.label == Label::optional && written == default_text(field, schema)) continue;
      text += indent + field.name + ": " + written + "\n";
    }
  }
}

}  // namespace

const Field* Schema::find(std::string_view field) const {
  for (const Field& row : fields)
    if (field == row.name) return &row;
  return nullptr;
}

const Schema& config_schema() { return kConfigSchema; }

const char* type_name(const Field& field) {
  switch (field.type) {
    case FieldType::text: return "string";
    case FieldType::bytes: return "bytes";
    case FieldType::boolean: return "bool";
    case FieldType::u32: return "uint32";
    case FieldType::u64: return "uint64";
    case FieldType::i32: return "int32";
    case FieldType::i64: return "int64";
    case FieldType::message: return field.message->name;
    case FieldType::choice: break;
  }
  if (field.choices.data() == kModes) return "Mode";
  if (field.choices.data() == kLevels) return "LogLevel";
  if (field.choices.data() == kRlimits) return "RLimit";
  return "enum";
}

std::string default_text(const Field& field, const Schema& schema) {
  const void* value = field.type == FieldType::message ? nullptr : field.read(schema.defaults(), 0);
  return value == nullptr ? std::string() : value_text(field, value);
}

std::string value_text(const Field& field, const void* value) {
  switch (field.type) {
    case FieldType::text:
    case FieldType::bytes: return quote_text(*static_cast<const std::string*>(value));
    case FieldType::boolean: return *static_cast<const bool*>(value) ? "true" : "false";
    case FieldType::u32: return std::to_string(*static_cast<const uint32_t*>(value));
    case FieldType::u64: return std::to_string(*static_cast<const uint64_t*>(value));
    case FieldType::i32: return std::to_string(*static_cast<const int32_t*>(value));
    case FieldType::i64: return std::to_string(*static_cast<const int64_t*>(value));
    case FieldType::choice: {
      int32_t number = 0;
      std::memcpy(&number, value, sizeof number);
      for (const EnumName& choice : field.choices)
        if (choice.number == number) return choice.name;
      return std::to_string(number);
    }
    case FieldType::message: break;
  }
  return {};
}

std::string write_textproto(const Config& config) {
  std::string text;
  write_message(kConfigSchema, &config, "", text);
  return text;
}

}  // namespace sbx::nsjail

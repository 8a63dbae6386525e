// One configuration of nsjail, as its files (text format or JSON) and its command line say it. Plain values with the
// documented defaults; what each field means stands in the schema table (schema.cc), which parser, writer, flags and
// docs/nsjail.md share. The release that is equalled is 3.6; fields that came later are read too.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sbx::nsjail {

enum class Mode : int32_t { listen = 0, once = 1, rerun = 2, execve = 3 };
enum class LogLevel : int32_t { debug = 0, info = 1, warning = 2, error = 3, fatal = 4 };
// value: the field's number; soft, hard: the limit that the caller has; inf: none.
enum class RlimitType : int32_t { value = 0, soft = 1, hard = 2, inf = 3 };

// Where each field of one message was said, by the field's name: one entry an occurrence ("jail.cfg:3:1",
// "flag --hostname"). A field that nobody mentioned has none. No part of the value: two messages that say the same are
// equal wherever they came from.
struct Origins {
  std::map<std::string, std::vector<std::string>, std::less<>> of;
  bool has(std::string_view field) const { return of.find(field) != of.end(); }
  // Of the index'th occurrence; "" : nobody said it.
  std::string at(std::string_view field, size_t index = 0) const {
    const auto found = of.find(field);
    return found == of.end() || index >= found->second.size() ? std::string() : found->second[index];
  }
  bool operator==(const Origins&) const { return true; }
};

struct IdMap {
  std::string inside_id;   // a name or a number; "" : the caller's
  std::string outside_id;
  uint32_t count = 1;
  bool use_newidmap = false;
  Origins origins;
  bool operator==(const IdMap&) const = default;
};

struct Mount {
  std::string src;
  std::string prefix_src_env;
  std::string src_content;  // bytes
  std::string dst;          // required
  std::string prefix_dst_env;
  std::string fstype;
  std::string options;
  bool is_bind = false;
  bool rw = false;
  std::optional<bool> is_dir;
  bool mandatory = true;
  bool is_symlink = false;
  bool nosuid = false;
  bool nodev = false;
  bool noexec = false;
  Origins origins;
  bool operator==(const Mount&) const = default;
};

struct Exe {
  std::string path;  // required
  std::vector<std::string> arg;
  std::optional<std::string> arg0;
  bool exec_fd = false;
  Origins origins;
  bool operator==(const Exe&) const = default;
};

// Read, and then refused: no part of a jail is made of these (docs/nsjail.md, differences).
struct TrafficRule {
  std::string src_ip, dst_ip, iif, oif;
  int32_t proto = 0;
  std::optional<uint32_t> sport, sport_end, dport, dport_end;
  int32_t action = 1;
  int32_t ip_family = 0;
  Origins origins;
  bool operator==(const TrafficRule&) const = default;
};
struct NstunRule {
  int32_t direction = 0, action = 2, proto = 0;
  std::string src_ip, dst_ip, redirect_ip;
  std::optional<uint32_t> sport, sport_end, dport, dport_end, redirect_port;
  Origins origins;
  bool operator==(const NstunRule&) const = default;
};
struct Pasta {
  bool nat = true, enable_tcp = true, enable_udp = true, enable_icmp = true, ip4_enabled = true, ip6_enabled = true, map_gw = true;
  bool enable_ip4_dhcp = false, enable_ip6_dhcp = false, enable_ip6_ra = false, enable_dns = false;
  std::string mask4 = "255.255.255.0", mask6 = "64", dns_forward;
  std::string tcp_map_in = "none", tcp_map_out = "none", udp_map_in = "none", udp_map_out = "none";
  Origins origins;
  bool operator==(const Pasta&) const = default;
};
struct UserNet {
  // Up to release 3.6; `ip` and `gw` are ip4 and gw4 since.
  bool enable = false;
  std::string ip = "10.255.255.2", mask = "255.255.255.0", gw = "10.255.255.1", mask6 = "64";
  std::string tcp_ports = "none", udp_ports = "none", dns_forward;
  bool enable_ip4_dhcp = false, enable_dns = false, enable_tcp = true, enable_udp = true, enable_icmp = true;
  bool no_map_gw = false, enable_ip6_dhcp = false, enable_ip6_ra = false;
  // Both
  std::string ip6 = "fc00::2", gw6 = "fc00::1", ns_iface = "eth0";
  // Later
  int32_t backend = 0;
  std::string ip4 = "10.255.255.2", gw4 = "10.255.255.1";
  std::vector<NstunRule> rule4, rule6;
  std::optional<Pasta> pasta;
  Origins origins;
  bool operator==(const UserNet&) const = default;
};

struct Config {
  std::string name;
  std::vector<std::string> description;

  Mode mode = Mode::once;
  std::string hostname = "NSJAIL";
  std::string cwd = "/";
  bool no_pivotroot = false;
  uint32_t port = 0;
  std::string bindhost = "::";
  uint32_t max_conns = 0;
  uint32_t max_conns_per_ip = 0;
  uint32_t time_limit = 600;  // seconds; 0: none
  bool daemon = false;
  uint32_t max_cpus = 0;
  int32_t nice_level = 19;

  std::optional<int32_t> log_fd;
  std::optional<std::string> log_file;
  std::optional<LogLevel> log_level;

  bool keep_env = false;
  std::vector<std::string> envar;  // "A=b", or "A": the caller's value
  bool keep_caps = false;
  std::vector<std::string> cap;
  bool silent = false;
  bool skip_setsid = false;
  bool stderr_to_null = false;
  std::vector<int32_t> pass_fd;
  bool disable_no_new_privs = false;
  bool forward_signals = false;
  bool disable_tsc = false;
  std::optional<int32_t> oom_score_adj;
  bool use_core_scheduling = false;

  uint64_t rlimit_as = 4096;  // MiB
  RlimitType rlimit_as_type = RlimitType::value;
  uint64_t rlimit_core = 0;  // MiB
  RlimitType rlimit_core_type = RlimitType::value;
  uint64_t rlimit_cpu = 600;  // seconds
  RlimitType rlimit_cpu_type = RlimitType::value;
  uint64_t rlimit_fsize = 1;  // MiB
  RlimitType rlimit_fsize_type = RlimitType::value;
  uint64_t rlimit_nofile = 32;
  RlimitType rlimit_nofile_type = RlimitType::value;
  uint64_t rlimit_nproc = 1024;
  RlimitType rlimit_nproc_type = RlimitType::soft;
  uint64_t rlimit_stack = 8;  // MiB
  RlimitType rlimit_stack_type = RlimitType::soft;
  uint64_t rlimit_memlock = 64;  // KiB
  RlimitType rlimit_memlock_type = RlimitType::soft;
  uint64_t rlimit_rtprio = 0;
  RlimitType rlimit_rtprio_type = RlimitType::soft;
  uint64_t rlimit_msgqueue = 1024;  // bytes
  RlimitType rlimit_msgqueue_type = RlimitType::soft;
  bool disable_rl = false;

  bool persona_addr_compat_layout = false;
  bool persona_mmap_page_zero = false;
  bool persona_read_implies_exec = false;
  bool persona_addr_limit_3gb = false;
  bool persona_addr_no_randomize = false;

  bool clone_newnet = true;
  bool clone_newuser = true;
  bool clone_newns = true;
  bool clone_newpid = true;
  bool clone_newipc = true;
  bool clone_newuts = true;
  bool clone_newcgroup = true;
  bool clone_newtime = false;

  std::vector<IdMap> uidmap;
  std::vector<IdMap> gidmap;
  bool mount_proc = false;
  std::vector<Mount> mount;

  std::optional<std::string> seccomp_policy_file;
  std::vector<std::string> seccomp_string;
  bool seccomp_log = false;
  bool seccomp_unotify = false;
  std::optional<std::string> seccomp_unotify_report;

  uint64_t cgroup_mem_max = 0;  // bytes; 0: off
  uint64_t cgroup_mem_memsw_max = 0;
  int64_t cgroup_mem_swap_max = -1;
  std::string cgroup_mem_mount = "/sys/fs/cgroup/memory";
  std::string cgroup_mem_parent = "NSJAIL";
  uint64_t cgroup_pids_max = 0;
  std::string cgroup_pids_mount = "/sys/fs/cgroup/pids";
  std::string cgroup_pids_parent = "NSJAIL";
  uint32_t cgroup_net_cls_classid = 0;
  std::string cgroup_net_cls_mount = "/sys/fs/cgroup/net_cls";
  std::string cgroup_net_cls_parent = "NSJAIL";
  uint32_t cgroup_cpu_ms_per_sec = 0;
  std::string cgroup_cpu_mount = "/sys/fs/cgroup/cpu";
  std::string cgroup_cpu_parent = "NSJAIL";
  std::string cgroupv2_mount = "/sys/fs/cgroup";
  bool use_cgroupv2 = false;
  bool detect_cgroupv2 = false;

  bool iface_no_lo = false;
  std::vector<std::string> iface_own;
  std::optional<std::string> macvlan_iface;
  std::string macvlan_vs_ip = "192.168.0.2";
  std::string macvlan_vs_nm = "255.255.255.0";
  std::string macvlan_vs_gw = "192.168.0.1";
  std::string macvlan_vs_ma;
  std::string macvlan_vs_mo = "private";
  std::vector<TrafficRule> traffic_rule;
  std::optional<UserNet> user_net;

  std::optional<Exe> exec_bin;

  Origins origins;
  bool operator==(const Config&) const = default;
};

}  // namespace sbx::nsjail

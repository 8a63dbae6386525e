// The attempts themselves, with raw system calls: what a C library would refuse beforehand proves nothing. Each returns
// what the kernel answered, kHidden or kUntried (answer.h), and undoes what it made. The process ends right after it.
#pragma once

#include "selftest/bait.h"

namespace sbx::selftest::tries {

// ---- system calls
long keyctl(const Bait&);
long add_key(const Bait&);
long request_key(const Bait&);
long io_uring_setup(const Bait&);
long x32(const Bait&);
long int80(const Bait&);
long userfaultfd(const Bait&);
long ptrace_traceme(const Bait&);
long process_vm_readv(const Bait&);
long kcmp(const Bait&);
long pidfd_getfd(const Bait&);
long perf_event_open(const Bait&);
long bpf(const Bait&);
long init_module(const Bait&);
long finit_module(const Bait&);
long kexec_load(const Bait&);
long swapon(const Bait&);
long reboot(const Bait&);
long syslog(const Bait&);
long fanotify_init(const Bait&);
long iopl(const Bait&);
long modify_ldt(const Bait&);
long personality(const Bait&);
long adjtimex(const Bait&);
long clock_adjtime(const Bait&);
long prctl_mm(const Bait&);
long prctl_core(const Bait&);
long tiocsti(const Bait&);
long tiocsti_high(const Bait&);
long tioclinux(const Bait&);
long tiocsetd(const Bait&);
long socket_vsock(const Bait&);
long socket_alg(const Bait&);
long socket_packet(const Bait&);
long socket_raw(const Bait&);
long socket_netfilter(const Bait&);
long socket_xfrm(const Bait&);
long kernel_tls(const Bait&);
long io_setup(const Bait&);
long memfd_secret(const Bait&);
long lease(const Bait&);

// ---- namespaces, mounts, privileges
long unshare_user(const Bait&);
long clone_user(const Bait&);
long clone3_user(const Bait&);
long unshare_mount(const Bait&);
long unshare_pid(const Bait&);
long unshare_net(const Bait&);
long unshare_ipc(const Bait&);
long unshare_uts(const Bait&);
long unshare_cgroup(const Bait&);
long netfilter(const Bait&);
long mount_tmpfs(const Bait&);
long fsopen(const Bait&);
long open_tree(const Bait&);
long remount(const Bait&);
long chroot(const Bait&);
long pivot_root(const Bait&);
long setns(const Bait&);
long sethostname(const Bait&);
long open_by_handle(const Bait&);
long mknod_device(const Bait&);
long new_privileges(const Bait&);
long permitted_capability(const Bait&);
long bounding_capability(const Bait&);
long setuid_root(const Bait&);
long second_id(const Bait&);
long file_capability(const Bait&);

// ---- init, /proc, /dev, other processes
long init_memory(const Bait&);
long init_environment(const Bait&);
long init_root(const Bait&);
long init_attach(const Bait&);
long init_read(const Bait&);
long settings_core(const Bait&);
long settings_modprobe(const Bait&);
long settings_sysrq(const Bait&);
long settings_uevent(const Bait&);
long settings_binfmt(const Bait&);
long window_kcore(const Bait&);
long window_kmsg(const Bait&);
long window_dev_kmsg(const Bait&);
long window_mem(const Bait&);
long window_keys(const Bait&);
long window_kallsyms(const Bait&);
long fact_cmdline(const Bait&);
long fact_interrupts(const Bait&);
long fact_machine_id(const Bait&);
long fact_dmi(const Bait&);
long devices(const Bait&);
long see_process(const Bait&);
long signal_process(const Bait&);
long descriptors(const Bait&);
long environment(const Bait&);
long environment_of_init(const Bait&);
long cgroup_files(const Bait&);

// ---- what lies outside
long home(const Bait&);
long shadow(const Bait&);
long temporary_file(const Bait&);
long shared_memory(const Bait&);
long write_bait(const Bait&);
long write_usr(const Bait&);
long write_etc(const Bait&);
long abstract_socket(const Bait&);
long path_socket(const Bait&);
long loopback(const Bait&);
long route(const Bait&);
long metadata(const Bait&);
long segment(const Bait&);

// ---- limits
long many_processes(const Bait&);
long much_memory(const Bait&);
long much_disk(const Bait&);
long much_time(const Bait&);
long raise_priority(const Bait&);
long real_time(const Bait&);
long raise_files(const Bait&);
long core_file(const Bait&);

}  // namespace sbx::selftest::tries

// calls [-f] KIND N [FILE…]: does something N times and prints nanoseconds for one, the least of five rounds (what disturbs only
// adds). What a sandbox costs it is the ratio of two such numbers, one from inside and one from outside;
// tests/bench/bench.py makes them.
//
//   allowed    getppid, which the kernel serves from its bitmap of calls that a filter always allows
//   tested     an ioctl, whose number the default filter compares
//   errno      io_uring_setup, which the filter answers with ENOSYS
//   reported   acct, which the supervisor hears of and answers
//   stat       stat of FILE
//   copy       FILE copied to the second one, read and write by 64 KiB
//   pour       N writes of 64 KiB to stdout, once
//   drain      reads stdin to its end, once
//
// -f loads a filter of one instruction first, which allows everything: what the kernel takes for any filter at all.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char block[65536];
static char** files;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void copy(void) {
  const int from = open(files[0], O_RDONLY | O_CLOEXEC), to = open(files[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (from < 0 || to < 0) exit(3);
  for (ssize_t got; (got = read(from, block, sizeof block)) > 0;) {
    if (write(to, block, (size_t)got) != got) exit(3);
  }
  close(from);
  close(to);
}

static void one(const char* kind) {
  struct stat info;
  if (!strcmp(kind, "allowed")) syscall(SYS_getppid);
  else if (!strcmp(kind, "tested")) syscall(SYS_ioctl, -1, 0x5401, 0);  // EBADF
  else if (!strcmp(kind, "errno")) syscall(425, 0, 0);
  else if (!strcmp(kind, "reported")) syscall(SYS_acct, "");            // EPERM by the filter and by the kernel
  else if (!strcmp(kind, "stat")) { if (stat(files[0], &info) != 0) exit(3); }
  else if (!strcmp(kind, "copy")) copy();
  else exit(2);
}

static void load_filter(void) {
  struct sock_filter allow = {.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW};
  struct sock_fprog program = {.len = 1, .filter = &allow};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) exit(3);
}

int main(int argc, char** argv) {
  if (argc > 1 && !strcmp(argv[1], "-f")) {
    load_filter();
    ++argv;
    --argc;
  }
  if (argc < 3) return 2;
  const long loops = atol(argv[2]);
  files = argv + 3;
  if (!strcmp(argv[1], "pour")) {
    for (long i = 0; i < loops; ++i) {
      for (size_t done = 0; done < sizeof block;) {
        const ssize_t put = write(1, block + done, sizeof block - done);
        if (put <= 0) return 3;
        done += (size_t)put;
      }
    }
    return 0;
  }
  if (!strcmp(argv[1], "drain")) {
    while (read(0, block, sizeof block) > 0) continue;
    return 0;
  }
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const double began = seconds();
    for (long i = 0; i < loops; ++i) one(argv[1]);
    const double took = (seconds() - began) / (double)loops;
    if (took < best) best = took;
  }
  printf("%.1f\n", best * 1e9);
  return 0;
}

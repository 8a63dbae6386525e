/* fork, pipe, waitpid, signals and a shared mapping. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t signals;
static void count(int signal) { (void)signal; signals++; }

int main(void) {
  int down[2], up[2];
  long *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pipe(down) || pipe(up) || shared == MAP_FAILED) return 1;
  pid_t child = fork();
  if (child == 0) {
    close(down[1]);
    close(up[0]);
    char line[64];
    ssize_t n;
    while ((n = read(down[0], line, sizeof line)) > 0) {
      for (ssize_t i = 0; i < n / 2; i++) {
        char swap = line[i];
        line[i] = line[n - 1 - i];
        line[n - 1 - i] = swap;
      }
      if (write(up[1], line, (size_t)n) != n) _exit(2);
      shared[0] += n;
    }
    _exit(9);
  }
  close(down[0]);
  close(up[1]);
  const char *words[] = {"stressed", "level", "sandbox"};
  for (int i = 0; i < 3; i++) {
    char answer[65] = "";
    if (write(down[1], words[i], strlen(words[i])) < 0 || read(up[0], answer, 64) < 0) return 1;
    printf("%s -> %s\n", words[i], answer);
  }
  close(down[1]);
  int status;
  waitpid(child, &status, 0);
  printf("child ended with %d after %ld bytes\n", WEXITSTATUS(status), shared[0]);

  struct sigaction action = {.sa_handler = count};
  sigaction(SIGUSR1, &action, NULL);
  fflush(stdout);
  for (int i = 0; i < 3; i++) raise(SIGUSR1);
  if ((child = fork()) == 0) { signal(SIGTERM, SIG_DFL); pause(); _exit(0); }
  kill(child, SIGTERM);
  waitpid(child, &status, 0);
  printf("%d signals; child ended by %s\n", (int)signals, WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "itself");
  return 0;
}

import os

import trying

ROOT = sorted(os.listdir("/"))


def same_root(path):
    return "same" if sorted(os.listdir(path)) == ROOT else "ANOTHER"


for pid in ("1", "self", "thread-self"):
    trying.attempt(f"/proc/{pid}/root", same_root, f"/proc/{pid}/root")
    trying.attempt(f"/proc/{pid}/cwd/../../../..", same_root, f"/proc/{pid}/cwd/../../../../../../..")
trying.attempt("/proc/self/fd/0/..", same_root, "/proc/self/fd/0/../../../../..")
trying.attempt("init's program for reading", open, "/proc/1/exe", "rb")
trying.attempt("init's program for writing", open, "/proc/1/exe", "r+b")
trying.attempt("own program for writing", open, "/proc/self/exe", "r+b")
trying.attempt("own exe for reading", open, "/proc/self/exe", "rb")
trying.attempt("map_files", lambda: os.open("/proc/self/map_files/" + os.listdir("/proc/self/map_files")[0], os.O_RDWR))

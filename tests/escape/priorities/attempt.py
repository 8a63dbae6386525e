import os
import resource

import trying


def oom():
    before = int(open("/proc/self/oom_score_adj").read())
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("-900")
    except OSError:
        pass
    return "not lowered" if int(open("/proc/self/oom_score_adj").read()) >= before else "lowered"


def raise_limit(what):
    soft, hard = resource.getrlimit(what)
    try:
        resource.setrlimit(what, (soft, hard + 1))
    except ValueError:
        return "EPERM"


trying.attempt("nice -20", os.setpriority, os.PRIO_PROCESS, 0, -20)
trying.attempt("SCHED_FIFO", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
trying.attempt("SCHED_RR", lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)))
trying.attempt("oom_score_adj", oom)
for name in ("RLIMIT_CORE", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE", "RLIMIT_SIGPENDING"):
    if resource.getrlimit(getattr(resource, name))[1] != resource.RLIM_INFINITY:
        trying.attempt("raise " + name, raise_limit, getattr(resource, name))

import os

import trying

NUMBER = 157 if os.uname().machine == "x86_64" else 167
for name, words in {"PR_SET_MM": (35, 8, 0x10000, 0, 0), "PR_SCHED_CORE": (62, 1, 0, 0, 0), "PR_SET_SECUREBITS": (28, 0, 0, 0, 0),
                    "PR_CAP_AMBIENT": (47, 2, 12, 0, 0), "an unknown option": (0x12345678, 0, 0, 0, 0), "PR_SET_NO_NEW_PRIVS to 0": (38, 0, 0, 0, 0)}.items():
    trying.attempt(name, trying.call, NUMBER, *words)
trying.attempt("PR_SET_NAME", trying.call, NUMBER, 15, b"other", 0, 0, 0)

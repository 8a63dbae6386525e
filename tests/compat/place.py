"""Where run.py put what the cases compare: upstream's sources and binary, and ours."""

trees = {}       # version of the suite: its sources
baseline = None  # upstream's binary
ours = None      # a link named bwrap to the binary under test
guard = ""      # guard.py, where everybody may read it
trouble = "run by tests/compat/run.py only"  # why there is nothing to compare; None: there is

nsjail_upstream = None  # nsjail's binary
nsjail_ours = None      # a link named nsjail to the binary under test
nsjail_trouble = trouble

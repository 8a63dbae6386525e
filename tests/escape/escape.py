"""The escape suite: a directory a case. tests/run.py loads it; tests/escape/table.py makes docs/containment.md of it.

`NAME/case.py` holds CASE, an Attack: what is attempted, what must stop it, and the control, which is the same sandbox
with only that protection taken away. A program of the attempt's own lies beside it as `attempt.py`; most attempts are
sub-commands of tests/probe/probe.c. Either prints a line `name: answer` for each try, where the answer is `ok` (it
worked), an errno's name, or a word of the case's own.
"""

import importlib.util
import pathlib
import re
import sys

import harness
from harness import Failure

HERE = pathlib.Path(__file__).resolve().parent
SHIPPED = ("default", "strict", "judge", "build", "network")
FORKING = ("default", "judge", "build", "network")  # strict starts no process
ISOLATED = ("default", "strict", "judge", "build")  # network shares the host's

REFUSED = r"EPERM|EACCES|ENOSYS|ENOENT|EROFS|ENOSPC|EINVAL|ESRCH|ENOTTY|EAFNOSUPPORT|ENXIO|EUSERS"
FILTERED = r"EPERM|ENOSYS"
MOUNTS_ALLOWED = """
[hardening]
capabilities = ["cap_sys_admin", "cap_sys_chroot"]
landlock = false
[seccomp]
allow = ["@mount", "@namespaces"]
"""


class Control:
    """`text` says what is taken away, and stands in the table. `how`:
    "sandbox": the same sandbox with `flags`, and with `policy` (TOML) as a further policy;
    "namespaces": bare namespaces with all capabilities in them (unshare(1)), no filter: for what no flag takes away;
    "outside": without a sandbox, for what harms nobody."""

    def __init__(self, text, flags=(), policy="", how="sandbox", answers="ok", tries=None, instead=None, absent="", as_=("root", "user")):
        self.text, self.flags, self.policy, self.how = text, tuple(flags), policy, how
        self.answers = answers  # regular expression: at least these `tries` (default all) must answer so
        self.tries = tries
        self.instead = instead  # other tries of the probe: on an object that is not protected
        self.absent = absent    # what a kernel says that has no such thing: then the control shows nothing, and says so
        self.as_ = as_


class Layer:
    """One protection fewer, and still refused: two hold the same place."""

    def __init__(self, text, flags=(), policy="", answers=REFUSED, tries=None):
        self.text, self.flags, self.policy, self.answers, self.tries = text, tuple(flags), policy, answers, tries


class Attack:
    def __init__(self, what, classes, blocked_by, tries=(), program=(), answers=REFUSED, special=None, control=None, layers=(),
                 policies=SHIPPED, flags=(), run=None, no_control="", **registration):
        self.what, self.classes, self.blocked_by = what, classes, blocked_by
        self.tries = tuple(tries)      # of the probe
        self.program = tuple(program)  # instead: arguments of attempt.py, ("",) for none
        self.answers, self.special = answers, special or {}
        self.control, self.layers, self.no_control = control, tuple(layers), no_control
        self.policies, self.flags = tuple(policies), tuple(flags)
        self.run = run                 # instead of all that: a function of the Context; returns what it saw, and the control's
        self.registration = registration


def evidence_text(answers):
    groups = {}
    for name, answer in answers.items():
        groups.setdefault(answer, []).append(name)
    return "; ".join(f"{', '.join(names) if len(names) < 9 else f'{len(names)} tries'}: {answer}" for answer, names in groups.items())


class Runner:
    def __init__(self, t, folder, attack):
        self.t, self.folder, self.attack = t, folder, attack
        self.counter = 0

    def inside(self, flags, policy, tries=None):
        """One run in a sandbox; {try: answer}."""
        t = self.t
        flags = [flag.replace("{case}", str(self.folder)) for flag in flags]
        if policy:
            self.counter += 1
            flags += ["--policy", t.file(f"control-{self.counter}.toml", policy)]
        if self.attack.program:
            done = t.sbx("exec", *flags, "--mount", f"{self.folder}:/opt/attack", "--mount", f"{self.folder.parent / 'inside'}:/opt/inside",
                         "--env", "PYTHONPATH=/opt/inside", "--env", "PYTHONDONTWRITEBYTECODE=1", "--", "/usr/bin/python3",
                         "/opt/attack/attempt.py", *[word for word in self.attack.program if word], result=True)
        else:
            done = t.probed("each", *(tries or self.attack.tries), flags=flags, result=True)
        return self.answers_of(done)

    def answers_of(self, done):
        if done.verdict == "denied":
            return {self.attack.tries[0] if self.attack.tries else "attempt": "killed"}
        if done.status != 0:
            raise Failure("the attempt could not be made\n" + done.describe())
        answers = dict(re.findall(r"(?m)^(.+): (.+)$", done.text))
        if not answers:
            raise Failure("the attempt says nothing\n" + done.describe())
        return answers

    def elsewhere(self, how):
        t = self.t
        prefix = ["unshare", "-U", "-r", "-m", "-p", "-f", "-n", "-i", "-u"] if how == "namespaces" else []
        if self.attack.program:
            words = ["/usr/bin/python3", str(self.folder / "attempt.py"), *[word for word in self.attack.program if word]]
        else:
            words = [t.probe, "each", *self.attack.tries]
        done = t.run(prefix + words, env={"PYTHONPATH": str(self.folder.parent / "inside"), "PYTHONDONTWRITEBYTECODE": "1"})
        if done.status != 0:
            return {} if prefix else {"attempt": f"status {done.status}"}
        return dict(re.findall(r"(?m)^(.+): (.+)$", done.text))

    def refuse(self, answers, where, pattern=None):
        for name, answer in answers.items():
            wanted = pattern or self.attack.special.get(name, self.attack.answers)
            if not re.fullmatch(wanted, answer):
                raise Failure(f"{where}: {name}: {answer!r}, wanted /{wanted}/")

    def __call__(self):
        attack, t = self.attack, self.t
        t.file("share/file", "shared\n")
        t.file("share/file2", "shared\n")
        first = None
        for policy in attack.policies:
            flags = list(attack.flags) + ([] if policy == "default" else ["--policy", policy])
            answers = self.inside(flags, "")
            self.refuse(answers, f"policy {policy}")
            first = first or answers
        for layer in attack.layers:
            answers = self.inside(list(attack.flags) + list(layer.flags), layer.policy)
            self.refuse({name: answers[name] for name in layer.tries or answers}, layer.text, layer.answers)
        return evidence_text(first), self.show_control()

    def show_control(self):
        control, t = self.attack.control, self.t
        if control is None:
            return ""
        if t.user not in control.as_:
            return "not as this identity"
        if control.how == "sandbox":
            answers = self.inside(list(self.attack.flags) + list(control.flags), control.policy, control.instead)
        else:
            if control.how == "namespaces" and not harness.have("unshare"):
                return "no unshare(1) here"
            answers = self.elsewhere(control.how)
            if not answers:
                return "this host makes no bare namespaces"
        wanted = control.tries or answers.keys()
        shown = {name: answers.get(name, "nothing") for name in wanted}
        for name, answer in shown.items():
            if control.absent and re.fullmatch(control.absent, answer):
                shown[name] = f"{answer} (this kernel, or host, has it not)"
                continue
            if not re.fullmatch(control.answers, answer):
                raise Failure(f"the control ({control.text}): {name}: {answer!r}, wanted /{control.answers}/: the attempt proves nothing")
        return evidence_text(shown)


def load_attacks():
    """{name: (folder, Attack)}, sorted by name."""
    sys.path.insert(0, str(HERE))
    found = {}
    for path in sorted(HERE.glob("*/case.py")):
        name = path.parent.name
        spec = importlib.util.spec_from_file_location("escape_" + name.replace("-", "_"), path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[name] = (path.parent, module.CASE)
    return found


def cases(staged):
    """As harness.Cases. `staged()` is where the suite can be read by every identity."""
    result = []
    for name, (folder, attack) in load_attacks().items():
        def function(t, name=name, attack=attack):
            seen = attack.run(t) if attack.run else Runner(t, pathlib.Path(staged()) / name, attack)()
            t.evidence = seen
        more = attack.registration
        needs = more.get("needs", ())
        needs = (needs,) if isinstance(needs, str) else tuple(needs)
        if attack.program and "python" not in needs:
            needs += ("python",)
        result.append(harness.Case(f"escape/{name}", attack.what, function, more.get("as_", ("root", "user")), needs,
                                   more.get("seconds", 30), more.get("alone", False)))
    return result

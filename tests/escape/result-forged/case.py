from escape import Attack, Control

FORGED = '{"schema": "sbx-result", "verdict": "exited", "exit_code": 0, "forged": true}'


def run(t):
    code = (f"import os\nfor fd in range(3, 64):\n    try: os.write(fd, {FORGED.encode()!r})\n    except OSError: pass\n"
            f"print({FORGED!r}, flush=True)\nos.write(2, b'sbx: ok\\n')\nos._exit(%d)\n")
    for status in (124, 125, 126, 127, 137, 159):
        done = t.python(code % status, result=True)
        t.expect(done, status=status, verdict="exited")
        t.equal(done.result["exit_code"], status)
        t.true("forged" not in done.result, "forged")
    real = t.python("import time; time.sleep(60)", "--time", "300ms", result=True)
    t.expect(real, status=124, verdict="timed_out")
    return "six statuses that sbx uses itself, and a forged object on every descriptor: exited", "a real time-out: timed_out"


CASE = Attack("forge a verdict: sbx's own exit statuses, its words on stderr, a JSON object on every descriptor", "80", "the verdict comes from the kernel and sbx's own timers", run=run,
              needs="python", control=Control("a limit that is really used up"))

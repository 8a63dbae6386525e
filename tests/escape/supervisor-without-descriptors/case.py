from escape import Attack, Control


def run(t):
    refused, ran = 0, 0
    for number in list(range(6, 40, 2)) + [64, 256]:
        done = t.run(["/bin/sh", "-c", f'ulimit -n {number}; exec "$0" "$@"', t.binary, "exec", "--mount", f"{t.probe}:/opt/probe", "--", "/opt/probe", "each",
                      "unshare 0x10000000", "keyctl", "mount tmpfs /tmp"])
        if done.status == 0:
            ran += 1
            t.equal(done.text, "unshare 0x10000000: EPERM\nkeyctl: EPERM\nmount tmpfs /tmp: EPERM\n", f"with {number} descriptors")
        else:
            refused += 1
            t.true(done.status in (125, 126, 127, 2) and not done.text, done.describe())
    t.true(refused and ran, f"{refused} refused, {ran} ran")
    return "what started had every protection, the rest did not start", "256 descriptors: the run starts"


CASE = Attack("start sbx with hardly any descriptors left, so that a protection cannot be put up", "58", "fail closed", run=run, seconds=40, needs=("plain-build",),
              control=Control("with enough of them it runs"))

from escape import Attack, Control

NAMES = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "GITHUB_ENV", "SSH_AUTH_SOCK", "DOCKER_HOST", "GIT_ASKPASS", "NODE_OPTIONS", "BASH_ENV", "ENV",
         "PYTHONSTARTUP", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "ACTIONS_RUNTIME_TOKEN", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY")


def run(t):
    env = {name: "XYZZY" for name in NAMES}
    for words in (("exec", "--", "env"), ("exec", "--", "/bin/sh", "-c", "cat /proc/*/environ /proc/*/cmdline 2>/dev/null; true")):
        t.no_match(t.sbx(*words, env=env).text, "XYZZY|--mount", "the environment, or a command line of sbx")
    shown = t.sbx("exec", "--env", "GITHUB_TOKEN", "--", "env", env=env).text
    t.match(shown, "^GITHUB_TOKEN=XYZZY$", "the control")
    return f"none of {len(NAMES)} variables, neither in the payload nor in init", "--env GITHUB_TOKEN: there"


CASE = Attack("read secrets in the caller's environment, or in what init keeps of it", "9, 15", "a clean environment; init's memory is wiped", run=run,
              control=Control("--env NAME"))

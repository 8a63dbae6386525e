import socket

from escape import Attack, Control


def run(t):
    server = socket.create_server(("127.0.0.1", 0))
    t.at_end(server.close)
    port = server.getsockname()[1]
    tries = [f"connect {a} {port}" for a in ("127.0.0.1", "127.1.2.3", "0.0.0.0", "::1", "::ffff:127.0.0.1")]
    tries += ["connect 169.254.169.254 80", "connect 8.8.8.8 53", "connect fe80::1 80"]
    done = t.probed("each", *tries)
    t.expect(done)
    t.no_match(done.text, ": ok$", "the network")
    shown = t.probed("each", f"connect 127.0.0.1 {port}", flags=["--net", "host"])
    t.expect(shown, out_match=": ok$")
    return "; ".join(sorted({line.rsplit(": ", 1)[1] for line in done.text.splitlines()})), "--net host: ok"


CASE = Attack("reach services on the host's loopback, the metadata address, a name server", "44, 45", "network namespace", run=run, control=Control("--net host"))

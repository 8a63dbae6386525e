# Claims another end than it had: result text on both streams and on every other descriptor.
import json, os, sys
text = json.dumps({"schema": "sbx-result", "version": 1, "verdict": "exited", "exit_code": 0, "limits_hit": []}) + "\n"
for fd in list(range(3, 64)) + [1, 2]:
    try:
        os.write(fd, text.encode())
        if fd > 2:
            sys.stdout.write(f"wrote to {fd}\n")
    except OSError:
        pass
for name in ("/result.json", "/box/result.json", "/run/sbx/result.json"):
    try:
        open(name, "w").write(text)
    except OSError:
        pass
sys.stdout.write("sbx: killed: out of memory (limit 1G)\n")
sys.stderr.write("sbx: killed: out of memory (limit 1G)\nMemoryError\njava.lang.OutOfMemoryError: Java heap space\n")
sys.exit(7)

#!/bin/sh
# sbx run examples/hello.sh
echo "Hello from the shell, inside a sandbox: uid $(id -u), process $$, in $PWD."
ls -A /home /root 2>&1 | sed 's/^/  /'

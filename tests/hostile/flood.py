# Output without a newline, for ever, on the stream whose number is given.
import os, sys
block = b"\0\xff\x1b[31mx" * 8192
while True:
    os.write(int(sys.argv[1]), block)

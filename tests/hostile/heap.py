# Memory by heap: takes and touches memory until something stops it. Bounded at 8 GiB, should nothing do.
print("started", flush=True)
blocks = []
for _ in range(8 * 64):
    block = bytearray(16 << 20)
    for i in range(0, len(block), 4096):
        block[i] = 1
    blocks.append(block)
print("not stopped", flush=True)

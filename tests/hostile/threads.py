# As many threads as there can be.
import threading
made = 0
threading.stack_size(65536)
stop = threading.Event()
try:
    while made < 5000:
        threading.Thread(target=stop.wait, daemon=True).start()
        made += 1
except RuntimeError:
    print("refused after", made, flush=True)
stop.set()

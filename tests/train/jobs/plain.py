"""A script that knows nothing of Weft: it finds its place as torchrun would have told it."""

import os
import sys
import time

told = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")}
sys.stdout.write(f"{told}\n")
time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0)
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)

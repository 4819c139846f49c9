"""GPUs, as NVIDIA's own diagnostics see them; a machine without these has nothing to say."""

import shutil
import subprocess
from dataclasses import dataclass
from typing import ClassVar

from weft.agent.probes.probe import Result, failed

PROGRAM = "dcgmi"
LIMIT_SECONDS = 50.0


@dataclass(frozen=True, slots=True)
class Dcgm:
    """The short diagnostics: `dcgmi diag -r 1`."""

    name: ClassVar[str] = "dcgm"
    level: int = 1

    @staticmethod
    def is_here() -> bool:
        return shutil.which(PROGRAM) is not None

    def run(self) -> Result:
        done = subprocess.run(
            [PROGRAM, "diag", "-r", str(self.level)],
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        bad = [line for line in done.stdout.splitlines() if "Fail" in line]
        if done.returncode or bad:
            said = bad or done.stderr.strip().splitlines() or [f"status {done.returncode}"]
            return failed(self.name, " ".join(said[0].split())[:200])
        return Result(probe=self.name, passed=True, value=1.0, unit="passed")

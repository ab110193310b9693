"""CPU time, memory and CPU placement of processes, read from Linux."""

from __future__ import annotations

import ctypes
import os
import platform
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_LOOPS = 500_000

_libc = ctypes.CDLL(None, use_errno=True)


def process_tree(pid: int) -> list[int]:
    """`pid` and its living descendants."""
    found = [pid]
    for parent in found:  # grows while it is walked
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def cpu_seconds(pid: int) -> float:
    """User + system time `pid` and its living descendants have used, all threads, in seconds.

    Read from the processes' CPU clocks (clock_getcpuclockid(3)): exact to the nanosecond, where the times of
    /proc/PID/stat count in ticks of 10 ms.
    """
    clock = ctypes.c_int()
    total = 0.0
    for process in process_tree(pid):
        error = _libc.clock_getcpuclockid(process, ctypes.byref(clock))
        if error:
            raise OSError(error, f"no CPU clock for process {process}: {os.strerror(error)}")
        total += time.clock_gettime(clock.value)
    return total


def thread_cpu_seconds(pid: int) -> dict[int, float]:
    """Time each living thread of `pid` has run, by thread id (Linux: sched-stats, exact to the nanosecond)."""
    folders = Path(f"/proc/{pid}/task").iterdir()
    return {int(folder.name): int((folder / "schedstat").read_text().split()[0]) / 1e9 for folder in folders}


def fixed_loop_ms(cpus: set[int]) -> float:
    """CPU time of a fixed amount of Python on one of these CPUs, in milliseconds: how fast they are at the moment."""
    usual = os.sched_getaffinity(0)  # of this thread
    os.sched_setaffinity(0, cpus)
    try:
        begun = time.thread_time()
        for _ in range(_LOOPS):
            pass
        return (time.thread_time() - begun) * 1000
    finally:
        os.sched_setaffinity(0, usual)


def rss_bytes(pid: int) -> int:
    """Resident memory (VmRSS) of `pid` and its living descendants; pages they share count for each."""
    return sum(_status_bytes(process, "VmRSS") for process in process_tree(pid))


def forget_peak(pid: int) -> None:
    """`peak_rss_bytes` begins again with what `pid` has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_rss_bytes(pid: int) -> int:
    """The most resident memory (VmHWM) that `pid` has had."""
    return _status_bytes(pid, "VmHWM")


def _status_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"/proc/{pid}/status has no {field}: has the process ended?")


def split_cpus() -> tuple[set[int], set[int]]:
    """The CPUs to use: one for the proxy, the others for agent and load generator (the same one if it is the only)."""
    proxy, *others = sorted(os.sched_getaffinity(0), reverse=True)
    return {proxy}, set(others) or {proxy}


def pin_to(cpus: set[int]) -> Callable[[], None]:
    """A `preexec_fn` for subprocess that keeps the new process, and its children, on `cpus`."""
    return lambda: os.sched_setaffinity(0, cpus)


def machine() -> dict[str, str | int | float]:
    """What the figures depend on: CPU, cores, kernel, Python, and the load average as the run starts."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), platform.machine())
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": f"{platform.python_version()}, {_build()}",
        "load_average": round(os.getloadavg()[0], 2),
    }


def _build() -> str:
    """How the interpreter was built: without profile-guided optimization (PGO), all targets take a seventh more CPU."""
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return "built with PGO" if "--enable-optimizations" in options else "built without PGO"


@dataclass(frozen=True)
class Use:
    """What the machine's CPUs were used for since it started, in seconds."""

    total: float
    idle: float
    ours: float
    """By this process, and those that it has started."""

    @classmethod
    def now(cls) -> Use:
        # user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)), in ticks
        ticks = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
        seconds = [count / os.sysconf("SC_CLK_TCK") for count in ticks]
        ended = os.times()
        ours = cpu_seconds(os.getpid()) + ended.children_user + ended.children_system
        return cls(sum(seconds), seconds[3] + seconds[4], ours)

    def shares_since(self, before: Use) -> dict[str, float]:
        """Shares of the CPU time since then: `idle`, and `others`, which other programs or machines took."""
        total, idle, ours = self.total - before.total, self.idle - before.idle, self.ours - before.ours
        if not total:
            return {"idle": 0.0, "others": 0.0}
        return {"idle": idle / total, "others": max(0.0, (total - idle - ours) / total)}

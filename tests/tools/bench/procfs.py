"""CPU time, memory and CPU placement of processes, read from Linux."""

from __future__ import annotations

import ctypes
import os
import platform
import sysconfig
import time
from collections.abc import Callable
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
    total = 0
    for process in process_tree(pid):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return total * 1024


def split_cpus() -> tuple[set[int], set[int]]:
    """The CPUs to use: one for the proxy, the others for agent and load generator (the same one if it is the only)."""
    proxy, *others = sorted(os.sched_getaffinity(0), reverse=True)
    return {proxy}, set(others) or {proxy}


def pin_to(cpus: set[int]) -> Callable[[], None]:
    """A `preexec_fn` for subprocess that keeps the new process, and its children, on `cpus`."""
    return lambda: os.sched_setaffinity(0, cpus)


def machine() -> str:
    """What the figures depend on: CPU, cores, kernel, Python and how it was built (without profile-guided optimization,
    PGO, all targets take a seventh more CPU), and the load average now."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), platform.machine())
    pgo = "with" if "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "") else "without"
    return (
        f"{model}, {len(os.sched_getaffinity(0))} cores, Linux {platform.release()}, "
        f"Python {platform.python_version()}, built {pgo} PGO; load average at the start {os.getloadavg()[0]:.2f}"
    )


def ticks() -> list[int]:
    """What the CPUs were used for since the machine started: user, nice, system, idle, iowait, irq, softirq, steal."""
    return [int(count) for count in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


def own_seconds() -> float:
    """CPU time of this process and those that it has started, in seconds."""
    ended = os.times()
    return cpu_seconds(os.getpid()) + ended.children_user + ended.children_system

"""What the comparison of two kinds of runs makes of JUnit reports."""

from __future__ import annotations

from pathlib import Path

from conformance.outcomes import Outcome, counts, differences, read

_REPORT = """\
<testsuites><testsuite name="pytest">
  <testcase classname="tests.a" name="test_passes"/>
  <testcase classname="tests.a" name="test_fails"><failure message="-32603 from 127.0.0.1:{port}">.</failure></testcase>
  <testcase classname="tests.a" name="test_breaks">
    <error message="task {task} in {time}s&#10; +  where {task} = x">...</error>
  </testcase>
  <testcase classname="tests.b" name="test_skips[grpc]"><skipped type="pytest.skip" message="no gRPC"/></testcase>
  <testcase classname="tests.b" name="test_known"><skipped type="pytest.xfail" message=""/></testcase>
</testsuite></testsuites>
"""


def _report(folder: Path, port: int, task: str, time: str) -> Path:
    file = folder / f"{port}.xml"
    file.write_text(_REPORT.format(port=port, task=task, time=time), "utf-8")
    return file


def test_outcomes_are_without_what_each_run_changes(tmp_path: Path) -> None:
    one = read(_report(tmp_path, 40123, "6ec30ac1-f46e-40f7-863a-0a0bdd898c69", "0.31"))
    assert one == {
        "tests.a::test_passes": Outcome("passed"),
        "tests.a::test_fails": Outcome("failed", "-32603 from 127.0.0.1:…"),
        "tests.a::test_breaks": Outcome("error", "task … in …"),
        "tests.b::test_skips[grpc]": Outcome("skipped", "no gRPC"),
        "tests.b::test_known": Outcome("xfailed"),
    }
    assert one == read(_report(tmp_path, 5123, "bd9ebb2c-2289-4adc-848e-ab200526d554", "12.5"))
    assert counts(one) == "1 passed, 1 failed, 1 error, 1 skipped, 1 xfailed"


def test_only_what_direct_runs_never_show_is_new() -> None:
    passed, failed, otherwise = Outcome("passed"), Outcome("failed", "-32001"), Outcome("failed", "-32603")
    direct = [{"same": passed, "flaky": passed, "alone": passed, "code": failed, "gone": passed}]
    direct += [{"same": passed, "flaky": failed, "alone": failed, "code": failed, "gone": passed}]
    proxied = [{"same": passed, "flaky": failed, "alone": failed, "code": otherwise}]
    proxied += [{"same": passed, "flaky": passed, "alone": failed, "code": failed}]
    found = {difference.test: difference for difference in differences(direct, proxied)}
    assert {test: difference.new for test, difference in found.items()} == {"alone": False, "code": True, "gone": True}
    assert found["gone"].proxied == [Outcome("missing"), Outcome("missing")]

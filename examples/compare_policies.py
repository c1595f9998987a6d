"""Compare policies on a trace of your own: python compare_policies.py jobs.csv 15x4 report.html

Without arguments it makes up a small workload, so that it runs anywhere.
"""

import sys

import headway


def main() -> None:
    """Compare three policies, print their figures, and write the report."""
    trace, cluster, report = (
        *sys.argv[1:],
        *("synthetic:tiresias-480?jobs=120", "15x4", "report.html")[len(sys.argv) - 1 :],
    )
    results = headway.compare(trace, cluster, ["fifo", "srtf", "tiresias-l"], preemption_cost="30s")
    first = results[0].summary["jct_s"]["mean"]
    for result in results:
        mean = result.summary["jct_s"]["mean"]
        print(f"{result.summary['policy']:12} mean JCT {mean:8,.0f} s, {mean / first:.2f}x of fifo")
    slowest = results[-1].jobs["jct_s"].argmax()
    print("the slowest job under tiresias-l:", results[-1].jobs["job_id"][slowest])
    results.report(report)
    print("wrote", report)


if __name__ == "__main__":
    main()

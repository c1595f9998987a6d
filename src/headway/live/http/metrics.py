"""The manager's numbers for Prometheus, by its naming conventions: base units, _total for counts of events only, histograms for times."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from headway import __version__
from headway.live.manager.manager import Manager
from headway.live.measures import folded

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# What a metric says, where its name does not.
HELP = {
    "headway_gpus": "GPUs of the cluster.",
    "headway_gpus_free": "GPUs that nobody holds.",
    "headway_gpus_open": "GPUs of the nodes that take jobs.",
    "headway_journal_writable": "1 while the journal can be written; at 0 nothing is accepted.",
    "headway_journal_behind_rows": "Rows that are recorded but not in the journal yet.",
    "headway_errors_total": "What went wrong since the manager started; `headway health` names the last.",
}
# Times of the manager's own work, by the beginning of their names.
WORK = {
    "decision": "Time that a decision took.",
    "round": "Time that a round took: facts recorded, decided and noted.",
    "journal_commit": "Time until the journal had a round on disk.",
}


class Collector:
    """Jobs by state and queue, plain numbers by name (those that end in _total are counters), and histograms."""

    def __init__(self, manager: Manager, operates: bool) -> None:
        self.counts, self.values = manager.counts(), manager.metrics()
        self.work, self.waits, self.waiting = manager.measured()
        if not operates:
            self.waits = folded(self.waits, manager.queue_names)
            self.waiting = folded(self.waiting, manager.queue_names)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric once."""
        build = GaugeMetricFamily("headway_build_info", "1, with the version.", labels=["version"])
        build.add_metric([__version__], 1.0)
        yield build
        jobs = GaugeMetricFamily("headway_jobs", "Jobs by state.", labels=["state"])
        for state, count in self.counts.items():
            jobs.add_metric([state], count)
        yield jobs
        queues = GaugeMetricFamily("headway_jobs_waiting", "Jobs that wait, by queue.", labels=["queue"])
        for queue, count in sorted(self.waiting.items()):
            queues.add_metric([queue], count)
        yield queues
        for name, value in sorted(self.values.items()):
            text = name.removeprefix("headway_").replace("_", " ").capitalize() + "."
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(name, HELP.get(name, text), value=value)
        for name, text in WORK.items():
            histogram = self.work[name]
            yield HistogramMetricFamily(
                f"headway_{name}_duration_seconds", text, histogram.cumulative(), histogram.total
            )
        text = "Time from submission to the first start, by queue."
        waits = HistogramMetricFamily("headway_job_wait_seconds", text, labels=["queue"])
        for queue, waited in sorted(self.waits.items()):
            waits.add_metric([queue], waited.cumulative(), waited.total)
        yield waits


def prometheus_text(manager: Manager, operates: bool) -> bytes:
    """Return the metrics in Prometheus' text format; `operates`: with the names of all queues."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(manager, operates))
    return generate_latest(registry)

"""The manager's numbers for Prometheus."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# What a metric says, where its name does not.
HELP = {
    "headway_gpus_total": "GPUs of the cluster.",
    "headway_gpus_free": "GPUs that nobody holds.",
    "headway_gpus_open": "GPUs of the nodes that take jobs.",
    "headway_journal_writable": "1 while the journal can be written; at 0 nothing is accepted.",
}
# Ends in _total, but is not a count of events.
GAUGES = frozenset({"headway_gpus_total"})


class Collector:
    """Jobs by state, and plain numbers by name; names that end in _total are counters."""

    def __init__(self, counts: Mapping[str, int], values: Mapping[str, float]) -> None:
        self.counts, self.values = counts, values

    def collect(self) -> Iterator[Metric]:
        """Every metric once."""
        jobs = GaugeMetricFamily("headway_jobs", "Jobs by state.", labels=["state"])
        for state, count in self.counts.items():
            jobs.add_metric([state], count)
        yield jobs
        for name, value in sorted(self.values.items()):
            words = name.removeprefix("headway_").replace("_", " ").capitalize() + "."
            family = CounterMetricFamily if name.endswith("_total") and name not in GAUGES else GaugeMetricFamily
            yield family(name, HELP.get(name, words), value=value)


def prometheus_text(counts: Mapping[str, int], values: Mapping[str, float]) -> bytes:
    """The metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(counts, values))
    return generate_latest(registry)

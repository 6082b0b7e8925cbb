"""What a server counts, for Prometheus: requests, texts, cuts, refusals, batches, times.

Owns names and labels; labels take values from fixed lists only, so that memory does not grow with what clients send.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

__all__ = ["Counters"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Counters:
    """One server's counts, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        place = self._registry
        self.requests = Counter("agentic_r_requests", "Answers sent.", ["route", "status"], registry=place)
        self.seconds = Histogram(
            "agentic_r_request_seconds", "From headers to answer.", ["route"], buckets=_SECONDS, registry=place
        )
        self.texts = Counter("agentic_r_texts", "Texts encoded.", ["kind"], registry=place)
        self.tokens = Counter("agentic_r_tokens", "Tokens encoded.", ["kind"], registry=place)
        self.cut = Counter("agentic_r_texts_cut", "Texts longer than the encoder's limit.", ["kind"], registry=place)
        self.refused = Counter("agentic_r_refused", "Requests refused.", ["reason"], registry=place)
        self.batch = Histogram("agentic_r_batch_texts", "Texts encoded at once.", buckets=_TEXTS, registry=place)
        self.searches = Histogram(
            "agentic_r_batch_searches", "Queries searched at once.", buckets=_TEXTS, registry=place
        )
        self.inside = Gauge("agentic_r_texts_inside", "Texts waiting or at work.", registry=place)

    def page(self) -> bytes:
        """Return all counts in the exposition format."""
        return generate_latest(self._registry)

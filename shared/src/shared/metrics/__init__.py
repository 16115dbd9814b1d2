"""What services count. `declared` says what there is and stands alone; `book` holds the values, in Prometheus' format."""

from shared.metrics.book import OTHER, Book
from shared.metrics.declared import DECLARED, Metric, Service

__all__ = ["DECLARED", "OTHER", "Book", "Metric", "Service"]

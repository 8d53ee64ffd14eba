"""Ways to measure that several experiments share."""

import dataclasses

from . import holders
from .figures import Figure


def latencies(run):
    """What stands beside a throughput."""
    yield Figure("latency, average", "ms", run.latency, "less")
    for share, name in (0.95, "p95"), (0.99, "p99"), (1, "worst"):
        value = run.percentile(share)
        if value is not None:
            yield Figure(f"latency, {name}", "ms", value, "less")


@dataclasses.dataclass(frozen=True)
class Explained:
    milliseconds: float
    planning: float


def explain(connection, query):
    """Run a query as EXPLAIN ANALYZE does."""
    told = holders.execute(connection, f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {query}")[0][0][0]
    return Explained(told["Execution Time"], told["Planning Time"])


def index_pages(connection, query, index):
    """How often the query, with its planning, asked for a page of that index."""
    count = f"SELECT coalesce(pg_stat_get_xact_blocks_fetched('{index}'::regclass), 0)"
    try:
        # The counter is the session's since it last reported; it reports between transactions only.
        before = holders.execute(connection, "BEGIN", count)[0][0]
        return holders.execute(connection, f"EXPLAIN (ANALYZE, TIMING OFF) {query}", count)[0][0] - before
    finally:
        holders.execute(connection, "ROLLBACK")


def flushes(arm):
    """How often the server's log was flushed to disk, since it counts."""
    if arm.place.major >= 18:
        return float(arm.value("SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'") or 0)
    return float(arm.value("SELECT wal_sync FROM pg_stat_wal"))


def log_bytes(arm, statement):
    """Seconds of a statement, and bytes of the server's log that it wrote."""
    arm.sql("CHECKPOINT")
    before = arm.value("SELECT pg_current_wal_insert_lsn()")
    seconds, _ = arm.timed(statement)
    return seconds, float(arm.value(f"SELECT pg_current_wal_insert_lsn() - '{before}'"))

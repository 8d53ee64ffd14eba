import csv
import pathlib
import subprocess
import threading

import harness

from steadybench import experiment, places
from steadybench.experiment import Case
from steadybench.figures import Figure, Target
from steadybench.measures import latencies

BUFFERS_MB = 32
# Three rows a page, in an order that has nothing to do with how often they are looked up.
LOOKUPS = """\\set r random_zipfian(1, {rows}, 1.05)
\\set k permute(:r, {rows}) + 1
\\set kind random(1, 20)
\\if :kind > 1
SELECT v FROM t WHERE k = :k;
\\else
SELECT count(v) FROM t WHERE k BETWEEN :k AND :k + 50;
\\endif
"""
# What goes on beside the look-ups, by case.
BESIDE = {
    "look-ups": None,
    "scans": "SELECT count(v) FROM under_a_quarter",
    "large scan": "SELECT count(v) FROM large",
}


class Beside:
    """A session that repeats a query until the block ends."""

    def __init__(self, arm, query):
        self.arm, self.query, self.over = arm, query, threading.Event()
        self.times = 0
        self.thread = threading.Thread(target=self.repeat) if query else None

    def repeat(self):
        connection = self.arm.connect("-c max_parallel_workers_per_gather=0")
        with connection.cursor() as cursor:
            while not self.over.is_set():
                cursor.execute(self.query)
                self.times += 1
        connection.close()

    def __enter__(self):
        if self.thread:
            self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        if self.thread:
            self.thread.join()


class Buffers(experiment.Experiment):
    """Shared buffers much smaller than the data, replaced by the server's own way (core), by a clock without a
    freelist, and by S3-FIFO. Look-ups by a Zipf distribution, one in twenty a range; beside them nothing, a scan that is
    repeated and just small enough to use no ring, or one of a large table. What was read is in the kernel's memory: the
    hit ratio tells what a disk would see. The same accesses are recorded and given to the simulator, which knows the optimum."""

    name, title, order = "buffers", "Buffer replacement", 145
    arms, base = ("core", "clock", "s3fifo"), "core"
    sizes = {"seconds": (1, 5, 30, 300), "rows": (3000, 60_000, 300_000, 1_000_000)}
    rounds = (1, 2, 3, 5)
    one_schema = True
    plotted = ("hit ratio of the look-ups", "throughput", "latency, p99")

    def cases(self):
        needs = frozenset({"hook for buffer replacement"})
        for name, query in BESIDE.items():
            yield Case(name, needs=needs, more=dict(query=query))
        yield Case("drop", "DROP of a table that fills the buffers", needs=needs, more=dict(query=None))

    def spec(self, case, arm):
        return places.Spec((("shared_preload_libraries", "steady"), ("steady.buffer_policy", arm),
                            ("shared_buffers", f"{BUFFERS_MB}MB"), ("bgwriter_delay", "10ms")))

    def prepare(self, case, arm):
        quarter = BUFFERS_MB * 1024 * 1024 // 4 * 9 // 10 // 8192
        for name, width, rows in (("t", 2500, self.at.rows), ("under_a_quarter", 7000, quarter),
                                  ("large", 7000, self.at.rows // 4)):
            self.fill(arm, name, width, rows)
        arm.sql("CREATE INDEX t_k ON t (k)", "VACUUM ANALYZE")

    def fill(self, arm, name, width, rows):
        """A table of rows that are as wide on disk."""
        arm.sql(f"CREATE TABLE {name} (k int, v text)", f"ALTER TABLE {name} ALTER v SET STORAGE PLAIN",
                f"INSERT INTO {name} SELECT i, repeat('v', {width}) FROM generate_series(1, {rows}) i")

    def measure(self, case, arm):
        if case.name == "drop":
            yield from self.measure_drop(arm)
            return
        clients = ("-n", "-M", "prepared", "-c", 4, "-j", 2, "-T", int(self.at.seconds))
        script = LOOKUPS.format(rows=self.at.rows)
        self.warm_up(case, arm, clients, script)
        before, seen = self.counted(arm), self.looked_up(arm)
        with Beside(arm, case.query) as beside:
            run = arm.pgbench(*clients, script=script)
        after, looked_up = self.counted(arm), self.looked_up(arm)
        hits, reads = (now - then for now, then in zip(looked_up, seen))
        yield Figure("hit ratio of the look-ups", "%", 100 * hits / (hits + reads), "more")
        yield Figure("throughput", "tps", run.tps, "more")
        yield from latencies(run)
        yield Figure("steps for a victim", "", self.steps(before, after), "less")
        if case.query:
            yield Figure("queries beside", "1/s", beside.times / self.at.seconds, "more")
        with Recorded(arm) as recorded, Beside(arm, case.query):
            arm.pgbench(*clients, script=script, logged=False)
        yield Figure("of the way to the optimum", "%", 100 * recorded.gain(), "more")

    def warm_up(self, case, arm, clients, script):
        """Until the buffers hold what this case leaves in them, or it is clear that everything fits."""
        start = self.counted(arm)["victims"]
        with Beside(arm, case.query):
            for _ in range(4):
                arm.pgbench(*clients, script=script, logged=False)
                if self.counted(arm)["victims"] - start > 2 * BUFFERS_MB * 128:
                    return

    def measure_drop(self, arm):
        arm.sql("SET max_parallel_workers_per_gather = 0")
        self.fill(arm, "filler", 7000, BUFFERS_MB * 128 * 9 // 10)
        arm.sql("CREATE EXTENSION IF NOT EXISTS pg_prewarm", "SELECT pg_prewarm('filler')")
        locks = self.counted(arm)["lock_acquisitions"]
        seconds, _ = arm.timed("DROP TABLE filler")
        yield Figure("DROP", "ms", seconds * 1000, "less")
        seconds, _ = arm.timed("SELECT pg_prewarm('t', last_block => least(3500, pg_relation_size('t') / 8192 - 1))")
        yield Figure("refill", "ms", seconds * 1000, "less")
        yield Figure("acquisitions of the queues' lock", "", self.counted(arm)["lock_acquisitions"] - locks, None)

    def counted(self, arm):
        keys = ("victims", "steps", "lock_acquisitions")
        return dict(zip(keys, arm.sql(f"SELECT {', '.join(keys)} FROM steady_bench.steady_buffer_stats")[0]))

    def looked_up(self, arm):
        # Sessions report at their end; pgbench's have ended.
        return arm.sql("SELECT heap_blks_hit + idx_blks_hit, heap_blks_read + idx_blks_read "
                       f"FROM pg_statio_user_tables WHERE relid = '{arm.schema}.t'::regclass")[0]

    def steps(self, before, after):
        return (after["steps"] - before["steps"]) / max(1, after["victims"] - before["victims"])

    def targets(self):
        for case in BESIDE:
            yield Target("of the way to the optimum", case, arm="s3fifo", least=50, seconds=30)
            yield Target("throughput", case, arm="s3fifo", over="core", no_loss=True)
            yield Target("latency, p99", case, arm="s3fifo", over="core", no_loss=True)
        for policy in "clock", "s3fifo":
            yield Target("DROP", "drop", arm=policy, over="core", no_loss=True)
            yield Target("refill", "drop", arm=policy, over="core", no_loss=True)


class Recorded:
    """What is accessed in the block, in the simulator."""

    def __init__(self, arm):
        self.arm = arm

    def __enter__(self):
        folder, = self.arm.sql("SHOW data_directory")[0]
        self.file = f"{folder}/accesses"
        self.say("accesses")
        return self

    def say(self, file):
        self.arm.sql(f"ALTER SYSTEM SET steady.buffer_trace = '{file}'", "SELECT pg_reload_conf()")
        while self.arm.value("SHOW steady.buffer_trace") != file:
            pass

    def __exit__(self, *_):
        self.say("")

    def gain(self):
        program = harness.ROOT / "build/buffer-simulator"
        subprocess.run(["make", "-s", "-C", harness.ROOT, "simulator"], check=True)
        # The first half fills the buffers.
        records = pathlib.Path(self.file).stat().st_size // 32
        told = subprocess.run([program, "--warm-up", str(records // 2), self.file], capture_output=True, text=True, check=True)
        pathlib.Path(self.file).unlink()
        lines = {line["policy"]: line for line in csv.DictReader(told.stdout.splitlines(), delimiter="\t")}
        return float(lines[self.arm.name]["gain"])

import threading
import time

from steadybench import experiment, holders
from steadybench.experiment import Case
from steadybench.figures import Figure, Target


class Vacuum(experiment.Experiment):
    """One row in ten is deleted, at random, then VACUUM. The index phase is what the server's own progress view shows
    as vacuuming and cleaning up indexes, looked at every millisecond."""

    name, title, order = "vacuum", "VACUUM's passes over the index", 110
    plotted = ("index phase", "VACUUM")
    sizes = {"rows": (2000, 1_000_000, 5_000_000, 20_000_000)}
    rounds = (1, 3, 5, 5)

    def cases(self):
        return [Case("int8", "int8, loaded in order", more=dict(key="i::int8")),
                Case("text", "text (md5)", more=dict(key="md5(i::text)"))]

    def measure(self, case, arm):
        arm.sql("DROP TABLE IF EXISTS t",
                f"CREATE TABLE t AS SELECT {case.key} AS k, i AS v FROM generate_series(1, {self.at.rows}) i")
        arm.index("t", "(k)")
        # The same rows in every arm: those whose number hashes to nought.
        arm.sql("VACUUM ANALYZE t", "DELETE FROM t WHERE abs(hashint8(v)::int8) % 10 = 0", "CHECKPOINT")
        with Phases(arm) as phases:
            seconds, _ = arm.timed("VACUUM (INDEX_CLEANUP ON, PARALLEL 0, TRUNCATE OFF) t")
        yield Figure("index phase", "ms", phases.of_index * 1000, "less")
        yield Figure("VACUUM", "ms", seconds * 1000, "less")
        arm.verify()

    def targets(self):
        return [Target("index phase", case.name, over="btree", most=0.8, rows=1_000_000)
                for case in self.chosen_cases()]


class Phases:
    """How long an arm's VACUUM was in its indexes."""

    def __init__(self, arm):
        self.watch = arm.connect()
        self.ended, self.of_index = threading.Event(), 0.0
        self.query = ("SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = 't'::regclass AND phase IN "
                      "('vacuuming indexes', 'cleaning up indexes')")
        self.thread = threading.Thread(target=self.follow)

    def follow(self):
        at, inside = time.perf_counter(), False
        while not self.ended.wait(0.001):
            now_inside = holders.execute(self.watch, self.query)[0][0] > 0
            now = time.perf_counter()
            if inside:
                self.of_index += now - at
            at, inside = now, now_inside

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.watch.close()

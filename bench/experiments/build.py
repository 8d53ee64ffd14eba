from steadybench import experiment
from steadybench.experiment import Case
from steadybench.figures import Figure, Target

KEYS = {
    "int8": ("i::int8", "int8, loaded in order", 0.55),
    "int8 random": ("hashint8extended(i, 1)", "int8 in no order", 0.55),
    "duplicates": ("(i % 1000)::int8", "int8, 1,000 distinct keys", 1.0),
    "text": ("md5(i::text)", "text (md5)", 1.0),
}


class Build(experiment.Experiment):
    """CREATE INDEX on a table that is in memory, without and with two parallel workers, and the size of what comes
    out."""

    name, title, order = "build", "CREATE INDEX: time and size", 100
    plotted = ("time, serial", "time, parallel", "size")
    sizes = {"rows": (2000, 1_000_000, 5_000_000, 20_000_000)}
    rounds = (1, 3, 5, 5)

    def cases(self):
        return [Case(name, label) for name, (_, label, _) in KEYS.items()]

    def prepare(self, case, arm):
        arm.sql(f"CREATE TABLE t AS SELECT {KEYS[case.name][0]} AS k FROM generate_series(1, {self.at.rows}) i",
                "VACUUM ANALYZE t")

    def measure(self, case, arm):
        for name, workers in ("serial", 0), ("parallel", 2):
            arm.sql("RESET ALL", "SET maintenance_work_mem = '256MB'", "DROP INDEX IF EXISTS t_k",
                    "SET min_parallel_table_scan_size = 0", f"SET max_parallel_maintenance_workers = {workers}",
                    "CHECKPOINT")
            seconds, _ = arm.timed(f"CREATE INDEX t_k ON t USING {arm.method} (k)")
            yield Figure(f"time, {name}", "s", seconds, "less")
        yield Figure("size", "MB", arm.value("SELECT pg_relation_size('t_k') / 1048576.0"), "less")

    def targets(self):
        for case in self.chosen_cases():
            for name in ("time, serial", "time, parallel"):
                yield Target(name, case.name, over="btree", most=1.0 if case.name == "text" else 0.5, rows=1_000_000)
            yield Target("size", case.name, over="btree", most=KEYS[case.name][2], rows=1_000_000)

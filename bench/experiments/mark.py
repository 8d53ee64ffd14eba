from steadybench import experiment
from steadybench.experiment import Case
from steadybench.figures import Figure, Target

MERGE = ("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_nestloop = off; "
         "SET enable_material = off; SET enable_sort = off; SET max_parallel_workers_per_gather = 0")


class Mark(experiment.Experiment):
    """Two merge joins that were posted as the worst cases for marking a position in an index scan and going back to
    it (pgsql-hackers, February 2015, “Reduce pinning in btree indexes”; 12 runs, the best and the worst left out;
    that patch lost 2 % and 10 %). Of 1M rows with distinct keys a mark is set at each and never gone back to; of
    500,000 keys, two rows each, 500,000 marks are set and 500,000 gone back to. The number of rows that the joins
    return is checked."""

    name, title, order = "mark", "Merge joins that mark and go back", 70
    plotted = ("index-only", "index scan")
    sizes = {"rows": (1000, 1_000_000, 1_000_000, 1_000_000)}
    rounds = (1, 7, 12, 12)

    def cases(self):
        yield Case("marks", "1M marks, never gone back to", more=dict(key="i", factor=1))
        yield Case("marks and restores", "500,000 marks and as many returns", more=dict(key="i / 2", factor=2))

    def prepare(self, case, arm):
        for table in "t1", "t2":
            arm.sql(f"CREATE TABLE {table} AS SELECT ({case.key})::int AS a "
                    f"FROM generate_series(0, {self.at.rows - 1}) i")
            arm.index(table, "(a)")
            arm.sql(f"VACUUM ANALYZE {table}")
        arm.sql("SELECT count(*) FROM t1, (SELECT count(*) FROM t2) x")

    def measure(self, case, arm):
        for index_only, name in ("on", "index-only"), ("off", "index scan"):
            arm.sql("RESET ALL", MERGE, f"SET enable_indexonlyscan = {index_only}")
            seconds, rows = arm.timed("SELECT count(*) FROM t1 JOIN t2 ON t1.a = t2.a")
            assert rows[0][0] == self.at.rows * case.factor, f"{rows[0][0]} rows"
            yield Figure(name, "ms", seconds * 1000, "less")

    def targets(self):
        for case in self.chosen_cases():
            yield Target("index-only", case.name, over="btree", most=0.95, rows=1_000_000)
            yield Target("index scan", case.name, over="btree", most=1.0, rows=1_000_000)

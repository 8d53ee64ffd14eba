from steadybench import experiment
from steadybench.experiment import Case
from steadybench.figures import Figure, Target
from steadybench.measures import log_bytes

# Keys that ascend in the order of insertion, and keys in no order.
KEYS = {
    "int8 ascending": ("int8", "i"),
    "int8 random": ("int8", "hashint8extended(i, 1)"),
    "uuid random": ("uuid", "md5(i::text)::uuid"),
    "text random": ("text", "md5(i::text)"),
}


class Insert(experiment.Experiment):
    """Rows go into a table with one index, in one statement. The log's bytes are those of the index alone: what the
    same rows take without an index is taken off. (A stock server lets an index other than its own log by generic
    records only.)"""

    name, title, order = "insert", "Inserts, and what they log", 90
    plotted = ("time", "log of the index", "size of the index")
    sizes = {"rows": (2000, 200_000, 2_000_000, 5_000_000)}
    rounds = (1, 3, 5, 5)

    def cases(self):
        return [Case(name) for name in KEYS]

    def measure(self, case, arm):
        kind, key = KEYS[case.name]
        rows, few = self.at.rows, self.at.rows // 10
        arm.sql("DROP TABLE IF EXISTS t", f"CREATE TABLE t (k {kind})")
        table_log = log_bytes(arm, f"INSERT INTO t SELECT {key} FROM generate_series(1, {few}) i")[1] / few
        arm.sql("TRUNCATE t")
        arm.index("t", "(k)", name="t_k")
        arm.sql(f"INSERT INTO t SELECT {key} FROM generate_series(1, {few}) i")
        seconds, log = log_bytes(arm, f"INSERT INTO t SELECT {key} FROM generate_series({few + 1}, {few + rows}) i")
        yield Figure("time", "µs a row", seconds / rows * 1e6, "less")
        yield Figure("log of the index", "bytes a row", log / rows - table_log, "less")
        yield Figure("size of the index", "MB", arm.value("SELECT pg_relation_size('t_k') / 1048576.0"), "less")

    def targets(self):
        for case in self.chosen_cases():
            random = "random" in case.name
            yield Target("time", case.name, over="btree", most=1.0 if "text" in case.name else 0.8, rows=100_000)
            yield Target("log of the index", case.name, over="btree", most=2.0 if random else 1.0, rows=100_000)

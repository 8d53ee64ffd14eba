from steadybench import experiment
from steadybench.arms import FORCED
from steadybench.experiment import Case
from steadybench.figures import Figure, Series, Target
from steadybench.measures import latencies
from steadybench.places import Unavailable

NESTED = ("SET enable_seqscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0; "
          "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off")
# Each key's row is replaced, so that every update leaves a dead entry with the same key.
CHURN = "\\set k random(1, :keys)\nBEGIN;\nDELETE FROM c WHERE k = :k;\nINSERT INTO c VALUES (:k);\nCOMMIT;\n"


class HashGist(experiment.Experiment):
    """The server's other methods, for comparison: hash, which got the killing of entries together with btree, and
    GiST, which got it later. Equality look-ups of random int8 keys, and the same keys deleted and inserted again by
    one client without VACUUM, nothing held. (GiST on int8 comes with the extension btree_gist.)"""

    name, title, order = "hash-gist", "Hash and GiST beside them", 130
    plotted = ("index scan", "throughput", "last / first")
    arms = ("btree", "steady", "hash", "gist")
    sizes = {"rows": (1000, 500_000, 2_000_000, 5_000_000), "lookups": (200, 100_000, 500_000, 1_000_000),
             "seconds": (1, 4, 30, 60), "keys": (100, 1000, 1000, 1000)}
    rounds = (1, 3, 5, 5)

    def cases(self):
        return [Case("look-ups", "equality look-ups"), Case("churn", "the same keys deleted and inserted again")]

    def prepare(self, case, arm):
        if arm.method == "gist" and not arm.value("SELECT count(*) FROM pg_extension WHERE extname = 'btree_gist'"):
            if not arm.value("SELECT count(*) FROM pg_available_extensions WHERE name = 'btree_gist'"):
                raise Unavailable("gist: this server has no btree_gist")
            arm.sql("CREATE EXTENSION btree_gist SCHEMA steady_bench")
        if case.name == "look-ups":
            arm.sql(f"CREATE TABLE t AS SELECT i::int8 AS k, i AS v FROM generate_series(1, {self.at.rows}) i")
            arm.index("t", "(k)")
            arm.sql("SELECT setseed(0.5)",
                    f"CREATE TABLE probes AS SELECT 1 + (random() * {self.at.rows - 1})::int8 AS k "
                    f"FROM generate_series(1, {self.at.lookups})", "VACUUM ANALYZE t", "VACUUM ANALYZE probes")

    def measure(self, case, arm):
        if case.name == "look-ups":
            arm.sql("RESET ALL", NESTED)
            seconds, rows = arm.timed("SELECT count(x.v) FROM probes p JOIN t x ON x.k = p.k")
            assert rows[0][0] == self.at.lookups, f"{rows[0][0]} rows of {self.at.lookups}"
            yield Figure("index scan", "µs a look-up", seconds / self.at.lookups * 1e6, "less")
            return
        arm.sql("DROP TABLE IF EXISTS c", "CREATE TABLE c (k int8 NOT NULL)")
        arm.index("c", "(k)")
        arm.sql(f"INSERT INTO c SELECT generate_series(1, {self.at.keys})", "VACUUM ANALYZE c")
        run = arm.pgbench("-n", "-c", 1, "-T", int(self.at.seconds), "-P", 1, "-D", f"keys={self.at.keys}",
                          script=CHURN, options=FORCED)
        yield Figure("throughput", "tps", run.tps, "more")
        window = max(1, self.at.seconds // 4)
        yield Figure("last / first", "", run.window(window, True) / run.window(window, False), "more")
        yield from latencies(run)
        yield Series("throughput", "tps", "seconds", [(round(at), tps) for at, tps, _ in run.progress])

    def targets(self):
        return [Target("index scan", "look-ups", over="hash", most=1.0),
                Target("throughput", "churn", over="hash", least=1.0)]

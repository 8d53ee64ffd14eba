from steadybench import experiment
from steadybench.experiment import Case
from steadybench.figures import Figure, Target

NESTED = ("SET enable_seqscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0; "
          "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off; SET work_mem = '256MB'")
KEYS = {"int8": ("i::int8", "k"), "text": ("md5(i::text)", "md5(k::text)")}


class Lookup(experiment.Experiment):
    """A nested loop looks up random keys, one at a time: index scans, which fetch the row too, and index-only scans.
    And `= ANY` of 1,000 keys at once. Nothing is dead; everything is in memory."""

    name, title, order = "lookup", "Look-ups of random keys", 80
    plotted = ("index-only", "index scan", "= ANY of 1,000 keys")
    sizes = {"rows": (2000, 1_000_000, 5_000_000, 5_000_000), "lookups": (500, 200_000, 1_000_000, 1_000_000)}
    rounds = (1, 5, 7, 12)

    def cases(self):
        return [Case("int8", "keys of type int8"), Case("text", "keys of type text (md5)")]

    def prepare(self, case, arm):
        key, probe = KEYS[case.name]
        arm.sql(f"CREATE TABLE t AS SELECT {key} AS k, i AS v FROM generate_series(1, {self.at.rows}) i")
        arm.index("t", "(k)", name="t_k")
        # The same keys for every arm.
        arm.sql("SELECT setseed(0.5)",
                f"CREATE TABLE probes AS SELECT {probe} AS k "
                f"FROM (SELECT 1 + (random() * {self.at.rows - 1})::int8 AS k FROM generate_series(1, "
                f"{self.at.lookups})) p", "VACUUM ANALYZE t", "VACUUM ANALYZE probes",
                "SELECT count(v) + count(k) FROM t")

    def measure(self, case, arm):
        arm.sql("RESET ALL", NESTED)
        for name, column in ("index-only", "k"), ("index scan", "v"):
            seconds, rows = arm.timed(f"SELECT count(x.{column}) FROM probes p JOIN t x ON x.k = p.k")
            assert rows[0][0] == self.at.lookups, f"{rows[0][0]} rows of {self.at.lookups}"
            yield Figure(name, "µs a look-up", seconds / self.at.lookups * 1e6, "less")
        batch = min(1000, self.at.lookups)
        keys = arm.value(f"SELECT array_agg(k) FROM (SELECT k FROM probes LIMIT {batch}) p")
        kind = "int8" if case.name == "int8" else "text"
        session, repeats = arm.session(), max(1, self.at.lookups // 20_000)
        with session.cursor() as cursor:
            query = cursor.mogrify(f"SELECT count(*) FROM t WHERE k = ANY (%s::{kind}[])", (keys,))
        seconds, _ = arm.timed(*[query] * repeats)
        yield Figure("= ANY of 1,000 keys", "µs a look-up", seconds / repeats / batch * 1e6, "less")

    def targets(self):
        for case in self.chosen_cases():
            text = case.name == "text"
            yield Target("index-only", case.name, over="btree", most=1.0 if text else 0.5, rows=1_000_000)
            yield Target("index scan", case.name, over="btree", most=1.0 if text else 0.6, rows=1_000_000)

import random

from steadybench import experiment, holders, tpcb
from steadybench.arms import FORCED
from steadybench.experiment import Case
from steadybench.figures import Figure, Target

NESTED = ("SET enable_seqscan = off", "SET enable_bitmapscan = off", "SET enable_hashjoin = off",
          "SET enable_mergejoin = off", "SET enable_memoize = off")
TAKE = ("BEGIN",
        "DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)",
        "INSERT INTO queue (run_at) VALUES (now())", "COMMIT")
# The place's own server is down while instructions are counted.
STOPPED = frozenset({"restart"})


class Instructions(experiment.Experiment):
    """What a server that serves one session executes for a transaction, a row, a look-up: counted by valgrind, so
    that a busy machine changes nothing and a difference of a per cent shows. Everything counts: parsing, planning, the
    heap, the log. (What a cache miss or a wait for somebody costs does not.) The work is done some times, uncounted, then as
    often again, then twice as often; the difference is what is told."""

    name, title, order = "instructions", "Instructions", 75
    settings = (("shared_buffers", "256MB"),)
    plotted = ("instructions",)
    sizes = {"scale": (1, 1, 10, 10), "rows": (2000, 100_000, 1_000_000, 1_000_000), "count": (5, 200, 1000, 10_000)}
    rounds = (1, 1, 1, 1)

    def cases(self):
        yield Case("TPC-B-like", "a transaction of pgbench's", sizes="qnf", needs=STOPPED,
                   more=dict(unit="a transaction"))
        yield Case("SELECT-only", "a look-up of pgbench's", needs=STOPPED, more=dict(unit="a transaction"))
        yield Case("queue", "the head of a queue is taken, a job put in; nothing is held", sizes="qnf",
                   needs=STOPPED, more=dict(unit="a transaction"))
        yield Case("look-up", "one row of a nested loop, index-only", sizes="qnf",
                   needs=STOPPED, more=dict(unit="a look-up", times=10))
        yield Case("scan", "one row of an ordered index-only scan", sizes="qnf", needs=STOPPED,
                   more=dict(unit="a row", times=100))
        yield Case("insert, ascending", "one row with an indexed key", sizes="qnf", needs=STOPPED,
                   more=dict(unit="a row", times=10))
        yield Case("insert, random", "the same, keys in no order", sizes="qnf", needs=STOPPED,
                   more=dict(unit="a row", times=10))

    def prepare(self, case, arm):
        if case.name in ("TPC-B-like", "SELECT-only"):
            tpcb.make(arm, self.at.scale)
        elif case.name == "queue":
            arm.sql("CREATE TABLE queue (id bigserial, run_at timestamptz NOT NULL)")
            arm.index("queue", "(run_at, id)")
            arm.index("queue", "(id)")
            arm.sql("INSERT INTO queue (run_at) SELECT now() FROM generate_series(1, 1000)", "VACUUM ANALYZE queue")
        else:
            # Keys that are even: others come in between.
            arm.sql(f"CREATE TABLE t AS SELECT 2 * i::int8 AS k FROM generate_series(1, {self.at.rows}) i")
            arm.index("t", "(k)", name="t_k")
            most = 4 * case.more.get("times", 1) * self.at.count
            arm.sql("SELECT setseed(0.5)",
                    f"CREATE TABLE keys AS SELECT i AS n, 2 * (1 + (random() * {self.at.rows - 1})::int8) AS k "
                    f"FROM generate_series(1, {most}) i", "VACUUM ANALYZE t", "VACUUM ANALYZE keys")

    def statements(self, case, first, count):
        chance = random.Random(first)
        if case.name == "TPC-B-like":
            return [s for _ in range(count) for s in tpcb.transaction(chance, self.at.scale)]
        if case.name == "SELECT-only":
            return [s for _ in range(count) for s in tpcb.look_up(chance, self.at.scale)]
        if case.name == "queue":
            return TAKE * count
        first, count = first * case.times, count * case.times
        some = f"FROM keys WHERE n > {first} AND n <= {first + count}"
        return {"look-up": [*NESTED, f"SELECT count(t.k) FROM (SELECT * {some}) s JOIN t USING (k)"],
                "scan": [*NESTED, f"SELECT count(k) FROM (SELECT k FROM t ORDER BY k LIMIT {count}) s"],
                "insert, ascending": [f"INSERT INTO t SELECT {2 * self.at.rows} + n {some}"],
                "insert, random": [f"INSERT INTO t SELECT k - 1 {some}"],
                }[case.name]

    def measure(self, case, arm):
        n = self.at.count
        # What is done for the first time may cost much, in pages that nobody had changed since they were built.
        with holders.closing(arm.connect(FORCED)) as (session,):
            holders.execute(session, *self.statements(case, 0, n))
        once = arm.instructions(self.statements(case, n, n), options=FORCED)
        twice = arm.instructions(self.statements(case, 2 * n, 2 * n), options=FORCED)
        yield Figure("instructions", case.unit, (twice - once) / (n * case.more.get("times", 1)), "less")

    def targets(self):
        return [Target("instructions", case.name, over="btree", most=1) for case in self.chosen_cases()]

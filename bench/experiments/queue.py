from steadybench import experiment, holders
from steadybench.arms import FORCED
from steadybench.experiment import Case
from steadybench.figures import Figure, Series, Target
from steadybench.measures import explain, latencies
from steadybench.places import Spec

# Take the oldest job and put a new one in. A job is taken by deleting it, or by changing an indexed state.
DELETE = """BEGIN;
DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED);
INSERT INTO queue (run_at) VALUES (now());
COMMIT;
"""
PARTIAL = """BEGIN;
UPDATE queue SET state = 'done' WHERE id =
    (SELECT id FROM queue WHERE state = 'ready' ORDER BY run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED);
INSERT INTO queue (run_at) VALUES (now());
COMMIT;
"""
COMPOSITE = """BEGIN;
UPDATE queue SET state = 'done' WHERE id =
    (SELECT id FROM queue WHERE state = 'ready' AND queue = 'default' ORDER BY priority, run_at, id
     LIMIT 1 FOR UPDATE SKIP LOCKED);
INSERT INTO queue (run_at, priority) VALUES (now(), 1 + (random() * 3)::int);
COMMIT;
"""
HEADS = {"delete": DELETE, "partial": PARTIAL, "composite": COMPOSITE}
INDEXES = {"delete": ("(run_at, id)", ""), "partial": ("(run_at, id)", "WHERE state = 'ready'"),
           "composite": ("(state, queue, priority, run_at, id)", "")}
# What is held, and at what length of run it is a case of its own.
HELD = {
    "none": ("nothing holds the horizon", "tqnf"),
    "reader": ("an idle REPEATABLE READ reader holds it", "qnf"),
    "writer": ("an idle writer with an xid holds it", "nf"),
    "late": ("three writers: one with an xid from the start, the others take theirs later", "tqnf"),
    "prepared": ("a prepared transaction holds it; then a restart", "tnf"),
    "standby": ("a standby's old snapshot holds it, by hot_standby_feedback", "tnf"),
}


class Queue(experiment.Experiment):
    """Clients take the head of a queue and put a job at its end: one DELETE (or UPDATE of a state) and one INSERT a
    transaction, 4 clients, 1,000 queued jobs, no VACUUM. What is taken stays in the index as long as somebody holds the
    horizon: an idle reader, an idle writer, a prepared transaction, a standby. The index scan is forced where the case
    doesn't say otherwise."""

    name, title, order = "queue", "A job queue while somebody holds an old snapshot", 30
    plotted = ("throughput at the end", "latency, p99")
    sizes = {"seconds": (1, 4, 60, 600), "clients": (2, 4, 4, 4), "queued": (50, 1000, 1000, 1000),
             "late": (100, 5000, 100_000, 100_000)}
    rounds = (1, 3, 3, 3)

    def cases(self):
        for holder, (label, sizes) in HELD.items():
            needs = frozenset({holders.NEEDS[holder]} if holder in holders.NEEDS else ())
            yield Case(holder, label, sizes=sizes, needs=needs, more=dict(holder=holder))
        yield Case("planner", "a reader holds it; the planner chooses the scan", sizes="nf",
                   more=dict(holder="reader", options=""))
        yield Case("sync", "a reader holds it; synchronous_commit = on", sizes="nf",
                   more=dict(holder="reader", options=FORCED + " -c synchronous_commit=on"))
        for on in (True, False):
            word = "on" if on else "off"
            yield Case(f"checksums-{word}", f"a reader holds it; data checksums {word}", sizes="nf",
                       more=dict(holder="reader", checksums=on))
        yield Case("partial", "jobs are taken by UPDATE of a state, the index is partial on it; a reader holds",
                   sizes="qnf", more=dict(holder="reader", way="partial"))
        yield Case("composite", "the same, indexed by state, queue, priority, run_at, id", sizes="tnf",
                   more=dict(holder="reader", way="composite"))

    def spec(self, case, _arm):
        # A standby goes on replaying as long as it is there: on a cluster of its own it disturbs no other case.
        return Spec(self.settings, case.more.get("checksums"), "standby" if case.holder == "standby" else "")

    def window(self):
        return max(1, self.at.seconds // 6)

    def make(self, case, arm):
        columns, rest = INDEXES[case.more.get("way", "delete")]
        arm.sql("DROP TABLE IF EXISTS queue",
                "CREATE TABLE queue (id bigserial, queue text NOT NULL DEFAULT 'default', state text NOT NULL "
                "DEFAULT 'ready', priority int NOT NULL DEFAULT 1, run_at timestamptz NOT NULL)")
        arm.index("queue", columns, name="queue_head", rest=rest)
        arm.index("queue", "(id)")
        arm.sql(f"INSERT INTO queue (run_at) SELECT now() FROM generate_series(1, {self.at.queued})",
                "VACUUM ANALYZE queue")

    def measure(self, case, arm):
        self.make(case, arm)
        way, options = case.more.get("way", "delete"), case.more.get("options", FORCED)
        # Jobs are taken as fast as they come in, so the sequence counts the dead.
        counts = f"SELECT last_value - {self.at.queued} FROM queue_id_seq"
        after = []
        with arm.hold(case.holder, self.at.late, counts):
            run = arm.pgbench("-n", "-c", self.at.clients, "-T", int(self.at.seconds), "-P", 1, script=HEADS[way],
                              options=options)
            if case.holder == "prepared" and "restart" in arm.place.can:
                after = list(self.after_restart(arm))
        first, last = run.window(self.window(), False), run.window(self.window(), True)
        yield Figure("throughput at the end", "tps", last, "more")
        yield Figure("throughput at the start", "tps", first, "more")
        yield Figure("last / first", "", last / first, "more")
        yield from latencies(run)
        yield Series("throughput", "tps", "seconds", [(round(at), tps) for at, tps, _ in run.progress])
        yield Series("latency", "ms", "seconds", [(round(at), lat) for at, _, lat in run.progress])
        yield from after
        arm.verify()

    def after_restart(self, arm):
        """Stamps belong to one run of the server: the first look at the head after a restart pays."""
        arm.close()
        arm.place.restart()
        with holders.closing(arm.connect(FORCED)) as (connection,):
            for which in ("first", "second"):
                took = explain(connection, "SELECT id FROM queue ORDER BY run_at, id LIMIT 1")
                yield Figure(f"head query after a restart, {which}", "ms", took.milliseconds, "less")

    def targets(self):
        for case in self.chosen_cases():
            if case.holder == "none":
                continue
            yield Target("last / first", case.name, least=0.95)
            yield Target("throughput at the end", case.name, over="btree", least=15, seconds=60)
            if case.name in HELD and case.name != "standby":
                yield Target("throughput at the end", case.name, over_case="none", least=0.95)

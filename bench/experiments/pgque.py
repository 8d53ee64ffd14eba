from steadybench import experiment
from steadybench.experiment import Case
from steadybench.figures import Figure, Series, Target

# The work of one producer, consumer and bystander. The counter row is part of the published set-up: each job updates it.
PRODUCE = "\\set p random(1, 1000000000)\nINSERT INTO jobs (payload) VALUES ('p_' || :p);\n"
PRODUCE_COUNTED = PRODUCE + "UPDATE counters SET enqueued = enqueued + 1 WHERE workload = 'queue';\n"
TAKEN = ("DELETE FROM jobs USING (SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) head "
         "WHERE jobs.id = head.id")
CONSUME = f"BEGIN;\n{TAKEN};\nCOMMIT;\n"
CONSUME_COUNTED = f"""BEGIN;
WITH taken AS ({TAKEN} RETURNING 1)
UPDATE counters SET dequeued = dequeued + (SELECT count(*) FROM taken) WHERE workload = 'queue';
COMMIT;
"""
BYSTAND = "\\set id random(1, :rows)\nSELECT id, length(payload) FROM bystander WHERE id = :id;\n"


class Pgque(experiment.Experiment):
    """The cell that PgQue publishes (benchmark/xmin-horizon in its repository): 4 producers at 800 jobs a second together,
    4 consumers as fast as they can, 2 bystanders at 100 look-ups a second in a table of 1M rows, 180 s, autovacuum on and
    as eager as published. Its figures on PostgreSQL 17, nothing held → a REPEATABLE READ transaction open: 797 → 517
    jobs/s, consumers 3,798 → 280 tps, their latency 1.0 → 14.3 ms, bystanders 1.35 → 2.05 ms.

    Its counter row, which every job updates, is a hot spot of its own: so each cell is run with it and without."""

    name, title, order = "pgque", "PgQue's published cell: producers, consumers, bystanders", 40
    one_schema = True
    plotted = ("jobs taken", "consumers", "consumers' latency, average", "bystanders' latency, average")
    settings = (("shared_buffers", "512MB"), ("work_mem", "32MB"), ("maintenance_work_mem", "128MB"),
                ("effective_cache_size", "2GB"), ("autovacuum", "on"), ("autovacuum_naptime", "10s"),
                ("autovacuum_vacuum_scale_factor", "0.005"), ("autovacuum_vacuum_threshold", "50"),
                ("autovacuum_analyze_scale_factor", "0.005"), ("autovacuum_analyze_threshold", "50"),
                ("autovacuum_vacuum_cost_limit", "10000"), ("autovacuum_vacuum_cost_delay", "2ms"),
                ("autovacuum_max_workers", "6"), ("synchronous_commit", "on"))
    sizes = {"seconds": (1, 10, 180, 180), "rows": (1000, 1_000_000, 1_000_000, 1_000_000)}
    rounds = (1, 1, 1, 3)

    def cases(self):
        for counted in (True, False):
            for held in (False, True):
                name = ("held" if held else "unheld") + ("" if counted else ", no counter")
                label = "a snapshot is open" if held else "nothing is held"
                yield Case(name, label + ("" if counted else ", without the counter row"),
                           more=dict(held=held, counted=counted))

    def prepare(self, case, arm):
        arm.sql("CREATE TABLE bystander (id bigint NOT NULL, payload text NOT NULL)",
                f"INSERT INTO bystander SELECT i, repeat('x', 256) FROM generate_series(1, {self.at.rows}) i")
        arm.index("bystander", "(id)", unique=True)
        arm.sql("VACUUM ANALYZE bystander")

    def measure(self, case, arm):
        arm.sql("DROP TABLE IF EXISTS jobs, counters",
                "CREATE TABLE jobs (id bigserial, payload text NOT NULL, created_at timestamptz NOT NULL DEFAULT now()) "
                "WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01, fillfactor = 90)",
                "CREATE TABLE counters (workload text, enqueued bigint DEFAULT 0, dequeued bigint DEFAULT 0)")
        # As published: a primary key, and one more index on the same column.
        arm.index("jobs", "(id)", unique=True)
        arm.index("jobs", "(id)")
        arm.index("counters", "(workload)", unique=True)
        arm.sql("INSERT INTO counters VALUES ('queue')")
        length = ("-n", "-T", int(self.at.seconds), "-P", 1)
        produce, consume = (PRODUCE_COUNTED, CONSUME_COUNTED) if case.counted else (PRODUCE, CONSUME)
        with arm.hold("reader" if case.held else "none"):
            with arm.load(*length, "-c", 4, "-j", 4, "-R", 800, script=produce) as producers, \
                    arm.load(*length, "-c", 4, "-j", 4, script=consume) as consumers, \
                    arm.load(*length, "-c", 2, "-j", 2, "-R", 100, "-D", f"rows={self.at.rows}",
                             script=BYSTAND) as bystanders:
                produced, consumed, stood = producers.result(), consumers.result(), bystanders.result()
            left = arm.value("SELECT count(*) FROM jobs")
            dead = arm.value("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'jobs'::regclass")
            size = arm.value("SELECT pg_total_relation_size('jobs') / 1048576.0")
        yield Figure("jobs taken", "jobs/s", (produced.transactions - left) / self.at.seconds, "more")
        yield Figure("jobs put in", "jobs/s", produced.transactions / self.at.seconds, "more")
        yield Figure("consumers", "tps", consumed.tps, "more")
        yield Figure("consumers' latency, average", "ms", consumed.latency, "less")
        yield Figure("consumers' latency, p99", "ms", consumed.percentile(0.99), "less")
        yield Figure("consumers' latency, worst", "ms", consumed.percentile(1), "less")
        yield Figure("bystanders' latency, average", "ms", stood.latency, "less")
        yield Figure("bystanders' latency, p99", "ms", stood.percentile(0.99), "less")
        yield Figure("dead rows (estimate)", "rows", dead)
        yield Figure("jobs with its indexes", "MB", size, "less")
        yield Series("consumers", "tps", "seconds", [(round(at), tps) for at, tps, _ in consumed.progress])
        arm.verify()

    def targets(self):
        for counter in ("", ", no counter"):
            yield Target("jobs taken", "held" + counter, over_case="unheld" + counter, least=0.97)
            yield Target("consumers", "held" + counter, over_case="unheld" + counter, least=0.97)

from steadybench import experiment
from steadybench.arms import FORCED
from steadybench.experiment import Case
from steadybench.figures import Figure, Series, Target
from steadybench.measures import latencies

REPLACE = "\\set k random(1, :keys)\nBEGIN;\nDELETE FROM u WHERE k = :k;\nINSERT INTO u VALUES (:k, 0);\nCOMMIT;\n"
UPSERT = "\\set k random(1, :keys)\nINSERT INTO u VALUES (:k, 0) ON CONFLICT (k) DO UPDATE SET v = u.v + 1;\n"


class UniqueDead(experiment.Experiment):
    """The same keys of a unique index are deleted and inserted again, or upserted, while an old snapshot keeps every
    version. A unique check has to pass all dead versions of its key: the growing time in _bt_check_unique that was
    seen when index entries were first killed. One client, so that nothing but the index makes it slow. (Before
    PostgreSQL 18 the server refuses ON CONFLICT with a unique index that is not a btree.)"""

    name, title, order = "unique-dead", "Unique checks over ever more dead versions", 60
    plotted = ("throughput at the end", "last / first")
    sizes = {"seconds": (1, 8, 60, 300), "keys": (100, 1000, 1000, 1000)}
    rounds = (1, 3, 3, 3)

    def cases(self):
        yield Case("replace", "DELETE and INSERT of the same key", more=dict(script=REPLACE))
        yield Case("upsert", "INSERT … ON CONFLICT DO UPDATE of an indexed column", since=18,
                   more=dict(script=UPSERT))

    def measure(self, case, arm):
        arm.sql("DROP TABLE IF EXISTS u", "CREATE TABLE u (k int NOT NULL, v int NOT NULL)")
        arm.index("u", "(k)", unique=True)
        if case.name == "upsert":
            arm.index("u", "(v)")
        arm.sql(f"INSERT INTO u SELECT i, 0 FROM generate_series(1, {self.at.keys}) i", "VACUUM ANALYZE u")
        with arm.hold("reader"):
            run = arm.pgbench("-n", "-c", 1, "-T", int(self.at.seconds), "-P", 1, "-D", f"keys={self.at.keys}",
                              script=case.script, options=FORCED)
        window = max(1, self.at.seconds // 5)
        yield Figure("last / first", "", run.window(window, True) / run.window(window, False), "more")
        yield Figure("throughput at the end", "tps", run.window(window, True), "more")
        yield Figure("versions of a key at the end", "rows", run.transactions / self.at.keys)
        yield from latencies(run)
        yield Series("throughput", "tps", "seconds", [(round(at), tps) for at, tps, _ in run.progress])
        arm.verify()

    def targets(self):
        return [Target("last / first", case.name, least=0.9) for case in self.chosen_cases()]

import statistics

from steadybench import experiment, tpcb
from steadybench.arms import FORCED
from steadybench.experiment import Case
from steadybench.figures import Figure, Series, Target
from steadybench.measures import latencies

THREE = ("btree", "steady", "steady, kills off")


class Repeat(experiment.Experiment):
    """The experiment that brought the killing of index entries into PostgreSQL (pgsql-hackers, May 2002): the same
    pgbench run again and again without VACUUM, `pgbench -i -s 10`, then `-c 5 -t 1000`. Tellers and branches are few
    and updated all the time. Nothing holds the horizon, so an index that lets go of dead entries keeps its speed.

    The arms take turns run by run. Last / first is the median of the last three runs over that of the first three.
    With kills off each scan visits the rows of dead entries again."""

    name, title, order = "repeat", "pgbench again and again, without VACUUM", 10
    plotted = ("last / first", "throughput, last runs")
    sizes = {"scale": (1, 10, 10, 100), "runs": (3, 10, 10, 10), "transactions": (20, 200, 1000, 10_000),
             "clients": (5, 5, 5, 5)}
    rounds = (1, 2, 3, 3)
    holder = "none"

    def cases(self):
        yield Case("plain", "as pgbench has it: most updates are HOT and leave no index entry", THREE)
        yield Case("indexed", "with an index on the balances: every update leaves dead entries", THREE,
                   more=dict(balances=True))
        yield Case("vacuum", "with pgbench's own vacuum between the runs (no -n)", more=dict(args=()))
        yield Case("checkpoint", "with vacuum and a checkpoint between", sizes="tnf",
                   more=dict(args=(), checkpoint=True))
        yield Case("planner", "the planner chooses the scan", sizes="tnf", more=dict(options=""))

    def measure(self, case, arm):
        arm.place.fresh_schema(arm.schema)
        tpcb.make(arm, self.at.scale, case.more.get("balances"))
        yield
        runs = []
        with arm.hold(self.holder):         # every arm holds at once: each its own, all for the whole of the round
            for _ in range(self.at.runs):
                if case.more.get("checkpoint"):
                    arm.sql("CHECKPOINT")
                runs.append(arm.pgbench(*case.more.get("args", ("-n",)), "-c", self.at.clients, "-t",
                                        self.at.transactions, options=case.more.get("options", FORCED)))
                yield f"run {len(runs)} of {self.at.runs}: {runs[-1].tps:.0f} tps"
        tps = [run.tps for run in runs]
        part = min(3, len(tps) // 2)
        last, first = statistics.median(tps[-part:]), statistics.median(tps[:part])
        yield Figure("last / first", "", last / first, "more")
        yield Figure("throughput, last runs", "tps", last, "more")
        yield Figure("throughput, first runs", "tps", first, "more")
        yield from latencies(runs[-1])
        sizes = ", ".join(f"('{table}_key')" for table in tpcb.TABLES if table != "pgbench_accounts")
        yield Figure("tellers' and branches' keys", "kB",
                     arm.value(f"SELECT sum(pg_relation_size(i::regclass)) / 1024 FROM (VALUES {sizes}) v (i)"), "less")
        yield Series("throughput", "tps", "run", [(number, t) for number, t in enumerate(tps, 1)])
        arm.verify()

    def targets(self):
        for case in self.chosen_cases():
            yield Target("last / first", case.name, least=0.97)
            yield Target("last / first", case.name, over="btree", least=1)

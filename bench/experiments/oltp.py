from steadybench import experiment, tpcb
from steadybench.experiment import Case
from steadybench.figures import Figure, Target
from steadybench.measures import latencies

CLIENTS = {1: "tqnf", 4: "nf", 8: "tqnf", 16: "f", 32: "nf"}


class Oltp(experiment.Experiment):
    """pgbench's own load, TPC-B-like and SELECT-only, from 1 to 32 clients: an index that is good at dead entries
    must not be worse at everyday work. No loss means that the 95 % interval of the paired ratios reaches 1. (On two
    processors this says nothing about scaling.)"""

    name, title, order = "oltp", "pgbench's everyday load", 120
    sizes = {"seconds": (1, 3, 30, 300), "scale": (1, 10, 10, 100)}
    rounds = (1, 3, 5, 3)
    one_schema = True
    plotted = ("throughput", "latency, p99")

    def cases(self):
        for load, args in ("TPC-B-like", ()), ("SELECT-only", ("-S",)):
            for clients, sizes in CLIENTS.items():
                yield Case(f"{load}, {clients} client{'s' if clients > 1 else ''}", sizes=sizes,
                           more=dict(args=args, clients=clients))

    def prepare(self, case, arm):
        tpcb.make(arm, self.at.scale)

    def measure(self, case, arm):
        run = arm.pgbench("-n", *case.args, "-c", case.clients, "-j", min(case.clients, 2), "-T", int(self.at.seconds))
        yield Figure("throughput", "tps", run.tps, "more")
        yield from latencies(run)

    def targets(self):
        return [Target("throughput", case.name, over="btree", no_loss=True) for case in self.chosen_cases()]

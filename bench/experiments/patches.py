import random

from steadybench import experiment, tpcb
from steadybench.experiment import Case
from steadybench.figures import Figure, Target
from steadybench.measures import flushes, latencies
from steadybench.places import Spec

# What is set on the server of each arm; only the first is a build without patches.
ARMS = {
    "stock": {},
    "patched": {},
    "leases": {"steady.fsm": "on"},
    "clock": {"steady.buffer_policy": "clock"},
    "s3fifo": {"steady.buffer_policy": "s3fifo"},
    "all modules": {"steady.fsm": "on", "steady.buffer_policy": "s3fifo"},
}
LOADS = {"permanent": (), "unlogged": (), "SELECT-only": ("-S",)}
CLIENTS = {1: "tqnf", 8: "qnf", 16: "f", 24: "f", 32: "f", 80: "nf"}
TABLES = (*tpcb.TABLES, "pgbench_history")


class Patches(experiment.Experiment):
    """What the patches cost who does not use them, and their modules who does: pgbench's load on permanent and unlogged
    tables and its look-ups, from 1 to 80 clients, the table by which patches for locks of PostgreSQL 9.2 were judged. The arms
    are a build without patches, one with them that loads no library, and that one with each module; each is a cluster of its
    own, with btree indexes. Throughput tells losses beyond its interval only: instructions a transaction, counted by
    valgrind, tell smaller ones. A row for what these servers have had since: commits that share a flush of the log."""

    name, title, order = "patches", "What the patches cost", 150
    arms, base = tuple(ARMS), "stock"
    sizes = {"seconds": (1, 3, 5, 120), "scale": (1, 10, 10, 100), "count": (5, 200, 1000, 10_000)}
    rounds = (1, 2, 5, 5)
    plotted = ("throughput", "instructions")

    def cases(self):
        for load in "permanent", "SELECT-only":
            yield Case(f"instructions, {load}", "of a transaction of one session", more=dict(load=load))
        yield Case("group commit", "32 clients, each commit waits for the log on disk", arms=("stock", "patched"), sizes="nf",
                   more=dict(load="permanent", clients=32))
        for load in LOADS:
            for clients, sizes in CLIENTS.items():
                yield Case(f"{load}, {clients} client{'s' if clients > 1 else ''}", sizes=sizes,
                           more=dict(load=load, clients=clients))

    def spec(self, case, arm):
        settings = {"max_connections": "150"} | ARMS[arm]
        if ARMS[arm]:
            settings["shared_preload_libraries"] = "steady"
        if case.name == "group commit":
            settings |= {"fsync": "on", "synchronous_commit": "on"}
        return Spec(tuple(settings.items()), build="stock" if arm == "stock" else "patched")

    def prepare(self, case, arm):
        tpcb.make(arm, self.at.scale)
        if case.load == "unlogged":
            arm.sql(*(f"ALTER TABLE {table} SET UNLOGGED" for table in TABLES),
                    *(f"VACUUM ANALYZE {table}" for table in TABLES))

    def measure(self, case, arm):
        if case.name.startswith("instructions"):
            yield self.instructions(case, arm)
            return
        arm.close()                 # that session ended when instructions were counted
        before = flushes(arm)
        run = arm.pgbench("-n", *LOADS[case.load], "-c", case.clients, "-j", min(case.clients, 2),
                          "-T", int(self.at.seconds))
        yield Figure("throughput", "tps", run.tps, "more")
        yield from latencies(run)
        if case.name == "group commit":
            yield Figure("commits a flush", "", run.transactions / max(1, flushes(arm) - before), "more")

    def instructions(self, case, arm):
        """Of one transaction. The first do what is done once, in pages as they were built, and do not count."""
        count, chance = self.at.count, random.Random(case.name)
        make = tpcb.look_up if case.load == "SELECT-only" else tpcb.transaction
        first, once, twice = ([statement for _ in range(times * count) for statement in make(chance, self.at.scale)]
                              for times in (1, 1, 2))
        arm.sql(*first)
        return Figure("instructions", "a transaction", (arm.instructions(twice) - arm.instructions(once)) / count, "less")

    def targets(self):
        for case in self.chosen_cases():
            if case.name.startswith("instructions"):
                yield Target("instructions", case.name, "patched", over="stock", most=1.005)
                continue
            for arm in case.arms or ARMS:
                if case.name == "group commit":
                    yield Target("commits a flush", case.name, arm, least=1.5)
                elif arm != "stock":
                    yield Target("throughput", case.name, arm, over="stock", no_loss=True)
                    yield Target("latency, p99", case.name, arm, over="stock", no_loss=True)

import threading
import time

from steadybench import experiment, holders, tpcb
from steadybench.experiment import Case
from steadybench.figures import Figure, Target
from steadybench.measures import latencies
from steadybench.places import Spec

HOOK = frozenset({"hook for the free space map"})
# Lines of unequal widths, as they were written down before anything was tuned: 20 to 200 bytes, six an order.
WIDTH = "20 + abs(hashint4({})) % 181"
ORDER = """\\set widths random(1, 1000000)
BEGIN;
INSERT INTO orders (customer) VALUES (:client_id) RETURNING id \\gset
""" + "".join(f"INSERT INTO lines VALUES (:id, {n}, :client_id, repeat('l', {WIDTH.format(f':widths + {n}')}));\n"
              for n in range(6)) + "COMMIT;\n"
THINK = "\\sleep 200 ms\n"


class Fsm(experiment.Experiment):
    """Orders with six lines of unequal width each go into tables from which one row in ten was deleted at random: on how
    many pages are the lines of one order, which tell how index scans jump? Concurrent bulk loads; pgbench's TPC-B-like
    load; 105 clients that think 200 ms between orders, the load of the first published comparison of two maps. The
    arms are the server's free space map and ours, each in a cluster of its own on the same (patched) server."""

    name, title, order = "fsm", "Which page a new row goes to", 140
    arms, base = ("core", "leases"), "core"
    sizes = {"seconds": (1, 5, 30, 300), "rows": (2000, 200_000, 1_000_000, 5_000_000), "scale": (1, 10, 10, 100)}
    rounds = (1, 3, 5, 5)
    plotted = ("pages an order", "throughput")

    def cases(self):
        for name, label, sizes, clients, script in (
                ("orders", "orders by 8 clients", "tqnf", 8, ORDER),
                ("users", "orders by 105 clients that think 200 ms", "nf", 105, ORDER + THINK)):
            yield Case(name, label, sizes=sizes, needs=HOOK, more=dict(clients=clients, script=script))
        yield Case("load", "four sessions fill a table", needs=HOOK)
        yield Case("oltp", "pgbench's TPC-B-like load, 8 clients", sizes="qnf", needs=HOOK)

    def spec(self, case, arm):
        return Spec((("shared_preload_libraries", "steady"), ("steady.fsm", "on" if arm == "leases" else "off"),
                     ("max_connections", "150")), label="fsm")

    def prepare(self, case, arm):
        if case.name == "oltp":
            tpcb.make(arm, self.at.scale)

    def measure(self, case, arm):
        yield from {"load": self.load, "oltp": self.oltp}.get(case.name, self.orders)(case, arm)

    def orders(self, case, arm):
        arm.sql("DROP TABLE IF EXISTS orders, lines",
                "CREATE TABLE orders (id bigserial, customer int, note text)",
                "CREATE TABLE lines (order_id bigint, n int, customer int, text text)",
                "CREATE INDEX lines_order ON lines (order_id)",
                f"INSERT INTO orders (customer, note) SELECT i % 100, 'old' FROM generate_series(1, {self.at.rows // 6}) i",
                f"INSERT INTO lines SELECT id, n, customer, repeat('l', {WIDTH.format('(id * 6)::int + n')}) "
                "FROM orders, generate_series(0, 5) n ORDER BY id, n",
                "DELETE FROM lines WHERE abs(hashint8(order_id * 6 + n)) % 10 = 0", "VACUUM ANALYZE orders, lines", "CHECKPOINT")
        before = arm.value("SELECT pg_relation_size('lines')")
        last = arm.value("SELECT max(id) FROM orders")
        run = arm.pgbench("-n", "-c", case.clients, "-j", 2, "-T", int(self.at.seconds), script=case.script)
        yield Figure("throughput", "tps", run.tps, "more")
        yield from latencies(run)
        arm.sql("CREATE TEMP TABLE found AS SELECT order_id, customer, (ctid::text::point)[0] AS page, "
                f"pg_column_size(lines.*) AS bytes FROM lines WHERE order_id > {last}")
        yield Figure("pages an order", "pages", float(arm.value(
            "SELECT avg(pages) FROM (SELECT count(DISTINCT page) AS pages FROM found GROUP BY order_id) o")), "less")
        yield Figure("pages with lines of several clients", "%", float(arm.value(
            "SELECT 100.0 * avg((clients > 1)::int) FROM (SELECT count(DISTINCT customer) AS clients FROM found "
            "GROUP BY page) p")), "less")
        grown = arm.value("SELECT pg_relation_size('lines')") - before
        yield Figure("growth, of what was put in", "%", float(100 * grown / arm.value("SELECT sum(bytes) FROM found")), "less")
        yield Figure("map of lines", "kB", arm.value("SELECT pg_relation_size('lines', 'fsm')") / 1024, "less")
        arm.sql("DROP TABLE found")
        seconds, _ = arm.timed("CREATE INDEX lines_customer ON lines (customer, order_id)")
        yield Figure("CREATE INDEX", "ms", seconds * 1000, "less")

    def load(self, case, arm):
        arm.sql("DROP TABLE IF EXISTS filled", "CREATE TABLE filled (session int, i int, pad text)", "CHECKPOINT")
        fill = f"INSERT INTO filled SELECT %d, i, repeat('p', 40 + i %% 60) FROM generate_series(1, {self.at.rows // 4}) i"
        with holders.closing(*(arm.connect() for _ in range(4))) as sessions:
            threads = [threading.Thread(target=holders.execute, args=(session, fill % number))
                       for number, session in enumerate(sessions)]
            start = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            seconds = time.perf_counter() - start
        yield Figure("load", "ms", seconds * 1000, "less")
        yield Figure("pages with rows of several sessions", "%", float(arm.value(
            "SELECT 100.0 * avg((sessions > 1)::int) FROM (SELECT count(DISTINCT session) AS sessions FROM filled "
            "GROUP BY (ctid::text::point)[0]) p")), "less")
        yield Figure("table and map", "MB", arm.value(
            "SELECT pg_relation_size('filled') + pg_relation_size('filled', 'fsm')") / 2**20, "less")

    def oltp(self, case, arm):
        run = arm.pgbench("-n", "-c", 8, "-j", 2, "-T", int(self.at.seconds))
        yield Figure("throughput", "tps", run.tps, "more")
        yield from latencies(run)

    def targets(self):
        for case in self.chosen_cases():
            if case.name in ("orders", "users"):
                yield Target("pages an order", case.name, "leases", over="core", most=0.6)
                yield Target("CREATE INDEX", case.name, "leases", over="core", no_loss=True)
            if case.name != "load":
                yield Target("throughput", case.name, "leases", over="core", no_loss=True)
            else:
                yield Target("load", case.name, "leases", over="core", no_loss=True)

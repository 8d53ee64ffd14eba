import statistics

from steadybench import experiment, holders
from steadybench.arms import FORCED
from steadybench.experiment import Case
from steadybench.figures import Figure, Series, Target
from steadybench.measures import explain, index_pages

LIVE = 500
# Where the dead lie, what is asked for, and how many of the rows it returns lie behind them.
PLACES = {
    "head": ("the dead lie before the first live row", "ORDER BY at LIMIT 1"),
    "middle": ("a scan crosses the dead in the middle", f"ORDER BY at LIMIT {LIVE + 1}"),
    "tail": ("a backward scan meets the dead first", "ORDER BY at DESC LIMIT 1"),
}


class HeadPages(experiment.Experiment):
    """So many rows are deleted, and an open snapshot keeps them: how many pages of the index does the query touch
    that asks for the first live row, how long does it take, and how long is it planned? First asked once, by a
    session that is gone again: that scan meets each dead row. Then measured in a new session, with its first query
    apart."""

    name, title, order = "head-pages", "Pages and time to the first live row behind the dead", 50
    plotted = ("pages at the most dead", "time at the most dead", "planning at the most dead")
    sizes = {"dead": ((100, 1000), *[(10_000, 100_000, 1_000_000)] * 3),
             "asked": (3, 15, 51, 101)}
    rounds = (1, 1, 3, 5)

    def cases(self):
        return [Case(name, label) for name, (label, _) in PLACES.items()]

    def measure(self, case, arm):
        points = {"pages": [], "time": [], "planning": []}
        for dead in self.at.dead:
            found = self.one(case.name, arm, dead)
            yield f"{dead:,} dead: {found['pages']} pages"
            for name, value in found.items():
                if name in points:
                    points[name].append((dead, value))
        for name, unit in ("pages", "of the index"), ("time", "ms"), ("planning", "ms"):
            # Growth over the whole range; planning and time are in microseconds where they are flat.
            yield Figure(f"{name} at the most dead", unit, points[name][-1][1], "less")
            yield Figure(f"{name}, most / fewest dead", "", points[name][-1][1] / points[name][0][1], "less")
        yield Figure("pages of a new session's first query", "of the index", found["first pages"], "less")
        yield Figure("first look at all dead", "ms", found["stamping"], "less")
        yield Series("pages", "of the index", "dead entries", points["pages"], log=True)
        yield Series("time", "ms", "dead entries", points["time"], log=True)

    def one(self, where, arm, dead):
        before = {"head": 0, "middle": LIVE, "tail": LIVE}[where]
        arm.sql("DROP TABLE IF EXISTS t", "CREATE TABLE t (at bigint NOT NULL)",
                f"INSERT INTO t SELECT generate_series(1, {dead + 2 * LIVE})")
        arm.index("t", "(at)", name="t_at")
        arm.sql("VACUUM ANALYZE t")
        query = f"SELECT at FROM t {PLACES[where][1]}"
        with arm.hold("reader"):
            last = "" if where == "tail" else f" AND at <= {before + dead}"
            arm.sql(f"DELETE FROM t WHERE at > {before}{last}")
            with holders.closing(arm.connect(FORCED)) as (session,):
                stamping = explain(session, query).milliseconds
                explain(session, query)     # what could not be noted in the first pass, for a lock, is noted now
            with holders.closing(arm.connect(FORCED)) as (session,):
                first = index_pages(session, query, "t_at")
                pages = index_pages(session, query, "t_at")
                again = [explain(session, query) for _ in range(self.at.asked)]
                # The planner looks at the ends of an index to estimate what is asked for beyond its histogram's.
                end = f"SELECT at FROM t WHERE at {'>' if where == 'tail' else '<'} {before + dead}"
                plans = [self.planning(session, end) for _ in range(self.at.asked)]
        return {"pages": pages, "time": statistics.median(e.milliseconds for e in again),
                "planning": statistics.median(plans), "first pages": first, "stamping": stamping}

    @staticmethod
    def planning(session, query):
        told = holders.execute(session, f"EXPLAIN (SUMMARY, FORMAT JSON) {query}")
        return told[0][0][0]["Planning Time"]

    def targets(self):
        for case in self.chosen_cases():
            yield Target("pages at the most dead", case.name, most=20)
            yield Target("pages of a new session's first query", case.name, most=20)
            yield Target("pages, most / fewest dead", case.name, most=1.5)
            yield Target("time, most / fewest dead", case.name, most=2)
            yield Target("planning, most / fewest dead", case.name, most=2)

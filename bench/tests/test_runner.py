"""Arms take turns; one that fails is told and leaves the others alone. Without a server."""

import unittest
import unittest.mock

from steadybench import experiment, places
from steadybench.experiment import Case, Experiment, Runner
from steadybench.figures import Figure, Series, Target


class Pretended(places.Place):
    """A place that only counts."""

    can = frozenset({"prepare"})
    major = 15

    def __init__(self, log=""):
        self.schemas, self.log, self.revived = [], log, 0

    def fresh_schema(self, name):
        self.schemas.append(name)

    def settings(self):
        return {"fsync": "off"}

    def log_mark(self):
        return len(self.log)

    def logged_since(self, mark):
        return places.count_log(self.log[mark:])

    def revive(self):
        self.revived += 1


class Turns(Experiment):
    """Notes who was when."""

    name = title = "turns"
    rounds = (2, 2, 2, 2)

    def __init__(self, *args, fails=None, **more):
        super().__init__(*args, **more)
        self.order, self.fails, self.closed = [], fails, []

    def cases(self):
        return [Case("one"), Case("two"), Case("new", since=18), Case("full", sizes="f"),
                Case("restarted", needs=frozenset({"restart"}))]

    def measure(self, case, arm):
        try:
            for step in range(3):
                self.order.append((case.name, arm.name, step))
                arm.place.log += f"2026 [1] WARNING:  {arm.name}\n" if arm.name == "btree" else ""
                if (case.name, arm.name, step) == self.fails:
                    arm.place.log += "2026 [1] ERROR:  broken\n"
                    raise ValueError("broken")
                yield Figure(f"step {step}", "s", 1.0 if arm.name == "btree" else 0.5, "less")
        finally:
            self.closed.append((case.name, arm.name))
        yield Series("way", "s", "x", [(1, 2.0)])

    def targets(self):
        return [Target("step 0", "one", over="btree", most=0.6), Target("step 0", "two", over="btree", most=0.4)]


def run(one, place=None):
    said = []
    return Runner(one, lambda _spec: place or Pretended(), said.append).run(), said


class RunnerTest(unittest.TestCase):
    def test_arms_take_turns(self):
        one = Turns()
        run(one)
        first = [(arm, step) for case, arm, step in one.order if case == "one"]
        self.assertEqual(first[:6], [("btree", 0), ("steady", 0), ("btree", 1), ("steady", 1), ("btree", 2),
                                     ("steady", 2)])
        # The next round begins with the other one.
        self.assertEqual(first[6:8], [("steady", 0), ("btree", 0)])

    def test_figures_and_verdicts(self):
        result, _ = run(Turns())
        figure = result["cases"][0]["figures"][0]
        self.assertEqual(figure["rounds"], [{"btree": 1.0, "steady": 0.5}, {"steady": 0.5, "btree": 1.0}])
        self.assertEqual(figure["ratios"]["steady / btree"]["median"], 0.5)
        self.assertEqual([v["verdict"] for v in result["verdicts"]], ["met", "not met"])
        self.assertEqual(result["cases"][0]["series"][0]["rounds"][1]["btree"], [(1, 2.0)])

    def test_cases_that_this_server_or_size_lacks(self):
        result, _ = run(Turns())
        self.assertEqual([c["name"] for c in result["cases"]], ["one", "two"])
        self.assertEqual({s["case"]: s["reason"] for s in result["skipped"]},
                         {"new": "needs PostgreSQL 18", "restarted": "this server allows no restart"})

    def test_what_takes_too_long_is_not_begun(self):
        class Clock:
            """Every look at it takes four seconds."""
            now = 0

            def monotonic(self):
                self.now += 4
                return self.now

        with unittest.mock.patch.object(experiment, "time", Clock()):
            result, _ = run(Turns("tiny", rounds=100))
        self.assertLess(result["seconds"], experiment.BUDGET["tiny"] + 20)
        rounds = len(result["cases"][0]["figures"][0]["rounds"])
        self.assertTrue(1 <= rounds < 10, rounds)
        with unittest.mock.patch.dict(experiment.BUDGET, tiny=-1):
            result, _ = run(Turns("tiny"))
        self.assertEqual({s["reason"] for s in result["skipped"]}, {"no time left in a tiny run"})
        self.assertEqual((result["cases"], result["verdicts"]), ([], []))

    def test_an_arm_that_cannot_be_had_leaves_the_verdicts_of_the_others(self):
        class Lacking(Turns):
            def prepare(self, case, arm):
                if (case.name, arm.name) == ("one", "hash"):
                    raise places.Unavailable("no hash here")

            arms = ("btree", "steady", "hash")

        result, _ = run(Lacking())
        self.assertEqual([s for s in result["skipped"] if "arm" in s],
                         [{"case": "one", "arm": "hash", "reason": "no hash here"}])
        self.assertEqual(([v["verdict"] for v in result["verdicts"]], result["failures"]), (["met", "not met"], []))

    def test_an_arm_that_fails_is_told_and_spoils_nothing(self):
        place, one = Pretended(), Turns(fails=("one", "steady", 1))
        result, said = run(one, place)
        self.assertEqual(result["failures"], [{"case": "one", "arm": "steady", "error": "ValueError: broken"}])
        self.assertTrue(any("FAILED" in line for line in said))
        one_, two = result["cases"]
        # What it gave before stays; the other arm has all rounds, and so have both in the other case.
        self.assertEqual([sorted(r) for r in one_["figures"][0]["rounds"]], [["btree", "steady"], ["btree"]])
        self.assertEqual([sorted(r) for r in one_["figures"][2]["rounds"]], [["btree"], ["btree"]])
        self.assertEqual([sorted(r) for r in two["figures"][2]["rounds"]], [["btree", "steady"]] * 2)
        self.assertIn(("one", "steady"), one.closed)
        self.assertEqual(place.revived, 1)

    def test_the_log_is_counted_for_the_arm_whose_turn_it_was(self):
        result, _ = run(Turns(fails=("two", "steady", 0)), Pretended())
        self.assertEqual((result["log"]["btree"]["WARNING"], result["log"]["btree"]["ERROR"]), (12, 0))
        self.assertEqual((result["log"]["steady"]["WARNING"], result["log"]["steady"]["ERROR"]), (0, 1))
        self.assertIn("broken", result["log"]["steady"]["samples"][0])

    def test_chosen_arms_and_cases(self):
        result, _ = run(Turns(arms=["btree"], cases=["two"]))
        self.assertEqual([(c["name"], c["arms"]) for c in result["cases"]], [("two", ["btree"])])
        self.assertEqual(result["verdicts"], [])

    def test_every_experiment_is_found_and_complete(self):
        found = experiment.every()
        for wanted in ("repeat repeat-held queue pgque head-pages unique-dead mark lookup insert build vacuum oltp "
                       "instructions hash-gist").split():
            self.assertIn(wanted, found)
        for one in found.values():
            for size in experiment.SIZES:
                made = one(size)
                cases = [case.name for case in made.chosen_cases()]
                self.assertTrue(cases and len(set(cases)) == len(cases), f"{one.name} {size}")
                self.assertTrue(list(made.targets()), f"{one.name} {size} has no target")
                for target in made.targets():
                    self.assertIn(target.case, cases)
            self.assertTrue(one.__doc__ and one.plotted)


if __name__ == "__main__":
    unittest.main()

"""What is said about figures: medians, spread, paired ratios, their interval, verdicts."""

import math
import unittest

from steadybench.figures import Target, disagreements, interval, ratios, summary, t95


def rounds(arm, *values):
    return [{arm: v} for v in values]


class Figures(unittest.TestCase):
    def test_summary(self):
        told = summary([3.0, 1.0, 2.0, 10.0])
        self.assertEqual((told["median"], told["least"], told["most"], told["rounds"]), (2.5, 1.0, 10.0, 4))
        self.assertEqual(told["trimmed"], {"mean": 2.5, "deviation": math.sqrt(0.5)})
        self.assertIsNone(summary([1.0, 2.0, 3.0])["trimmed"])
        self.assertIsNone(summary([]))

    def test_interval_is_students_on_logarithms(self):
        low, high = interval([1.0, math.e, math.e ** 2])
        # mean of the logarithms 1, deviation 1, three rounds: 1 ± 4.303 / sqrt(3)
        self.assertAlmostEqual(math.log(low), 1 - 4.303 / math.sqrt(3), places=6)
        self.assertAlmostEqual(math.log(high), 1 + 4.303 / math.sqrt(3), places=6)

    def test_interval_of_equal_ratios_has_no_width(self):
        self.assertEqual([round(x, 9) for x in interval([0.5] * 4)], [0.5, 0.5])

    def test_interval_needs_two_positive_values(self):
        self.assertIsNone(interval([1.0]))
        self.assertIsNone(interval([1.0, 0.0]))

    def test_t_falls_towards_the_normal_distribution(self):
        values = [t95(n) for n in range(1, 200)]
        self.assertEqual(values, sorted(values, reverse=True))
        self.assertAlmostEqual(t95(30), 2.042, places=2)
        self.assertAlmostEqual(t95(120), 1.980, places=2)

    def test_ratios_are_paired(self):
        # The second round was twice as slow for both: the ratio doesn't see it.
        mine, theirs = rounds("a", 2.0, 4.0), rounds("b", 1.0, 2.0)
        self.assertEqual(ratios(mine, "a", theirs, "b"), [2.0, 2.0])

    def test_a_round_that_one_arm_lacks_makes_no_pair(self):
        both = [{"a": 2.0, "b": 1.0}, {"a": 3.0}, {"a": 4.0, "b": 2.0}, {"a": 1.0, "b": 0.0}]
        self.assertEqual(ratios(both, "a", both, "b"), [2.0, 2.0])


class Verdicts(unittest.TestCase):
    @staticmethod
    def find(*values, better="less", **others):
        known = {("", "time"): {"rounds": [dict(steady=s, btree=b) for s, b in values], "better": better}} | others
        return lambda case, name: known.get((case, name))

    def verdict(self, target, find, **more):
        return target.verdict(find, **more)["verdict"]

    def test_over_another_arm(self):
        find = self.find((1, 2), (1, 2), (3, 2))
        self.assertEqual(self.verdict(Target("time", over="btree", most=0.5), find), "met")
        self.assertEqual(self.verdict(Target("time", over="btree", most=0.49), find), "not met")
        self.assertEqual(Target("time", over="btree", most=0.5).verdict(find)["found"]["most"], 1.5)

    def test_by_itself(self):
        find = self.find((0.95, 0.2), (0.97, 0.3))
        self.assertEqual(self.verdict(Target("time", least=0.96), find), "met")
        self.assertEqual(self.verdict(Target("time", least=0.97), find), "not met")

    def test_a_target_within_the_interval_is_said_to_be(self):
        noted = [Target("time", most=most).verdict(self.find((1, 1), (2, 1), (3, 1)))["note"] for most in (2.1, 90)]
        self.assertEqual(noted, ["by less than the spread", ""])

    def test_over_another_case(self):
        find = self.find((1, 0))
        other = {"rounds": [{"steady": 2.0}], "better": "more"}
        both = lambda case, name: other if case == "held" else find(case, name)     # noqa: E731
        self.assertEqual(Target("time", "held", over_case="", least=2).verdict(both)["found"]["median"], 2.0)

    def test_no_loss_asks_whether_the_interval_reaches_one(self):
        # The same median of 1.1; only with the wide interval may it be nothing.
        target = Target("time", over="btree", no_loss=True)
        self.assertEqual(self.verdict(target, self.find((1.1, 1), (1.1, 1), (1.11, 1))), "not met")
        self.assertEqual(self.verdict(target, self.find((0.9, 1), (1.1, 1), (1.3, 1))), "met")
        self.assertEqual(self.verdict(target, self.find((0.9, 1), (0.9, 1), (0.91, 1))), "met")
        self.assertEqual(self.verdict(target, self.find((0.9, 1), (0.9, 1), (0.91, 1), better="more")), "not met")
        self.assertEqual(self.verdict(target, self.find((0.9, 1))), "not judged")

    def test_not_judged_by_what_is_too_short_or_small(self):
        find = self.find((1, 2))
        self.assertEqual(self.verdict(Target("time", most=5, seconds=60), find, length=10), "not judged")
        self.assertEqual(self.verdict(Target("time", most=5, seconds=60), find, length=60), "met")
        self.assertEqual(self.verdict(Target("time", most=5, rows=1000), find, rows=10), "not judged")
        self.assertEqual(self.verdict(Target("time", most=5), find, tiny=True), "not judged")

    def test_no_figures(self):
        self.assertEqual(self.verdict(Target("other", most=5), self.find((1, 2))), "no figures")


class Agreement(unittest.TestCase):
    @staticmethod
    def report(**figures):
        return {"experiments": [{"name": "lookup", "verdicts": [
            {"case": "int8", "figure": name, "what": "steady / btree", "found": summary(values)}
            for name, values in figures.items()]}]}

    def test_spreads_that_touch_agree(self):
        first, second = self.report(time=[1.0, 1.1, 1.2]), self.report(time=[1.1, 1.2, 1.3])
        self.assertEqual(disagreements(first, second), ([], 1))

    def test_spreads_apart_do_not(self):
        first, second = self.report(time=[1.0, 1.01, 1.02]), self.report(time=[1.2, 1.21, 1.22])
        (apart,), compared = disagreements(first, second)
        self.assertEqual((apart[0], compared), (("lookup", "int8", "time", "steady / btree"), 1))

    def test_one_round_and_what_one_report_lacks_are_not_compared(self):
        first = self.report(time=[1.0], size=[1.0, 1.0], only=[1.0, 1.1])
        second = self.report(time=[2.0, 2.1], size=[1.0, 1.0])
        self.assertEqual(disagreements(first, second), ([], 1))


if __name__ == "__main__":
    unittest.main()

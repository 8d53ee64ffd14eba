"""Arms that are builds of a server: what may differ between them, and what they are given to do."""

import types
import unittest

from steadybench import experiment, lab, places


class Counting:
    """An arm that notes what it is to do, and counts instructions: as many as there are statements, and a constant."""

    def __init__(self):
        self.asked = []

    def sql(self, *statements):
        self.asked.append(list(statements))

    def instructions(self, statements):
        self.asked.append(statements)
        return 1_000_000 + 50 * len(statements)


class Builds(unittest.TestCase):
    def test_only_the_prefix_may_differ(self):
        one = "'--prefix=/a/stock' '--with-icu' 'CFLAGS=-O2 -g'\n"
        other = "'--with-icu' '--prefix=/b/patched' 'CFLAGS=-O2 -g'\n"
        self.assertEqual(lab.other_than_prefix(one), lab.other_than_prefix(other))
        self.assertNotEqual(lab.other_than_prefix(one), lab.other_than_prefix(other + " '--enable-cassert'"))
        self.assertNotEqual(lab.other_than_prefix(one), lab.other_than_prefix(other.replace("-O2", "-O0")))

    def test_a_server_without_patches_has_no_stock_one_beside_it(self):
        where = lab.Lab("test")
        where.server = types.SimpleNamespace(patched=lambda: False, major=18)
        for build in "stock", "patched":
            with self.assertRaisesRegex(places.Unavailable, "without patches"):
                where.place_for(places.Spec(build=build))

    def test_a_running_server_is_of_one_build(self):
        where = lab.Lab("test", dsn="dbname=test")
        with self.assertRaises(places.Unavailable):
            where.place_for(places.Spec(build="patched"))


class Patches(unittest.TestCase):
    def setUp(self):
        self.one = experiment.load("patches")("full")

    def test_one_arm_is_stock_and_the_next_loads_no_library(self):
        for case in self.one.chosen_cases():
            specs = {arm: self.one.spec(case, arm) for arm in self.one.arms}
            self.assertEqual([arm for arm in specs if specs[arm].build == "stock"], ["stock"])
            self.assertEqual({arm for arm in specs if "shared_preload_libraries" not in dict(specs[arm].settings)},
                             {"stock", "patched"})
            self.assertEqual(len(set(specs.values())), len(specs))

    def test_arms_do_the_same_and_start_and_end_do_not_count(self):
        for case in self.one.chosen_cases():
            if not case.name.startswith("instructions"):
                continue
            arms = [Counting(), Counting()]
            figures = [self.one.instructions(case, arm) for arm in arms]
            self.assertEqual(arms[0].asked, arms[1].asked)
            transaction = len(arms[0].asked[0]) // self.one.at.count
            self.assertEqual([figure.value for figure in figures], [50 * transaction] * 2)
            self.assertEqual(len({tuple(asked[:transaction]) for asked in arms[0].asked}), 3)


if __name__ == "__main__":
    unittest.main()

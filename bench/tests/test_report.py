"""The page: well formed, by itself, and with everything in it that it was given."""

import html.parser
import re
import unittest
import xml.etree.ElementTree

from steadybench import experiment, figures, report

VOID = {"meta", "br", "link", "img", "hr", "input"}


class Strict(html.parser.HTMLParser):
    """Every element is closed by its own end, ids are there once, and nothing is fetched."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.faults, self.text = [], set(), set(), [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if "id" in found:
            if found["id"] in self.ids:
                self.faults.append(f"id {found['id']} twice")
            self.ids.add(found["id"])
        if tag in ("script", "link", "img", "iframe", "object", "embed", "image"):
            self.faults.append(f"<{tag}>")
        for name in ("href", "src", "xlink:href", "srcset", "data"):
            if name in found:
                if not found[name].startswith("#"):
                    self.faults.append(f"{name}={found[name]}")
                self.links.add(found[name][1:])

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}>")

    def handle_data(self, data):
        self.text.append(data)


def result(name="queue", hostile="<b>&\"'"):
    series = {"name": "throughput", "unit": "tps", "x": "seconds", "log": False, "rounds": [
        {"btree": [[1, 100.0], [2, 50.0]], "steady": [[1, 100.0], [2, 99.0]]}, {"btree": [[1, 90.0], [2, 60.0]]}]}
    grown = {"name": "pages", "unit": "pages", "x": "dead entries", "log": True, "rounds": [
        {"btree": [[100, 5], [10000, 500]], "steady": [[100, 3], [10000, 3]]}]}
    rounds = [{"btree": 2.0, "steady": 1.0}, {"btree": 2.2, "steady": 1.0}]
    told = {arm: figures.summary(figures.of_arm(rounds, arm)) for arm in ("btree", "steady")}
    figure = {"name": f"time {hostile}", "unit": "ms", "better": "less", "rounds": rounds, "arms": told,
              "ratios": {"steady / btree": figures.summary([0.5, 1 / 2.2])}}
    case = {"name": "reader", "label": f"held {hostile}", "arms": ["btree", "steady"], "figures": [figure],
            "series": [series, grown]}
    found = figures.Target(figure["name"], "reader", over="btree", most=0.4).verdict(lambda *_: figure)
    return {"name": name, "title": f"A queue {hostile}", "text": "One.\n\nTwo `x`.", "size": "quick",
            "parameters": {"rows": 1000}, "cases": [case], "failures": [{"case": "reader", "arm": "steady", "error": f"it broke {hostile}"}],
            "skipped": [{"case": "standby", "reason": "no"}], "rounds": 2, "seconds": 3.0, "plotted": [figure["name"]],
            "settings": {"fsync": "off"}, "verdicts": [found],
            "log": {"btree": {"ERROR": 1, "WARNING": 0, "FATAL": 0, "PANIC": 0, "samples": [f"ERROR:  {hostile}"]}}}


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = report.page({"environment": {"commit": "c0ffee", "date": "2026-01-01", "command": "bench/run queue"},
                                "experiments": [result(), result("other")]})
        cls.parsed = Strict()
        cls.parsed.feed(cls.page)

    def test_well_formed(self):
        self.assertEqual(self.parsed.faults, [])
        self.assertEqual(self.parsed.open, [])

    def test_self_contained(self):
        self.assertNotRegex(re.sub(r'xmlns(:\w+)?="[^"]*"', "", self.page), r"https?://|@import|url\((?!#)")
        self.assertEqual(self.parsed.links - self.parsed.ids, set())

    def test_pictures_are_svg_for_both_widths(self):
        pictures = re.findall(r"<svg role=.*?</svg>", self.page, re.S)
        self.assertEqual(len(pictures), 2 * 2 * 3)      # two experiments; wide and narrow; two series and the ratios
        for picture in pictures:
            root = xml.etree.ElementTree.fromstring(picture)
            self.assertTrue(root.attrib["aria-label"])
            self.assertNotIn("width", root.attrib)
            self.assertIn("viewBox", root.attrib)

    def test_what_was_given_is_there(self):
        text = "".join(self.parsed.text)
        for wanted in ("c0ffee", "bench/run queue", "not met", "it broke <b>&\"'", "≤ 0.4", "0.477×", "fsync = off",
                       "A queue <b>&\"'", "ERROR:  <b>&\"'", "Two x."):
            self.assertTrue(wanted in text, wanted)

    def test_verdicts_come_before_the_plots(self):
        self.assertLess(self.page.index(">Verdicts<"), self.page.index("<svg"))

    def test_units(self):
        text = "".join(self.parsed.text)
        for wanted in ("throughput, tps", "seconds", "dead entries", "times btree's", "ms"):
            self.assertTrue(wanted in text, wanted)

    def test_median_of_a_series_is_of_the_rounds_that_have_it(self):
        rounds = result()["cases"][0]["series"][0]["rounds"]
        self.assertEqual(experiment.median_series(rounds, "btree"), [(1, 95.0, 90.0, 100.0), (2, 55.0, 50.0, 60.0)])
        self.assertEqual(experiment.median_series(rounds, "steady")[1], (2, 99.0, 99.0, 99.0))


if __name__ == "__main__":
    unittest.main()

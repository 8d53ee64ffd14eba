"""Figures of several rounds, and what may be said about them: medians, spread, paired ratios and their interval.

A round is {arm: value}. Nothing here knows where a figure comes from."""

import dataclasses
import math
import statistics

# Student's t for a two-sided interval of 95 %, by degrees of freedom.
T95 = (None, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
       2.120, 2.110, 2.101, 2.093, 2.086)


@dataclasses.dataclass(frozen=True)
class Figure:
    """One value of one arm. `better` is "less", "more" or None (to be told, not to be judged)."""

    name: str
    unit: str
    value: float
    better: str = None


@dataclasses.dataclass(frozen=True)
class Series:
    """How a value went: points (x, y). `x` names the x axis with its unit."""

    name: str
    unit: str
    x: str
    points: list
    log: bool = False


def t95(freedom):
    """Beyond the table the value falls slowly to 1.96; an approximation good to a thousandth."""
    return T95[freedom] if freedom < len(T95) else 1.960 + 2.4 / freedom


def interval(ratios):
    """The 95 % interval of the mean of positive ratios, taken on their logarithms; None where it says nothing."""
    if len(ratios) < 2 or min(ratios) <= 0:
        return None
    logs = [math.log(r) for r in ratios]
    mean, reach = statistics.fmean(logs), t95(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean - reach), math.exp(mean + reach)


def summary(values):
    """Median, least, most and 95 % interval of what several rounds gave, or None. From four rounds on also the mean and
    deviation without the best and the worst."""
    if not values:
        return None
    inner = sorted(values)[1:-1]
    trimmed = {"mean": statistics.fmean(inner), "deviation": statistics.stdev(inner)} if len(values) >= 4 else None
    return {"median": statistics.median(values), "least": min(values), "most": max(values),
            "interval": interval(values), "rounds": len(values), "trimmed": trimmed}


def of_arm(rounds, arm):
    return [r[arm] for r in rounds if r.get(arm) is not None]


def ratios(rounds, arm, base_rounds, base):
    """arm / base of each round that has both: pairs share their round's weather."""
    pairs = [(r.get(arm), b.get(base)) for r, b in zip(rounds, base_rounds)]
    return [value / other for value, other in pairs if value is not None and other]


@dataclasses.dataclass(frozen=True)
class Target:
    """What we aim at: a figure of an arm, by itself or over that of another arm or case, at least or at most so much.

    `seconds` is the length of run that the target is meant for: shorter ones are not judged by it. `no_loss` asks only
    that the interval of the ratio reaches 1."""

    figure: str
    case: str = ""
    arm: str = "steady"
    over: str = None
    over_case: str = None
    least: float = None
    most: float = None
    no_loss: bool = False
    seconds: float = 0
    rows: int = 0
    note: str = ""

    def text(self):
        if self.no_loss:
            return "no loss"
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"

    def what(self):
        if self.over is None and self.over_case is None:
            return self.arm
        place = f" in “{self.over_case}”" if self.over_case is not None else ""
        return f"{self.arm} / {self.over or self.arm}{place}"

    def verdict(self, figures, length=math.inf, rows=math.inf, tiny=False):
        """What came of it. `figures` finds {"rounds": [...], "better": ...} by (case, figure name), or None."""
        mine = figures(self.case, self.figure)
        values = of_arm(mine["rounds"], self.arm) if mine else []
        compared = self.over is not None or self.over_case is not None
        if compared and mine:
            base = figures(self.case if self.over_case is None else self.over_case, self.figure)
            values = ratios(mine["rounds"], self.arm, base["rounds"], self.over or self.arm) if base else []
        found = summary(values)
        result = {"case": self.case, "figure": self.figure, "what": self.what(), "target": self.text(),
                  "note": self.note, "found": found, "least": self.least, "most": self.most, "ratio": compared}
        if not found:
            return result | {"verdict": "no figures"}
        why_not = ("so small a run says nothing" if tiny else
                   f"target is for runs of {self.seconds:g} s" if length < self.seconds else
                   f"target is for {self.rows:,} rows" if rows < self.rows else
                   "one round has no interval" if self.no_loss and not found["interval"] else None)
        if why_not:
            return result | {"verdict": "not judged", "note": why_not}
        if self.no_loss:
            reach = found["interval"]
            good = reach[1] >= 1 if mine["better"] == "more" else reach[0] <= 1
        else:
            good = ((self.least is None or found["median"] >= self.least) and
                    (self.most is None or found["median"] <= self.most))
        bound = self.most if self.least is None else self.least
        if not self.no_loss and found["interval"] and found["interval"][0] < bound < found["interval"][1]:
            result["note"] = "by less than the spread"
        return result | {"verdict": "met" if good else "not met"}


def spread_of(told):
    """What a summary says of its own certainty: the interval, else least and most; None of a single round."""
    if told["rounds"] < 2:
        return None
    return told["interval"] or (told["least"], told["most"])


def disagreements(first, second):
    """The judged figures of two reports whose spreads don't touch, and how many were compared: ([(what, one, other)], n).
    Reports are as results.json has them. A figure of one round says nothing of its spread, and isn't compared."""
    def judged(told):
        return {(result["name"], v["case"], v["figure"], v["what"]): v["found"]
                for result in told["experiments"] for v in result["verdicts"] if v["found"]}

    ones, others, apart, compared = judged(first), judged(second), [], 0
    for what, one in ones.items():
        other = others.get(what)
        spreads = [spread_of(told) for told in (one, other) if told]
        if len(spreads) < 2 or None in spreads:
            continue
        compared += 1
        if max(s[0] for s in spreads) > min(s[1] for s in spreads):
            apart.append((what, one, other))
    return apart, compared

"""What an experiment is, and how one is run: cases, arms that take turns, rounds, the log searched after each turn.

An experiment is one file in bench/experiments: a class that names its arms and cases, prepares an arm's tables, and
in `measure` yields figures. Whenever it yields, the next arm has its turn: so arms are interleaved A B A B as finely
as the experiment says, and nothing about that is written twice. (So it holds nothing at a yield that the other arm
would feel.)"""

import dataclasses
import importlib.util
import inspect
import os
import pathlib
import statistics
import time
import types

from . import figures, places
from .arms import KINDS, Arm

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "experiments"
SIZES = ("tiny", "quick", "normal", "full")
# A quick run ends in two minutes an experiment, whatever the machine: what would take longer is not begun.
BUDGET = {"tiny": 60, "quick": 112, "normal": 1800, "full": 24 * 3600}


@dataclasses.dataclass(frozen=True)
class Case:
    """One variant of an experiment. `sizes` are the initials of the sizes that include it; `more` is the
    experiment's."""

    name: str
    label: str = ""
    arms: tuple = None
    sizes: str = "tqnf"
    needs: frozenset = frozenset()
    since: int = 0                  # the first major version of the server that has what this needs
    more: dict = dataclasses.field(default_factory=dict)

    def __getattr__(self, name):
        try:
            return self.__dict__["more"][name]
        except KeyError:
            raise AttributeError(name) from None


class Experiment:
    """Base of all. The class's docstring is what the report says about it."""

    name = title = None
    order = 1000                    # its place in a run of all
    arms = ("btree", "steady")
    base = "btree"                  # the arm that the others are compared with
    settings = ()                   # (name, value) pairs for the server
    sizes = {}                      # parameter: (tiny, quick, normal, full)
    rounds = (1, 3, 3, 5)
    one_schema = False              # whether the cases share an arm's tables, which are prepared once
    plotted = ()                    # names of the figures that the plot of ratios shows

    def __init__(self, size="quick", arms=None, cases=None, rounds=None, **given):
        self.size, self.given = size, {k: v for k, v in given.items() if v is not None}
        number = SIZES.index(size)
        parameters = {key: values[number] for key, values in self.sizes.items()}
        self.at = types.SimpleNamespace(**parameters | {k: v for k, v in self.given.items() if k in parameters})
        self.round_count = rounds or self.rounds[number]
        self.only_arms, self.only_cases = arms, cases

    def cases(self):
        return [Case("")]

    def spec(self, case, arm):
        """What an arm's cluster is to be like; arms with equal specs share one."""
        return places.Spec(self.settings)

    def prepare(self, case, arm):
        """Make the tables of an arm: its schema is fresh, and it is done once before the rounds."""

    def measure(self, case, arm):
        """Yield figures and series, or a text that tells how far it is; at every yield it is the next arm's turn."""
        raise NotImplementedError

    def targets(self):
        return []

    def length(self):
        """Seconds of a run, by which targets are judged or not."""
        return getattr(self.at, "seconds", float("inf"))

    def rows(self):
        return getattr(self.at, "rows", float("inf"))

    def chosen_cases(self):
        for case in self.cases():
            if self.only_cases is not None:
                if case.name in self.only_cases:
                    yield case
            elif self.size[0] in case.sizes:
                yield case

    def arms_of(self, case):
        return [arm for arm in case.arms or self.arms if self.only_arms is None or arm in self.only_arms]


def load(name):
    """The experiment class of bench/experiments/NAME.py."""
    path = FOLDER / f"{name.replace('-', '_')}.py"
    if not path.exists():
        raise SystemExit(f"there is no experiment {name}: see bench/run --list")
    spec = importlib.util.spec_from_file_location(f"experiments.{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return next(c for c in vars(module).values() if inspect.isclass(c) and issubclass(c, Experiment) and c.name == name)


def every():
    """All experiments by name, in the order that they want."""
    found = [load(path.stem.replace("_", "-")) for path in FOLDER.glob("[a-z]*.py")]
    return {c.name: c for c in sorted(found, key=lambda c: (c.order, c.name))}


class Runner:
    """One run of one experiment. `places_for` hands out places by spec; `say` tells of progress."""

    def __init__(self, experiment, place_for, say):
        self.experiment, self.place_for, self.say = experiment, place_for, say
        self.result = {
            "name": experiment.name, "title": experiment.title, "text": inspect.getdoc(type(experiment)),
            "size": experiment.size, "parameters": vars(experiment.at), "cases": [], "failures": [], "skipped": [],
            "log": {}, "rounds": 0, "plotted": list(experiment.plotted), "settings": {}}
        self.dead = set()           # (case, arm) that failed
        self.prepared = set()       # (place, schema)

    def run(self):
        start, budget = time.monotonic(), BUDGET[self.experiment.size]
        jobs, lasted = {}, {}
        cases = list(enumerate(self.experiment.chosen_cases()))
        for round_ in range(self.experiment.round_count):
            ran = 0
            for number, case in cases:
                left = start + budget - time.monotonic()
                if round_ == 0 and left < 0:
                    self.result["skipped"].append(
                        {"case": case.name, "reason": f"no time left in a {self.experiment.size} run"})
                elif round_ == 0:
                    jobs[case.name] = self.ready(number, case)
                if not jobs.get(case.name) or lasted.get(case.name, 0) > left:
                    continue
                arms, began = jobs[case.name], time.monotonic()
                self.turn(case, arms[::-1] if round_ % 2 else arms, round_)
                lasted[case.name] = time.monotonic() - began
                ran += 1
            if not ran:
                break
            self.result["rounds"] = round_ + 1
        for arms in jobs.values():
            for arm in arms or ():
                arm.close()
        self.result["seconds"] = time.monotonic() - start
        self.result["load"] = os.getloadavg()[0]
        self.judge()
        return self.result

    def ready(self, number, case):
        """The arms of a case with their tables, or nothing if it can't be had here."""
        kinds = self.experiment.arms_of(case)
        try:
            homes = {kind: self.home(case, kind) for kind in kinds}
        except places.Unavailable as why:
            self.result["skipped"].append({"case": case.name, "reason": str(why)})
            return None
        self.result["cases"].append({"name": case.name, "label": case.label, "arms": list(kinds), "figures": [],
                                     "series": []})
        for place in homes.values():
            self.result["settings"] = place.settings()
        of_case = "" if self.experiment.one_schema else f"_{number}"
        arms = [Arm(kind, place, f"{places.SCHEMA}{of_case}_arm{list(KINDS).index(kind)}")
                for kind, place in homes.items()]
        for arm in arms:
            if (arm.place, arm.schema) in self.prepared:
                continue
            self.prepared.add((arm.place, arm.schema))
            with self.guarded(case, arm):
                arm.place.fresh_schema(arm.schema)
                self.experiment.prepare(case, arm)
        return arms

    def home(self, case, kind):
        """Where an arm of a case is measured."""
        place = self.place_for(self.experiment.spec(case, kind))
        if case.needs - place.can:
            raise places.Unavailable(f"this server allows no {', '.join(sorted(case.needs - place.can))}")
        if place.major < case.since:
            raise places.Unavailable(f"needs PostgreSQL {case.since}")
        return place

    def guarded(self, case, arm):
        return Guard(self, case, arm)

    def turn(self, case, arms, round_):
        """One round of a case: the arms' generators are advanced in turn until all have ended."""
        running = {arm: self.experiment.measure(case, arm) for arm in arms if (case.name, arm.name) not in self.dead}
        began = time.monotonic()
        try:
            while running:
                self.sweep(case, running, round_)
        finally:
            # Whatever an interrupted arm holds, it lets go now.
            for generator in running.values():
                generator.close()
        heads = self.heads(case, round_)
        self.say(f"{self.experiment.name}{' ' + case.name if case.name else ''}, round {round_ + 1}: "
                 f"{time.monotonic() - began:.0f} s{heads}")

    def sweep(self, case, running, round_):
        """One turn of each arm."""
        told = {}
        for arm in list(running):
            with self.guarded(case, arm) as guard:
                try:
                    found = next(running[arm])
                except StopIteration:
                    del running[arm]
                    continue
                if isinstance(found, str):
                    told[arm.name] = found
                elif found is not None and getattr(found, "points", True):
                    self.note(case, arm, round_, found)
            if guard.failed:
                running.pop(arm).close()
        if told:
            self.say(f"{self.experiment.name}{' ' + case.name if case.name else ''}: " +
                     ",  ".join(f"{arm} {text}" for arm, text in told.items()))

    def heads(self, case, round_):
        """The first figure of the round, to show while it runs."""
        found = self.case(case.name)["figures"]
        if not found or len(found[0]["rounds"]) <= round_:
            return ""
        values = ", ".join(f"{arm} {value:.4g}" for arm, value in found[0]["rounds"][round_].items())
        return f"  {found[0]['name']}: {values} {found[0]['unit']}"

    def case(self, name):
        return next((c for c in self.result["cases"] if c["name"] == name), None)

    def note(self, case, arm, round_, found):
        kind = "series" if isinstance(found, figures.Series) else "figures"
        told = self.case(case.name)[kind]
        entry = next((e for e in told if e["name"] == found.name), None)
        if not entry:
            entry = {"name": found.name, "unit": found.unit, "rounds": []}
            entry |= {"x": found.x, "log": found.log} if kind == "series" else {"better": found.better}
            told.append(entry)
        while len(entry["rounds"]) <= round_:
            entry["rounds"].append({})
        entry["rounds"][round_][arm.name] = found.points if kind == "series" else float(found.value)

    def judge(self):
        def find(case, name):
            entry = self.case(case)
            return next((f for f in entry["figures"] if f["name"] == name), None) if entry else None

        base = self.experiment.base
        for case in self.result["cases"]:
            for figure in case["figures"]:
                figure["arms"] = {arm: figures.summary(figures.of_arm(figure["rounds"], arm)) for arm in case["arms"]}
                figure["ratios"] = {
                    f"{arm} / {base}": told for arm in case["arms"] if arm != base and
                    (told := figures.summary(figures.ratios(figure["rounds"], arm, figure["rounds"], base)))}
        asked, arms = {c.name for c in self.experiment.chosen_cases()} | {""}, self.experiment.only_arms
        self.result["verdicts"] = [
            target.verdict(find, self.experiment.length(), self.experiment.rows(), self.experiment.size == "tiny")
            for target in self.experiment.targets()
            if target.case in asked and (target.over_case is None or target.over_case in asked) and
            (arms is None or {target.arm, target.over or target.arm} <= set(arms))
            and target.case not in {s["case"] for s in self.result["skipped"] if "arm" not in s}]


class Guard:
    """One turn of one arm: what the server logs meanwhile is that arm's; an error ends the arm, not the others."""

    def __init__(self, runner, case, arm):
        self.runner, self.case, self.arm = runner, case, arm
        self.failed = False

    def __enter__(self):
        self.mark = self.arm.place.log_mark()
        return self

    def __exit__(self, kind, error, _trace):
        self.count()
        if kind is None or not issubclass(kind, Exception):
            return False
        self.failed = True
        self.arm.close()
        if isinstance(error, places.Unavailable):
            self.runner.result["skipped"].append({"case": self.case.name, "arm": self.arm.name, "reason": str(error)})
        else:
            told = f"{kind.__name__}: {str(error).strip()}"
            self.runner.result["failures"].append({"case": self.case.name, "arm": self.arm.name, "error": told})
            self.runner.say(f"{self.runner.experiment.name} {self.case.name}: {self.arm.name} FAILED: {told}")
        self.runner.dead.add((self.case.name, self.arm.name))
        if hasattr(self.arm.place, "revive"):
            self.arm.place.revive()
        return True

    def count(self):
        told = self.arm.place.logged_since(self.mark) if self.mark is not None else None
        if told is None:
            return
        counts, samples = told
        log = self.runner.result["log"].setdefault(self.arm.name, dict.fromkeys(places.SEVERITIES, 0) | {"samples": []})
        for severity, count in counts.items():
            log[severity] += count
        log["samples"] = (log["samples"] + samples)[:5]


def median_series(rounds, arm):
    """Median, least and most at each x over the rounds, where all have it."""
    runs = [r[arm] for r in rounds if arm in r]
    points = {}
    for run in runs:
        for x, y in run:
            points.setdefault(round(x, 1), []).append(y)
    return [(x, statistics.median(ys), min(ys), max(ys)) for x, ys in sorted(points.items())]

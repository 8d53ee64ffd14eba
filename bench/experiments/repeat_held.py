from steadybench import experiment
from steadybench.experiment import Case
from steadybench.figures import Target

Repeat = experiment.load("repeat")


class RepeatHeld(Repeat):
    """The same repeated pgbench runs while an idle transaction keeps an old snapshot: nothing that dies can be
    removed, and a btree's scans walk over more and more of it."""

    name, title, order = "repeat-held", "pgbench again and again, an old snapshot open", 20
    sizes = Repeat.sizes | {"runs": (3, 5, 5, 5), "transactions": (20, 1000, 4000, 10_000)}
    rounds = (1, 3, 3, 3)
    holder = "reader"

    def cases(self):
        yield Case("plain", "as pgbench has it")
        yield Case("indexed", "with an index on the balances", sizes="tnf", more=dict(balances=True))

    def targets(self):
        for case in self.chosen_cases():
            yield Target("last / first", case.name, least=0.97)

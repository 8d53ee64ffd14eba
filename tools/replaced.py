"""The server's own tests with steady indexes in the place of btree's: what may differ from the outputs that the server is
shipped with, and what became of the indexes.

What may differ is in t/replace_btree/SUITE.diffs, hunk by hunk as they were reviewed:

  # KEY: a reason                        at the beginning
  === TEST: KEY
  -what is expected, told with the names of btree (see NAMES)
  +what comes instead

<oid> there is any. A hunk that is not there fails its test."""

import collections
import re
import subprocess

import harness

# Lines of the log at debug2 tell what became of each index.
SETTINGS = ["shared_preload_libraries=steady", "steady.replace_btree=on", "log_min_messages=debug2"]
REVIEWED = harness.ROOT / "t/replace_btree"

# The same index by its two names is no difference; nor is the width of a column.
NAMES = [(re.compile(pattern), to) for pattern, to in (
    (r"\bUSING steady\b", "USING btree"),
    (r"\bsteady(?= \(|, for table)", "btree"),
    (r" WITH \(access_method='?steady'?\)", ""),
    (r"\baccess_method='?steady'?, |, access_method='?steady'?", ""),
    (r"(?m)^Options: access_method=steady\n", ""),
    (r"-{3,}", "---"),
)]

# First and last of the regression tests. (What they print is the statements themselves.)
SETUP = """CREATE SCHEMA steady;
CREATE EXTENSION steady SCHEMA steady;
"""
VERIFY = """DO $$
DECLARE
    one regclass;
    verified int := 0;
BEGIN
    FOR one IN SELECT i.indexrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
        WHERE a.amname = 'steady' AND c.relkind = 'i' AND c.relpersistence <> 't' AND i.indisready
    LOOP
        BEGIN
            PERFORM steady.steady_verify(one, heapallindexed => true);
            verified := verified + 1;
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING '%: %', one, SQLERRM;
        END;
    END LOOP;
    RAISE LOG 'right are % steady indexes', verified;
END $$;
"""


def prepare(inputs, suite):
    """Add our part to a copy of a suite's inputs; returns arguments for its program."""
    if suite != "regress":
        return ["--load-extension=steady"]
    schedule = inputs / "parallel_schedule"
    schedule.write_text(f"test: steady_setup\n{schedule.read_text()}\ntest: steady_verify\n")
    for name, script in ("steady_setup", SETUP), ("steady_verify", VERIFY):
        (inputs / f"sql/{name}.sql").write_text(script)
        (inputs / f"expected/{name}.out").write_text(script)
    return []


class Fates:
    """What the log of a run tells of indexes."""

    def __init__(self, log):
        self.steady = len(re.findall(r"an index on table \".*\" is steady's$", log, re.M))
        told = re.findall(r"an index on table \".*\" stays btree's\n.*DETAIL:  Here (.*)\.$", log, re.M)
        self.btree = collections.Counter(re.sub(r" for column \d+$", "", reason) for reason in told)
        self.right = sum(map(int, re.findall(r"right are (\d+) steady indexes", log)))

    def lines(self):
        yield f"{self.steady} indexes became steady's, {self.btree.total()} stayed btree's"
        yield from (f"{count:6} {reason}" for reason, count in self.btree.most_common())
        if self.right:
            yield f"{self.right} steady indexes that were left at the end were verified"


def named_alike(text):
    for pattern, to in NAMES:
        text = pattern.sub(to, text)
    return text


def hunks_of(diff):
    """The hunks of a unified diff without context, as texts of lines that begin with - or +."""
    hunks = []
    for line in diff.splitlines()[2:]:
        if line.startswith("@@"):
            hunks.append([])
        elif line[:1] in ("-", "+"):
            hunks[-1].append(re.sub(r"\s+", " ", line.rstrip()))
    return ["\n".join(hunk) for hunk in hunks]


def differences(inputs, folder, name):
    """The hunks by which a test's result differs from the likest of its expected outputs, names aside."""
    result = folder / f"results/{name}.out"
    if not result.exists():
        return ["+(no result)"]
    alike = folder / f"{name}.alike"
    alike.write_text(named_alike(result.read_text(errors="replace")))
    found = None
    for expected in sorted((inputs / "expected").glob(f"{name}*.out")):
        if not re.fullmatch(rf"{re.escape(name)}(_\d)?\.out", expected.name):
            continue
        diff = subprocess.run(["diff", "-w", "-U0", "-", alike], input=named_alike(expected.read_text(errors="replace")),
                              capture_output=True, text=True, errors="replace").stdout
        hunks = hunks_of(diff)
        if found is None or sum(map(len, hunks)) < sum(map(len, found)):
            found = hunks
    alike.unlink()
    return ["+(no expected output)"] if found is None else found


class Reviewed:
    """The differences of a suite that are known, and why each is there."""

    def __init__(self, suite):
        self.reasons, self.hunks = {}, {}
        text = (REVIEWED / f"{suite}.diffs").read_text()
        head, *entries = re.split(r"^=== ", text, flags=re.M)
        self.reasons = dict(re.findall(r"^# (\S+): (.*)", head, re.M))
        for entry in entries:
            title, _, hunk = entry.rstrip("\n").partition("\n")
            test, key = title.split(": ")
            if key not in self.reasons:
                harness.fail(f"{suite}.diffs: {test} has a reason that the file does not tell: {key}")
            pattern = re.escape(hunk).replace("<oid>", r"\d{5}")
            self.hunks.setdefault(test, []).append((re.compile(pattern), key))

    def sort(self, found):
        """Hunks by test in, how many of each reason and those without one out."""
        known, unknown = collections.Counter(), {}
        for test, hunks in found.items():
            for hunk in hunks:
                key = next((key for known_one, key in self.hunks.get(test, ()) if known_one.fullmatch(hunk)), None)
                if key:
                    known[key] += 1
                else:
                    unknown.setdefault(test, []).append(hunk)
        return known, unknown


def entries(unknown):
    """For review, and then for the file."""
    return "".join(f"=== {test}: ?\n{hunk}\n" for test, hunks in unknown.items() for hunk in dict.fromkeys(hunks))

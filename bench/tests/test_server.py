"""bench/run as a user runs it: on a running server (PGHOST names it, where the extension is installed), and in
clusters of its own, on the server of STEADY_BENCH_PG_CONFIG. Skipped where these are not given."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import psycopg2

BENCH = pathlib.Path(__file__).resolve().parents[1]
PG_CONFIG = os.environ.get("STEADY_BENCH_PG_CONFIG")
OURS = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'steady%' ORDER BY 1"


def bench(*args, **more):
    return subprocess.run([BENCH / "run", *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, **more)


def start(args, said):
    """A run in a session of its own, as from a terminal: ^C is heard even if whoever runs these tests ignores it, as
    commands do that a script started in the background."""
    return subprocess.Popen([BENCH / "run", *args], stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                            start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def processes(word, session=None):
    """Command lines that have a word in them; of one session, or of all."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                if str(word) in command and session in (None, os.getsid(int(entry.name))):
                    found.append(command)
            except OSError:
                pass
    return found


def wait_for_pgbench(test, process):
    """Until the load of that run is on."""
    until = time.monotonic() + 120
    while not processes("--log-prefix", process.pid):
        test.assertLess(time.monotonic(), until, "pgbench was not seen")
        test.assertIsNone(process.poll(), "the run ended before it began")
        time.sleep(0.05)


@unittest.skipUnless(os.environ.get("PGHOST"), "no running server")
class RunningServer(unittest.TestCase):
    def setUp(self):
        self.admin = psycopg2.connect("")
        self.admin.autocommit = True
        self.admin.cursor().execute("CREATE DATABASE bench_test")
        self.database = psycopg2.connect(dbname="bench_test")
        self.database.autocommit = True
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)
        self.addCleanup(self.drop)

    def drop(self):
        self.database.close()
        self.admin.cursor().execute("DROP DATABASE bench_test")
        self.admin.close()

    def rows(self, statement):
        with self.database.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else None

    def test_every_experiment_and_nothing_is_left(self):
        self.rows("CREATE TABLE pgbench_accounts AS SELECT 42 AS mine")
        done = bench("--dsn", "dbname=bench_test", "--yes", "--tiny", "--out", self.out)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        told = json.loads((self.out / "results.json").read_text())
        self.assertEqual([e["failures"] for e in told["experiments"]], [[] for _ in told["experiments"]])
        self.assertGreaterEqual(len(told["experiments"]), 13)
        for one in told["experiments"]:
            for case in one["cases"]:
                self.assertTrue(case["figures"], one["name"])
                for figure in case["figures"]:
                    self.assertLessEqual({"btree", "steady"}, set(figure["rounds"][0]),
                                         f"{one['name']}: {figure['name']}")
            for verdict in one["verdicts"]:
                # Phases of VACUUM are over too soon here to be seen.
                self.assertTrue(verdict["found"] or one["name"] == "vacuum", f"{one['name']}: {verdict['figure']}")
        self.assertIn("<h2>Verdicts</h2>", (self.out / "report.html").read_text())
        self.assertEqual(self.rows(OURS), [])
        self.assertEqual(self.rows("SELECT extname FROM pg_extension WHERE extname <> 'plpgsql'"), [])
        self.assertEqual(self.rows("SELECT mine FROM public.pgbench_accounts"), [(42,)])

    def test_nothing_is_done_without_a_yes(self):
        done = bench("mark", "--dsn", "dbname=bench_test", "--tiny", "--out", self.out)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("creates schemas named steady_bench", done.stdout)
        self.assertEqual(self.rows("SELECT count(*) FROM pg_extension WHERE extname = 'steady'"), [(0,)])
        self.assertEqual(list(self.out.iterdir()), [])

    def test_a_schema_of_somebody_else_is_not_touched(self):
        self.rows("CREATE SCHEMA steady_bench_mine; CREATE TABLE steady_bench_mine.t ()")
        done = bench("mark", "--dsn", "dbname=bench_test", "--yes", "--tiny", "--out", self.out)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("steady_bench_mine", done.stderr)
        self.assertEqual(self.rows("SELECT count(*) FROM pg_tables WHERE schemaname = 'steady_bench_mine'"), [(1,)])
        self.assertEqual(self.rows(OURS), [("steady_bench_mine",)])

    def test_interrupt_leaves_nothing_behind(self):
        with open(self.out / "said", "w") as said:
            process = start(["unique-dead", "--dsn", "dbname=bench_test", "--yes", "--tiny", "--seconds", "120", "--out",
                             self.out], said)
        wait_for_pgbench(self, process)
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(240), 130)
        self.assertEqual(self.rows(OURS), [])
        until = time.monotonic() + 60
        while self.rows("SELECT count(*) FROM pg_stat_activity WHERE datname = 'bench_test'") != [(1,)]:
            self.assertLess(time.monotonic(), until, "sessions are left")
            time.sleep(0.05)

    def test_what_an_interrupted_run_left_is_taken_away_by_the_next(self):
        self.rows("CREATE SCHEMA steady_bench_7_0; COMMENT ON SCHEMA steady_bench_7_0 IS "
                  "'made by bench/run of steady; dropped by it without asking'")
        done = bench("mark", "--dsn", "dbname=bench_test", "--yes", "--tiny", "--out", self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.rows(OURS), [])


@unittest.skipUnless(PG_CONFIG, "no server to copy")
class OwnCluster(unittest.TestCase):
    """With btree alone, so that nothing need be built."""

    ARGS = ("queue", "--arms", "btree", "--tiny", "--pg-config", PG_CONFIG or "")

    def interrupted(self, signum, status):
        work = BENCH.parent / "build/bench"
        with tempfile.TemporaryDirectory() as out, open(pathlib.Path(out) / "said", "w+") as said:
            process = start([*self.ARGS, "--seconds", "120", "--cases", "standby", "--out", out], said)
            try:
                # In the midst of it: two servers, and pgbench at work.
                wait_for_pgbench(self, process)
                # (A child has its postmaster's command line until it sets its own.)
                self.assertEqual(len({line for line in processes(work) if "/postgres -D" in line}), 2)
                os.killpg(process.pid, signum)
                self.assertEqual(process.wait(240), status)
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait(60)
        self.assertEqual(processes(work), [])
        self.assertEqual(processes("--log-prefix", process.pid), [])
        self.assertFalse(work.exists())

    def test_interrupt_leaves_no_server_behind(self):
        self.interrupted(signal.SIGINT, 130)

    def test_termination_leaves_no_server_behind(self):
        self.interrupted(signal.SIGTERM, 128 + signal.SIGTERM)

    def test_an_arm_that_fails_fails_the_run_and_is_in_the_report(self):
        with tempfile.TemporaryDirectory() as out:
            # A transaction that is not allowed: no prepared transactions.
            done = bench(*self.ARGS, "--cases", "prepared;none", "--set", "max_prepared_transactions=0", "--out", out)
            told = json.loads((pathlib.Path(out) / "results.json").read_text())["experiments"][0]
            page = (pathlib.Path(out) / "report.html").read_text()
        self.assertEqual(done.returncode, 1)
        self.assertEqual([(f["case"], f["arm"]) for f in told["failures"]], [("prepared", "btree")])
        self.assertIn("prepared transactions are disabled", page)
        self.assertGreater(told["log"]["btree"]["ERROR"], 0)
        by_name = {case["name"]: case for case in told["cases"]}
        self.assertTrue(by_name["none"]["figures"][0]["rounds"][0]["btree"] > 0)
        self.assertEqual(by_name["prepared"]["figures"], [])


if __name__ == "__main__":
    unittest.main()

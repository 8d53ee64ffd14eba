"""Figures from what pgbench prints and logs. The texts are as pgbench 15 and 18 wrote them."""

import pathlib
import tempfile
import unittest

from steadybench import pgbench

OUTPUT = """pgbench (15.20 (Debian 15.20-0+deb12u1))
transaction type: queue.sql
scaling factor: 1
query mode: simple
number of clients: 4
number of threads: 1
maximum number of tries: 1
duration: 3 s
number of transactions actually processed: 15321
number of failed transactions: 0 (0.000%)
latency average = 0.783 ms
latency stddev = 1.203 ms
initial connection time = 7.412 ms
tps = 5107.804321 (without initial connection time)
"""
PROGRESS = """progress: 1.0 s, 4000.5 tps, lat 0.990 ms stddev 0.300, 0 failed
progress: 2.0 s, 5000.0 tps, lat 0.800 ms stddev 0.200, 0 failed
progress: 3.0 s, 6000.0 tps, lat 0.660 ms stddev 0.100, 0 failed
"""
THROTTLED = "progress: 1.0 s, 799.0 tps, lat 2.131 ms stddev 1.1, 0 failed, lag 0.204 ms\n"
FIXED = OUTPUT.replace("duration: 3 s\n", "number of transactions per client: 1000\n").replace("15321", "4000/4000")


class Pgbench(unittest.TestCase):
    def test_summary(self):
        run = pgbench.parse(OUTPUT, "")
        self.assertEqual((run.tps, run.latency, run.transactions, run.failed), (5107.804321, 0.783, 15321, 0))

    def test_a_fixed_number_of_transactions(self):
        self.assertEqual(pgbench.parse(FIXED, "").transactions, 4000)

    def test_failed_transactions_are_counted(self):
        seven = OUTPUT.replace("failed transactions: 0 (0", "failed transactions: 7 (0")
        self.assertEqual(pgbench.parse(seven, "").failed, 7)

    def test_progress(self):
        run = pgbench.parse(OUTPUT, "pgbench (15.20)\n" + PROGRESS)
        self.assertEqual(run.progress, [(1.0, 4000.5, 0.99), (2.0, 5000.0, 0.8), (3.0, 6000.0, 0.66)])
        self.assertEqual(run.window(1, False), 4000.5)
        self.assertEqual(run.window(2, False), 4500.25)
        self.assertEqual(run.window(2, True), 5500.0)

    def test_progress_of_a_throttled_run(self):
        self.assertEqual(pgbench.parse(OUTPUT, THROTTLED).progress, [(1.0, 799.0, 2.131)])

    def test_a_client_that_gave_up_is_a_failure(self):
        with self.assertRaisesRegex(pgbench.Failed, "client 2 script 0 aborted"):
            pgbench.parse(OUTPUT, PROGRESS + "pgbench: error: client 2 script 0 aborted in command 1: ERROR:  no\n")

    def test_output_without_figures_is_a_failure(self):
        with self.assertRaises(pgbench.Failed):
            pgbench.parse("pgbench (15.20)\n", "")

    def test_latencies_of_all_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            # client, number, µs, script, epoch, µs of it[, lag]; a skipped one has no latency
            (folder / "log.1").write_text("".join(f"0 {n} {n * 10} 0 1700000000 {n}\n" for n in range(1, 100)))
            (folder / "log.1.1").write_text("1 1 50000 0 1700000000 9 12\n1 2 skipped 0 1700000000 9 12\n")
            found = pgbench.read_latencies(folder.glob("log.*"))
        self.assertEqual((len(found), found[0], found[-1]), (100, 10, 50000))
        run = pgbench.Run(1, 1, 100, 0, [], found)
        self.assertEqual((run.percentile(0.5), run.percentile(0.95), run.percentile(0.99), run.percentile(1)),
                         (0.51, 0.96, 50.0, 50.0))


if __name__ == "__main__":
    unittest.main()

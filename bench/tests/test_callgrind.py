"""Counts from what valgrind prints around a server's own output."""

import unittest

from steadybench import callgrind

TOLD = """==812== Callgrind, a call-graph generating cache profiler
==812== For interactive control, run 'callgrind_control -h'.

PostgreSQL stand-alone backend 15.20 (Debian 15.20-0+deb12u1)
backend> \t 1: abalance\t(typeid = 23, len = 4, typmod = -1, byval = t)
\t----
backend> 2026-11-30 12:00:00.000 UTC [812] LOG:  checkpoint starting: shutdown immediate
==812==
==812== Events    : Ir
==812== Collected : 85866450
==812==
==812== I   refs:      85,866,450
"""
ERROR = "backend> 2026-11-30 12:00:00.000 UTC [812] ERROR:  relation \"t\" does not exist at character 15\n"


class Callgrind(unittest.TestCase):
    def test_count(self):
        self.assertEqual(callgrind.collected(TOLD), 85866450)

    def test_an_error_of_the_server_is_a_failure(self):
        with self.assertRaisesRegex(callgrind.Failed, 'ERROR:  relation "t" does not exist'):
            callgrind.collected(ERROR + TOLD)

    def test_no_count_is_a_failure(self):
        with self.assertRaises(callgrind.Failed):
            callgrind.collected(TOLD.replace("Collected", "Gathered"))


if __name__ == "__main__":
    unittest.main()

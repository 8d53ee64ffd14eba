"""Run pgbench, and read what it prints and logs."""

import array
import dataclasses
import pathlib
import re
import signal
import subprocess
import tempfile


class Failed(Exception):
    """pgbench, or a client of it, gave up."""


@dataclasses.dataclass
class Run:
    tps: float
    latency: float                  # ms, average
    transactions: int
    failed: int
    progress: list                  # (seconds since the start, tps, ms) of each interval
    latencies: array.array = dataclasses.field(default_factory=lambda: array.array("L"))      # µs, sorted

    def percentile(self, share):
        """Latency in ms that this share of the transactions did not exceed."""
        count = len(self.latencies)
        return self.latencies[min(count - 1, int(count * share))] / 1000 if count else None

    def window(self, seconds, end):
        """Average tps of the first or last so many seconds; of a run that was too short to tell, of all of it."""
        if not self.progress:
            return self.tps
        last = self.progress[-1][0]
        rates = [tps for at, tps, _ in self.progress if (at > last - seconds if end else at <= seconds + 0.5)]
        return sum(rates) / len(rates)


def one(pattern, text, what):
    found = re.search(pattern, text, re.M)
    if not found:
        raise Failed(f"pgbench's output tells no {what}:\n{text[-1000:]}")
    return found[1]


def parse(output, messages):
    """The figures of one run from pgbench's standard output and standard error."""
    progress = [(float(at), float(tps), float(lat)) for at, tps, lat in re.findall(
        r"^progress: ([\d.]+) s, ([\d.]+) tps, lat ([\d.]+) ms", messages, re.M)]
    # A client that failed leaves the others running: pgbench says so and exits with 2, or counts it.
    aborted = re.search(r"^pgbench: error: (.*)", messages, re.M)
    if aborted:
        raise Failed(aborted[1])
    failed = re.search(r"^number of failed transactions: (\d+)", output, re.M)
    return Run(tps=float(one(r"^tps = ([\d.]+)", output, "tps")),
               latency=float(one(r"^latency average = ([\d.]+) ms", output, "latency")),
               transactions=int(one(r"^number of transactions actually processed: (\d+)", output, "transactions")),
               failed=int(failed[1]) if failed else 0, progress=progress)


def read_latencies(files):
    """Latencies in µs of every transaction in pgbench's logs, sorted. A line: client, number, µs, ..."""
    found = array.array("L")
    for file in files:
        with open(file) as lines:
            for line in lines:
                latency = line.split(" ", 3)[2]
                if latency.isdigit():       # "failed", "skipped"
                    found.append(int(latency))
    return array.array("L", sorted(found))


class Load:
    """pgbench in the background: `with Load(...) as load: ...; load.result()`. It never outlives the block."""

    def __init__(self, program, args, conninfo, env, script=None, logged=True):
        self.folder = tempfile.TemporaryDirectory(prefix="steady-pgbench-")
        folder = pathlib.Path(self.folder.name)
        self.logs = folder / "log"
        args = [program, *args]
        if script:
            (folder / "script.sql").write_text(script)
            args += ["-f", folder / "script.sql"]
        if logged:
            args += ["-l", f"--log-prefix={self.logs}"]
        self.out, self.err = open(folder / "out", "w+"), open(folder / "err", "w+")
        self.process = subprocess.Popen([str(a) for a in args] + [conninfo], env=env, cwd=folder, stdout=self.out,
                                        stderr=self.err, stdin=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.out.close()
        self.err.close()
        self.folder.cleanup()

    def result(self):
        status = self.process.wait()
        texts = []
        for file in self.out, self.err:
            file.seek(0)
            texts.append(file.read())
        if status:
            errors = re.findall(r"(?:error|FATAL|fatal): .*", texts[1])
            raise Failed(errors[0] if errors else f"pgbench ended with status {status}: {texts[1][-500:]}")
        run = parse(*texts)
        run.latencies = read_latencies(self.logs.parent.glob(f"{self.logs.name}.*"))
        return run

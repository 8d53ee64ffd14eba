"""Everything around the experiments: a server with the extension, places by what they are to be like, and the facts
that a report begins with."""

import datetime
import fcntl
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import harness

from . import experiment, places

FLAVOURS = {"15": "distribution"}   # others are built from source, without assertions
STANDARD_PGBENCH = pathlib.Path("/usr/lib/postgresql/15/bin/pgbench")


def patch_set(source):
    """As the names of servers that tools/server built tell it."""
    built = re.search(r"/[\d.]+-(\w+)-(?:plain|assert)/", source)
    return {"stock": "none"}.get(built[1], built[1]) if built else "as installed"


def other_than_prefix(configure):
    """What `pg_config --configure` tells of a build but for the place that it was made for."""
    return sorted(shlex.split(re.sub(r"--prefix=[^ ']*", "", configure)))


class Lab:
    """`with Lab(...) as lab`: what it started is stopped at the end, and what it made is gone."""

    def __init__(self, name, pg="15", pg_config=None, dsn=None, pgbench=None, with_steady=True, extra=(), say=print,
                 stock_config=None):
        self.name, self.pg, self.pg_config, self.dsn = name, pg, pg_config, dsn
        self.with_steady, self.extra, self.say = with_steady, extra, say
        self.pgbench, self.stock_config = pgbench, stock_config
        self.work = self.server = self.stock_server = None
        self.open = {}
        self.load_before, self.commit = os.getloadavg()[0], places.commit()

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.close_places()
        if self.work:
            self.work.remove()

    def begin(self):
        if self.dsn:
            # One program for every server, so that they are compared by the same load.
            program = self.pgbench or (STANDARD_PGBENCH if STANDARD_PGBENCH.exists() else shutil.which("pgbench"))
            if not program:
                harness.fail("no pgbench found: name one by --pgbench")
            self.open[None] = place = places.Running(self.dsn, program)
            place.prepare(self.with_steady)
            return
        (harness.ROOT / "build").mkdir(exist_ok=True)
        self.lock = open(harness.ROOT / f"build/.{self.name}.lock", "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            harness.fail(f"another run is at work in {harness.ROOT / 'build' / self.name}")
        self.work = harness.Work(self.name)
        pg_config = self.pg_config or subprocess.check_output(
            [harness.ROOT / "tools/server", self.pg, FLAVOURS.get(self.pg, "plain")], text=True).strip()
        self.server = harness.Server(self.work, pg_config)
        if not self.pgbench:
            self.pgbench = STANDARD_PGBENCH if STANDARD_PGBENCH.exists() else self.server.bindir / "pgbench"
        self.source = pg_config
        if self.with_steady:
            self.say(f"building the extension for PostgreSQL {self.server.version} ({pg_config})")
            self.server.install_extension()

    def place_for(self, spec):
        """The place that is like `spec`; a running database is as it is."""
        if self.dsn:
            if spec.checksums is not None or spec.label or spec.build:
                raise places.Unavailable("needs a cluster of its own")
            return self.open[None]
        if spec not in self.open:
            name = f"cluster{len(self.open)}"
            server = self.stock() if spec.build == "stock" else self.server
            if spec.build == "patched" and not server.patched():
                raise places.Unavailable("this server was built without patches")
            self.open[spec] = place = places.ThrowAway(server, name, spec, self.extra, self.pgbench)
            place.prepare(self.with_steady and spec.build != "stock")
        return self.open[spec]

    def stock(self):
        """The same server, built the same way but without patches, beside one that has them."""
        if not self.server.patched():
            raise places.Unavailable("this server was built without patches")
        if not self.stock_server:
            self.stock_config = self.stock_config or subprocess.check_output(
                [harness.ROOT / "tools/server", str(self.server.major), "plain"], text=True).strip()
            told = [(server, subprocess.check_output([server, "--configure"], text=True),
                     subprocess.check_output([server, "--version"], text=True))
                    for server in (self.source, self.stock_config)]
            if len({(version, *other_than_prefix(configure)) for _, configure, version in told}) > 1:
                raise places.Unavailable(f"{told[0][0]} and {told[1][0]} differ in more than patches")
            self.stock_server = harness.Server(self.work, self.stock_config, "stock")
        return self.stock_server

    def close_places(self):
        while self.open:
            self.open.popitem()[1].down()

    def run(self, one):
        """Run one experiment. Each has clusters of its own, so that none inherits what another left."""
        try:
            return experiment.Runner(one, self.place_for, self.say).run()
        finally:
            if not self.dsn:
                self.close_places()

    def environment(self, command):
        """What a report begins with."""
        if self.dsn:
            place = self.open[None]
            version, source = place.value("SELECT version()"), "a running server"
        else:
            version = subprocess.check_output([self.server.bindir / "postgres", "--version"], text=True).strip()
            source = self.source
        program = self.pgbench or self.open[None].pgbench_program
        program = subprocess.check_output([program, "--version"], text=True).strip()
        return {
            "commit": self.commit, "server": version, "server from": str(source), "patch set": patch_set(str(source)),
            "pgbench": program, "processors": f"{os.cpu_count()} × {places.processor()}",
            "memory": f"{places.memory() / 2**30:.0f} GB", "load average before": f"{self.load_before:.2f}",
            "load average after": f"{os.getloadavg()[0]:.2f}",
            "date": datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="minutes"), "command": command}

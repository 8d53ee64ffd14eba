"""Where arms are measured: a throw-away cluster, or a running database that the user named."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

import psycopg2
import psycopg2.extensions

import harness

from . import holders

SCHEMA = "steady_bench"
MARK = "made by bench/run of steady; dropped by it without asking"
SEVERITIES = ("ERROR", "WARNING", "FATAL", "PANIC")
# What a server with patches can do, and the function that works where it does.
HOOKS = {"hook for the free space map": "steady_fsm_counts", "hook for buffer replacement": "steady_buffer_counts"}
LOGGED = re.compile(r"\b(ERROR|WARNING|FATAL|PANIC):  (.*)")
# What every cluster of ours has: room, and nothing in the background that takes turns of its own.
BASE_SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "1h", "fsync": "off",
                 "synchronous_commit": "off", "autovacuum": "off", "jit": "off", "max_prepared_transactions": "2",
                 "log_checkpoints": "off"}


@dataclasses.dataclass(frozen=True)
class Spec:
    """What a throw-away cluster is to be like. Equal specs share one."""

    settings: tuple = ()            # (name, value) pairs, over BASE_SETTINGS
    checksums: bool = None          # None: as initdb has it
    label: str = ""                 # tells apart what is equal otherwise
    build: str = ""                 # where arms are builds of the server: "stock" or "patched"


class Unavailable(Exception):
    """This place can't do what a case needs; the case is passed over and the report says so."""


class Place:
    """Connections, pgbench's way in, and the server's log."""

    can = frozenset()

    def connect(self, **more):
        connection = psycopg2.connect(self.conninfo(**more))
        connection.autocommit = True
        return connection

    def sql(self, *statements):
        with holders.closing(self.connect()) as (connection,):
            return holders.execute(connection, *statements)

    def value(self, statement):
        return self.sql(statement)[0][0]

    @property
    def major(self):
        if not hasattr(self, "version_num"):
            self.version_num = int(self.value("SHOW server_version_num"))
        return self.version_num // 10000

    def prepare(self, with_steady):
        """The schema of ours, and the extension: in our schema where the database has none yet."""
        self.clear()
        self.sql(f"CREATE SCHEMA {SCHEMA}", f"COMMENT ON SCHEMA {SCHEMA} IS '{MARK}'")
        if with_steady and not self.value("SELECT count(*) FROM pg_extension WHERE extname = 'steady'"):
            self.sql(f"CREATE EXTENSION steady SCHEMA {SCHEMA}")

    def fresh_schema(self, name):
        self.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE", f"CREATE SCHEMA {name}",
                 f"COMMENT ON SCHEMA {name} IS '{MARK}'")

    def clear(self):
        """Drop every schema of ours. What has our name without our mark is somebody else's, and stops us."""
        found = self.sql("SELECT nspname, obj_description(oid, 'pg_namespace') FROM pg_namespace "
                         rf"WHERE nspname LIKE '{SCHEMA.replace('_', chr(92) + '_')}%' ORDER BY length(nspname) DESC")
        for name, comment in found:
            if comment != MARK:
                raise SystemExit(f"schema {name} is there and was not made by this bench: rename or drop it first")
            self.sql("SET client_min_messages = error", f"DROP SCHEMA {name} CASCADE")

    def log_mark(self):
        return None

    def logged_since(self, _mark):
        """{severity: count} and the first lines, or None where the log can't be read."""
        return None

    def settings(self):
        return dict(self.sql("SELECT name, setting || coalesce(' ' || unit, '') FROM pg_settings WHERE source NOT IN "
                             "('default', 'override', 'client', 'session') AND name NOT IN "
                             "('application_name', 'TimeZone', "
                             "'listen_addresses', 'port', 'unix_socket_directories', 'lc_messages', 'lc_monetary', "
                             "'lc_numeric', 'lc_time', 'log_timezone', 'default_text_search_config') ORDER BY name"))


class Running(Place):
    """A database that the user named. We may make and drop our schemas there, and nothing else."""

    can = frozenset({"prepare"})

    def __init__(self, dsn, pgbench):
        self.parts = psycopg2.extensions.parse_dsn(dsn)
        # Not on a command line that anybody could read.
        self.env = dict(os.environ)
        if "password" in self.parts:
            self.env["PGPASSWORD"] = self.parts["password"]
        self.pgbench_program = pgbench
        if self.value("SHOW max_prepared_transactions") == "0":
            self.can = frozenset()

    def conninfo(self, **more):
        return psycopg2.extensions.make_dsn(**self.parts | more)

    def pgbench_conninfo(self, **more):
        return psycopg2.extensions.make_dsn(**{k: v for k, v in self.parts.items() if k != "password"} | more)

    def down(self):
        self.clear()


class ThrowAway(Place):
    """A cluster of our own, as it was asked for."""

    can = frozenset({"prepare", "restart", "standby"})

    def __init__(self, server, name, spec, extra, pgbench):
        self.name, self.pgbench_program = name, pgbench
        self.folder = server.work.path / name
        shutil.rmtree(self.folder, ignore_errors=True)
        chosen = BASE_SETTINGS | dict(spec.settings) | dict(extra)
        settings = [f"{key}={value}" for key, value in chosen.items()]
        checksums = {None: [], True: ["--data-checksums"],
                     False: ["--no-data-checksums"] if server.major >= 18 else []}[spec.checksums]
        self.cluster = harness.Cluster(server, self.folder, settings, clean=False, initdb=checksums)
        self.standby_place = None
        start(self.cluster)
        self.env = self.cluster.env

    def conninfo(self, **more):
        parts = {"host": self.env["PGHOST"], "port": self.env["PGPORT"], "user": "postgres", "dbname": "postgres"}
        return psycopg2.extensions.make_dsn(**parts | more)

    pgbench_conninfo = conninfo

    def prepare(self, with_steady):
        """What hooks the server has, a module's function tells once the library is preloaded."""
        super().prepare(with_steady)
        for hook, function in HOOKS.items() if with_steady else ():
            try:
                self.sql(f"SELECT {SCHEMA}.{function}()")
            except psycopg2.Error:
                continue
            self.can |= {hook}

    def standby(self):
        if not self.standby_place:
            self.standby_place = Standby(self)
        return self.standby_place

    def caught_up(self):
        return self.value("SELECT coalesce(bool_and(replay_lsn >= pg_current_wal_lsn()), false) "
                          "FROM pg_stat_replication")

    def restart(self):
        self.cluster.restart()

    def revive(self):
        """After a failure: a server that is gone for good is started again, for the arms to come."""
        if self.cluster.process.poll() is not None:
            self.cluster.start()

    def log_mark(self):
        return self.cluster.log.stat().st_size

    def logged_since(self, mark):
        with open(self.cluster.log, errors="replace") as log:
            log.seek(mark)
            return count_log(log.read())

    def down(self):
        if self.standby_place:
            self.standby_place.down()
        self.cluster.down()
        shutil.rmtree(self.folder, ignore_errors=True)


def start(cluster):
    """Up, or down and the end of its log shown: the folder won't be there to look into."""
    try:
        cluster.up()
    except BaseException:
        cluster.down()
        if cluster.log.exists():
            print("\n".join(cluster.log.read_text(errors="replace").splitlines()[-10:]), file=sys.stderr)
        raise


class Standby(Place):
    """A streaming standby that tells its primary what its snapshots need, through a slot."""

    def __init__(self, primary):
        server = primary.cluster.server
        primary.sql("SELECT pg_create_physical_replication_slot('steady_standby', true)")
        self.cluster = harness.Cluster(server, primary.folder / "standby", clean=False, settings=[
            *primary.cluster.settings, "hot_standby_feedback=on", "wal_receiver_status_interval=1s",
            "max_standby_streaming_delay=-1", "primary_slot_name=steady_standby",
            f"primary_conninfo={primary.conninfo()}"], copy_of=primary.cluster)
        start(self.cluster)
        self.env = self.cluster.env

    conninfo = ThrowAway.conninfo

    def down(self):
        self.cluster.down()


def count_log(text):
    counts, samples = dict.fromkeys(SEVERITIES, 0), []
    for line in text.splitlines():
        found = LOGGED.search(line)
        if found:
            counts[found[1]] += 1
            if len(samples) < 5:
                samples.append(line[:300])
    return counts, samples


def memory():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def processor():
    try:
        return re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):
        return "unknown"


def commit():
    """The commit of these sources, and whether they were changed since."""
    told = subprocess.run(["git", "-C", harness.ROOT, "-c", f"safe.directory={harness.ROOT}", "describe", "--always",
                           "--dirty", "--abbrev=12"], capture_output=True, text=True)
    return told.stdout.strip() or "unknown (not a clone)"

"""An arm: one way to do the work, with tables of its own. Arms of a case differ in nothing but what their names say."""

import dataclasses
import subprocess
import time

from . import callgrind, holders, pgbench, places


@dataclasses.dataclass(frozen=True)
class Kind:
    method: str
    options: str = ""               # settings of each session of this arm
    needs_steady: bool = False


KINDS = {
    "btree": Kind("btree"),
    "steady": Kind("steady", needs_steady=True),
    "steady, kills off": Kind("steady", "-c steady.kill=off", needs_steady=True),
    "hash": Kind("hash"),
    "gist": Kind("gist"),
    # The server's free space map, and ours in its place: a setting of the whole server.
    "core": Kind("btree", needs_steady=True),
    "leases": Kind("btree", needs_steady=True),
    # Buffer replacement ("core" stands for the server's own here, too).
    "clock": Kind("btree", needs_steady=True),
    "s3fifo": Kind("btree", needs_steady=True),
    "all modules": Kind("btree", needs_steady=True),
    # A server's build without patches and the one with them, where no library is loaded.
    "stock": Kind("btree"),
    "patched": Kind("btree"),
}
FORCED = "-c enable_seqscan=off -c enable_bitmapscan=off"


class Arm:
    """A schema in a place, and a session in it. `method` is the access method to make indexes with."""

    def __init__(self, name, place, schema):
        self.name, self.place, self.schema = name, place, schema
        self.kind = KINDS[name]
        self.method = self.kind.method
        self.connection = None

    def options(self, more=""):
        # Compiling a query takes longer than what is measured here, and no arm has to do with it.
        ours = f"-c search_path={self.schema} -c client_min_messages=error -c jit=off"
        return f"{ours} {self.kind.options} {more}".strip()

    def connect(self, more=""):
        return self.place.connect(options=self.options(more))

    def session(self):
        if self.connection is None or self.connection.closed:
            self.connection = self.connect()
        return self.connection

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def sql(self, *statements):
        return holders.execute(self.session(), *statements)

    def value(self, *statements):
        return self.sql(*statements)[0][0]

    def timed(self, *statements):
        """Seconds that the statements took, and what the last one returned."""
        session = self.session()
        start = time.perf_counter()
        rows = holders.execute(session, *statements)
        return time.perf_counter() - start, rows

    def index(self, table, columns, unique=False, name="", rest=""):
        self.sql(f"CREATE {'UNIQUE ' if unique else ''}INDEX {name} ON {table} USING {self.method} {columns} {rest}")

    def load(self, *args, script=None, options="", env=(), logged=True):
        """pgbench on this arm's tables, in the background."""
        conninfo = self.place.pgbench_conninfo(options=self.options(options))
        return pgbench.Load(self.place.pgbench_program, args, conninfo, self.place.env | dict(env), script, logged)

    def run_to_end(self, args, conninfo):
        """A program that makes something."""
        done = subprocess.run([str(a) for a in args] + [conninfo], env=self.place.env, capture_output=True, text=True)
        if done.returncode:
            raise pgbench.Failed(done.stderr.strip()[-500:])

    def pgbench(self, *args, **more):
        with self.load(*args, **more) as load:
            return load.result()

    def instructions(self, statements, options=""):
        """How many a server of its own executes for these statements, its start and its end included."""
        self.close()
        return callgrind.instructions(self.place, statements, self.options(options))

    def hold(self, holder, dead=0, counts=""):
        """A context in which that holder keeps the horizon where it is."""
        need = holders.NEEDS.get(holder)
        if need and need not in self.place.can:
            raise places.Unavailable(f"this server allows no {need}")
        return holders.HOLDERS[holder](self, dead, counts)

    def verify(self):
        """Every steady index of this arm, against its table. An error if one lies."""
        if self.method != "steady":
            return
        home = self.value("SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
                          "WHERE e.extname = 'steady'")
        self.sql(f"""SELECT "{home}".steady_verify(c.oid::regclass, heapallindexed => true) FROM pg_class c
                     JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'steady' AND c.relkind = 'i'
                     AND c.relnamespace = '{self.schema}'::regnamespace""")

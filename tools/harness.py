"""What the tools share: a place and a user to work with, private copies of servers, and throw-away clusters.

PostgreSQL refuses to run as root, and a clone may lie where no other user can enter. So everything happens in a work
folder that belongs to the unprivileged user, with a copy of the sources and a copy of the server in it: the system's
own server is never installed into, runs for several servers never mix objects, and nothing needs root.
"""

import ctypes
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ["Makefile", ".clang-format", "src", "sql", "expected", "t", "tools", "bench"]
PR_SET_PDEATHSIG = 1


def fail(message):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {message}")


def interruptible():
    """Let a plain kill unwind like ^C, so that clusters are stopped."""

    def stop(signum, _frame):
        sys.exit(128 + signum)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)


class User:
    """Whom the servers run as: ourselves, or for root the packages' own user."""

    def __init__(self):
        name = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        try:
            self.entry = pwd.getpwnam(name)
        except KeyError:
            fail("running as root needs a user named postgres to run servers as")
        self.switch = {}
        if os.geteuid() == 0:
            self.switch = dict(user=self.entry.pw_uid, group=self.entry.pw_gid, extra_groups=[])

    def own(self, path):
        if self.switch:
            os.chown(path, self.entry.pw_uid, self.entry.pw_gid)


class Work:
    """An empty folder of the unprivileged user: build/NAME, or one below /var/tmp if it cannot enter that."""

    def __init__(self, name):
        self.user = User()
        self.running = set()
        self.path = ROOT / "build" / name
        self.temporary = False
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)
        self.user.own(self.path)
        probe = subprocess.run(["test", "-w", self.path], **self.user.switch)
        if probe.returncode != 0:
            self.path.rmdir()
            self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"steady-{name}-", dir="/var/tmp"))
            self.temporary = True
            self.user.own(self.path)
            print(f"{self.user.entry.pw_name} cannot enter {ROOT}: working in {self.path}", flush=True)

    def env(self, **more):
        kept = {k: v for k, v in os.environ.items() if k == "PATH" or k.startswith("STEADY_")}
        return kept | {"HOME": str(self.path), "USER": self.user.entry.pw_name, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"} | more

    def start(self, args, **more):
        """A process of the unprivileged user in a session of its own, ended by the kernel if we are killed."""
        libc = ctypes.CDLL(None)
        options = dict(cwd=self.path, env=self.env(), stdin=subprocess.DEVNULL, start_new_session=True)
        return subprocess.Popen([str(arg) for arg in args], **(options | more), **self.user.switch,
                                preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT))

    def run(self, args, log, timeout=None, **more):
        """Run to the end with all output in the file log; returns the exit status (None: out of time)."""
        with open(log, "ab") as output:
            process = self.start(args, stdout=output, stderr=subprocess.STDOUT, **more)
            self.running.add(process)
            try:
                return process.wait(timeout)
            except subprocess.TimeoutExpired:
                return None
            finally:
                end(process)
                self.running.discard(process)

    def end_all(self):
        """End what other threads have running."""
        for process in list(self.running):
            end(process)

    def copy_sources(self, name):
        """A copy of the sources without anything built, and where it is."""
        tree = self.path / name
        tree.mkdir()
        built = shutil.ignore_patterns("*.o", "*.d", "*.bc", "*.so", "__pycache__")
        for source in SOURCES:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, tree / source, ignore=built)
            elif (ROOT / source).exists():
                shutil.copy2(ROOT / source, tree / source)
        for path in [tree, *tree.rglob("*")]:
            self.user.own(path)
        return tree

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


def end(process):
    """Stop a process that start() began: politely first, since test scripts stop their servers then."""
    for signum, patience in ((signal.SIGTERM, 60), (signal.SIGKILL, 10)):
        if process.poll() is None:
            os.killpg(process.pid, signum)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                pass


class Server:
    """A private copy of an installed server. Its programs find their files relative to where they are."""

    def __init__(self, work, pg_config, name="server"):
        def ask(option, program=pg_config):
            return pathlib.Path(subprocess.check_output([program, option], text=True).strip())

        self.work = work
        bindir, libdir, sharedir = ask("--bindir"), ask("--pkglibdir"), ask("--sharedir")
        # How the server lays out its tree below its prefix, whatever the prefix is.
        prefix = pathlib.Path(os.path.commonpath([bindir, libdir, sharedir, ask("--includedir-server")]))
        copy = work.path / name
        for folder in [bindir, libdir, sharedir]:
            if not (copy / folder.relative_to(prefix)).exists():
                shutil.copytree(folder, copy / folder.relative_to(prefix), symlinks=True)
        includes = pathlib.Path(os.path.commonpath([ask("--includedir"), ask("--includedir-server")]))
        (copy / includes.relative_to(prefix)).parent.mkdir(parents=True, exist_ok=True)
        (copy / includes.relative_to(prefix)).symlink_to(includes)
        for path in [copy, *copy.rglob("*")]:
            if not path.is_symlink():
                work.user.own(path)

        self.bindir = copy / bindir.relative_to(prefix)
        self.pg_config = self.bindir / "pg_config"
        for option in ("--pkglibdir", "--sharedir"):
            if not ask(option, self.pg_config).is_relative_to(copy):
                fail(f"{pg_config}: this server cannot be copied elsewhere")
        for stray in [*copy.rglob("steady*.so"), *copy.rglob("extension/steady*")]:
            stray.unlink()
        self.version = subprocess.check_output([self.pg_config, "--version"], text=True).split()[1]
        self.major = int(re.match(r"\d+", self.version)[0])
        self.tests = ask("--pgxs", self.pg_config).parent.parent / "test"
        self.pkglibdir = ask("--pkglibdir", self.pg_config)

    def patched(self):
        """Was it built with contrib_patches?"""
        told = subprocess.check_output([self.pg_config, "--includedir-server"], text=True).strip()
        return pathlib.Path(told, "utils/steady_patch_set.h").exists()

    def install_extension(self, *variables):
        """Build the extension from a copy of these sources and install it into this copy of a server."""
        log = self.work.path / "build.log"
        if self.make(self.work.copy_sources("tree"), "install", "with_llvm=no", *variables, log=log) != 0:
            print(log.read_text()[-5000:])
            fail("the build failed")

    def make(self, tree, *goals, log, **more):
        args = ["make", f"-j{os.cpu_count()}", f"PG_CONFIG={self.pg_config}", *goals]
        return self.work.run(args, log, cwd=tree, **more)


class Cluster:
    """A throw-away cluster: `with Cluster(server, folder, settings) as cluster`. Its socket is its only address.

    At the end it is shut down cleanly, or at once if nobody cares for what that would bring to light. `initdb` is options
    of that program; with `copy_of`, a cluster that runs, it is a standby of that one instead of a new cluster."""

    def __init__(self, server, folder, settings=(), clean=True, initdb=(), copy_of=None):
        self.server, self.work = server, server.work
        self.data, self.log = folder / "data", folder / "server.log"
        self.settings, self.clean, self.initdb, self.copy_of = settings, clean, initdb, copy_of
        self.process = None
        folder.mkdir()
        self.work.user.own(folder)

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_exception):
        self.down()

    def up(self):
        # Not below the work folder: the path of a socket must be short.
        self.sockets = tempfile.mkdtemp(prefix="steady-socket-", dir="/tmp")
        self.work.user.own(self.sockets)
        self.env = self.work.env(PGHOST=self.sockets, PGPORT="54320", PGUSER="postgres", PGDATABASE="postgres",
                                 PATH=f"{self.server.bindir}:{os.environ['PATH']}")
        if self.copy_of:
            make = [self.server.bindir / "pg_basebackup", "-D", self.data, "-U", "postgres", "--write-recovery-conf",
                    "--checkpoint=fast", "--no-sync", "-d", f"host={self.copy_of.sockets} port=54320"]
        else:
            make = [self.server.bindir / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "--no-sync",
                    "--encoding=UTF8", "--locale=C.UTF-8", *self.initdb]
        if self.work.run(make, self.log) != 0:
            fail(f"{make[0].name} failed, see {self.log}")
        self.start()

    def start(self):
        fixed = ["listen_addresses=", f"unix_socket_directories={self.sockets}", "port=54320"]
        args = [self.server.bindir / "postgres", "-D", self.data]
        for setting in [*fixed, *self.settings]:
            args += ["-c", setting]
        with open(self.log, "ab") as output:
            self.process = self.work.start(args, stdout=output, stderr=subprocess.STDOUT)
        for _ in range(600):
            ready = subprocess.run([self.server.bindir / "pg_isready", "-q"], env=self.env)
            if ready.returncode == 0:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        fail(f"the server did not start, see {self.log}")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)

    def restart(self):
        self.stop()
        self.start()

    def down(self):
        if self.process:
            # Fast, immediate, none; told to the postmaster alone, which ends its children itself.
            for signum, patience in ((signal.SIGINT, 60), (signal.SIGQUIT, 20), (signal.SIGKILL, 10)):
                if self.process.poll() is None and (self.clean or signum != signal.SIGINT):
                    self.process.send_signal(signum)
                    try:
                        self.process.wait(patience)
                    except subprocess.TimeoutExpired:
                        pass
        shutil.rmtree(self.sockets, ignore_errors=True)

    def sql(self, command, database="postgres"):
        """The rows of a query, as lines; an error of the server ends the program."""
        args = [self.server.bindir / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", command]
        done = subprocess.run(args, env=self.env, capture_output=True, text=True)
        if done.returncode != 0:
            fail(f"{command}: {done.stderr.strip()}")
        return done.stdout.splitlines()

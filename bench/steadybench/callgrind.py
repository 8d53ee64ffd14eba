"""Instructions of a server that serves one session, counted by valgrind."""

import re
import shutil
import subprocess

from . import places

COLLECTED = re.compile(r"Collected : (\d+)")
FAULT = re.compile(r"\b(?:ERROR|FATAL|PANIC):  .*")


class Failed(Exception):
    pass


def collected(told):
    """What valgrind counted, by what it and the server said. An error of the server is a failure: less was done then."""
    fault, found = FAULT.search(told), COLLECTED.search(told)
    if fault or not found:
        raise Failed(fault[0] if fault else f"no count in: {told[-300:]}")
    return int(found[1])


def instructions(place, statements, options):
    """Of a run of the statements, start and end of the server included. The place's own server is down meanwhile.
    `options` are a session's, as in PGOPTIONS."""
    if "restart" not in place.can:
        raise places.Unavailable("this server can't be stopped")
    valgrind = shutil.which("valgrind")
    if not valgrind:
        raise places.Unavailable("needs valgrind")
    cluster = place.cluster
    log = cluster.data.parent / "valgrind.log"
    log.unlink(missing_ok=True)
    settings = [arg for setting in cluster.settings for arg in ("-c", setting)]
    args = [valgrind, "--tool=callgrind", f"--callgrind-out-file={log}.out", cluster.server.bindir / "postgres",
            "--single", "-D", cluster.data, *settings, *options.split(), "postgres"]
    script = cluster.data.parent / "statements.sql"
    script.write_text("".join(f"{statement}\n" for statement in statements))
    cluster.stop()
    try:
        with open(script) as lines:
            cluster.work.run(args, log, stdin=lines)
    finally:
        cluster.start()
    return collected(log.read_text(errors="replace"))

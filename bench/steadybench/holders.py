"""What may hold the horizon: context managers by name. Each holds as long as its block runs, in the arm's database."""

import contextlib
import threading
import time

PREPARED = "steady_bench"
# What each needs of the place; see Place.can.
NEEDS = {"prepared": "prepare", "standby": "standby"}


@contextlib.contextmanager
def closing(*connections):
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()


def execute(connection, *statements):
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else None


def snapshot(connection):
    execute(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")


@contextlib.contextmanager
def none(arm, _dead, _counts):
    yield


@contextlib.contextmanager
def reader(arm, _dead, _counts):
    """An idle transaction with a snapshot."""
    with closing(arm.connect()) as (connection,):
        snapshot(connection)
        yield


@contextlib.contextmanager
def writer(arm, _dead, _counts):
    """An idle transaction that took its xid before the load began."""
    with closing(arm.connect()) as (connection,):
        execute(connection, "BEGIN", "SELECT pg_current_xact_id()")
        yield


@contextlib.contextmanager
def late(arm, dead, counts):
    """Three idle writers: one took its xid before the load, the others after so many dead."""
    with closing(*(arm.connect() for _ in range(4))) as (first, *others, watch):
        execute(first, "BEGIN", "SELECT pg_current_xact_id()")
        ended = threading.Event()

        def follow():
            for number, connection in enumerate(others, 1):
                while execute(watch, f"SELECT ({counts}) >= {number * dead}")[0][0] is not True:
                    if ended.wait(0.05):
                        return
                execute(connection, "BEGIN", "SELECT pg_current_xact_id()")

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextlib.contextmanager
def prepared(arm, _dead, _counts):
    """A prepared transaction. It outlives a restart of the server; so it is ended by name."""
    with closing(arm.connect()) as (connection,):
        execute(connection, "BEGIN", "SELECT pg_current_xact_id()", f"PREPARE TRANSACTION '{PREPARED}'")
    try:
        yield
    finally:
        with closing(arm.connect()) as (connection,):
            execute(connection, f"ROLLBACK PREPARED '{PREPARED}'")


@contextlib.contextmanager
def standby(arm, _dead, _counts):
    """An old snapshot on a standby with hot_standby_feedback, which holds the primary's horizon through a slot."""
    held = "SELECT xmin IS NOT NULL FROM pg_replication_slots WHERE slot_name = 'steady_standby'"
    with closing(arm.place.standby().connect()) as (connection,), closing(arm.connect()) as (primary,):
        wait(lambda: arm.place.caught_up(), "the standby to catch up")
        snapshot(connection)
        wait(lambda: execute(primary, held)[0][0], "the standby's feedback")
        yield


def wait(condition, what):
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.05)


HOLDERS = {"none": none, "reader": reader, "writer": writer, "late": late, "prepared": prepared, "standby": standby}

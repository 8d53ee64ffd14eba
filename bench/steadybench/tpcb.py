"""pgbench's own tables, with indexes of an arm's method in the place of its primary keys."""

from . import holders, places

TABLES = {"pgbench_accounts": ("aid", "abalance"), "pgbench_tellers": ("tid", "tbalance"),
          "pgbench_branches": ("bid", "bbalance")}


def base(arm, scale):
    """The schema that has the tables as pgbench makes them, once a place: arms copy it."""
    schema = f"{places.SCHEMA}_base_{scale}"
    if arm.place.value(f"SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'"):
        return schema
    arm.place.fresh_schema(schema)
    run = ["-i", "-I", "tg", "-s", scale, "-q"]
    conninfo = arm.place.pgbench_conninfo(options=f"-c search_path={schema}")
    arm.run_to_end([arm.place.pgbench_program, *run], conninfo)
    return schema


def make(arm, scale, balances=False):
    """The tables of one arm, with unique indexes on the keys, and on request indexes on the balances."""
    schema = base(arm, scale)
    with holders.closing(arm.connect()) as (connection,):
        for table, (key, balance) in TABLES.items():
            holders.execute(connection, f"CREATE TABLE {table} (LIKE {schema}.{table} INCLUDING STORAGE)",
                            f"INSERT INTO {table} SELECT * FROM {schema}.{table}",
                            f"CREATE UNIQUE INDEX {table}_key ON {table} USING {arm.method} ({key})")
            if balances:
                holders.execute(connection, f"CREATE INDEX {table}_balance ON {table} USING {arm.method} ({balance})")
        holders.execute(connection, f"CREATE TABLE pgbench_history (LIKE {schema}.pgbench_history)",
                        *(f"VACUUM ANALYZE {table}" for table in TABLES))


def transaction(chance, scale):
    """The statements of one transaction of the TPC-B-like load."""
    account, delta = chance.randint(1, scale * 100_000), chance.randint(-5000, 5000)
    teller, branch = chance.randint(1, scale * 10), chance.randint(1, scale)
    return ("BEGIN", f"UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {account}",
            f"SELECT abalance FROM pgbench_accounts WHERE aid = {account}",
            f"UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {teller}",
            f"UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = {branch}",
            "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) "
            f"VALUES ({teller}, {branch}, {account}, {delta}, CURRENT_TIMESTAMP)", "END")


def look_up(chance, scale):
    """... and of the SELECT-only one."""
    return (f"SELECT abalance FROM pgbench_accounts WHERE aid = {chance.randint(1, scale * 100_000)}",)

# Stamps and flags are never wrong: whatever deleted the rows, whoever looks, and whatever happens to table and server.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

seed();
my $node = new_node('main', 'max_prepared_transactions = 4', allows_streaming => 1);
$node->start;
prepare($node);
$node->safe_psql('postgres', 'CREATE TABLE other (i int); INSERT INTO other VALUES (1)');
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';

sub session
{
	my ($begin, $on) = @_;
	my $session = ($on // $node)->background_psql('postgres', on_error_stop => 0);
	$session->query($begin);
	return $session;
}

# A session with a snapshot from before what follows, taken without touching the tables of the tests
sub old_snapshot
{
	my $session = session('BEGIN ISOLATION LEVEL REPEATABLE READ', @_);
	is($session->query('SELECT min(i) FROM other'), '1', 'an old snapshot');
	return $session;
}

sub create
{
	my ($name, $rows, $kind) = @_;
	return <<"SQL";
CREATE @{[ $kind // '' ]} TABLE $name (id int, k int, pad text) WITH (fillfactor = 70);
CREATE UNIQUE INDEX ${name}_id ON $name USING steady (id) WITH (fillfactor = 15);
CREATE INDEX ${name}_k ON $name USING steady (k) INCLUDE (id);
INSERT INTO $name SELECT i, i, 'p' FROM generate_series(1, $rows) i;
SQL
}

# Scans that look at all entries, so that the dead are stamped
sub look
{
	my ($name) = @_;
	return "$by_index SELECT count(pad) FROM $name WHERE id > 0; SELECT count(pad) FROM $name WHERE k > 0;"
	  . "SELECT count(pad) FROM (SELECT pad FROM $name ORDER BY id DESC) o;" x 2;
}

sub stat_is
{
	my ($on, $index, $condition, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($is, $stats) = split /\|/, $on->safe_psql('postgres', "SELECT $condition, s FROM steady_stats('$index') s"), 2;
	is($is, 't', "$what: $condition") || diag $stats;
}

# A session's own snapshot finds the same rows by any scan, so many of them.
sub sees
{
	my ($session, $what, $name, $rows) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($session->query("SELECT st.differences(i) FROM st.index i WHERE name LIKE '$name%';"), '',
		"$what: the session's scans find what a sequential scan finds");
	is($session->query("SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM $name; RESET ALL"),
		$rows, "$what: the session sees $rows rows");
}

# ---- a table written anew under a snapshot that never touched it

for my $rewrite ('CLUSTER t USING t_k', 'VACUUM FULL t')
{
	$node->safe_psql('postgres', create('t', 4000));
	my $old = old_snapshot();
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 3000; ' . look('t'));
	stat_is($node, 't_k', 'killed = 3000 AND flagged_children > 0', 'before');
	$node->safe_psql('postgres', $rewrite);
	sees($old, $rewrite, 't', 4000);
	$node->safe_psql('postgres', look('t'));
	sees($old, "$rewrite, looked at", 't', 4000);
	indexes_ok($node, $rewrite, 2);
	$old->quit;
	$node->safe_psql('postgres', 'DROP TABLE t');
}

# ---- deleters of all kinds: who deletes rows (n * 100, n * 100 + 100], and how many are left of them

sub deleters
{
	my ($t) = @_;
	my $n = 0;
	my $in = sub { my $i = $n++; return "id > $i * 100 AND id <= $i * 100 + 100" };
	my ($a, $b, $c);
	return (
		[ 'subtransaction', 0, "BEGIN; SAVEPOINT s; DELETE FROM $t WHERE " . $in->() . '; RELEASE s; COMMIT' ],
		[ 'subtransaction rolled back', 100, "BEGIN; SAVEPOINT s; DELETE FROM $t WHERE " . $in->() . "; ROLLBACK TO s; INSERT INTO other VALUES (2); COMMIT" ],
		[ 'abort', 100, "BEGIN; DELETE FROM $t WHERE " . $in->() . '; ROLLBACK' ],
		[ 'lock only', 100, "BEGIN; SELECT count(*) FROM (SELECT 1 FROM $t WHERE " . $in->() . ' FOR UPDATE) l; COMMIT' ],
		[ 'multixact of its own', 0, "BEGIN; SELECT count(*) FROM (SELECT 1 FROM $t WHERE " . ($a = $in->())
			. " FOR SHARE) l; SAVEPOINT s; DELETE FROM $t WHERE $a; RELEASE s; COMMIT" ],
		[ 'multixact rolled back to', 100, "BEGIN; SELECT count(*) FROM (SELECT 1 FROM $t WHERE " . ($a = $in->())
			. " FOR SHARE) l; SAVEPOINT s; DELETE FROM $t WHERE $a; ROLLBACK TO s; COMMIT" ],
		[ 'HOT updates', 100, ("UPDATE $t SET pad = pad || 'h' WHERE " . ($a = $in->()) . ';') x 3 ],
		[ 'HOT updates and deleted', 0, "UPDATE $t SET pad = pad || 'h' WHERE " . ($a = $in->()) . ";UPDATE $t SET pad = 'i' WHERE $a; DELETE FROM $t WHERE $a" ],
		[ 'HOT update rolled back, then deleted', 0, "BEGIN; UPDATE $t SET pad = 'r' WHERE " . ($a = $in->()) . "; ROLLBACK; DELETE FROM $t WHERE $a" ],
		[ 'HOT update, then a delete rolled back', 100, "UPDATE $t SET pad = 'r' WHERE " . ($a = $in->()) . "; BEGIN; DELETE FROM $t WHERE $a; ROLLBACK" ],
		[ 'other key', 100, "UPDATE $t SET k = k + 100000 WHERE " . ($a = $in->()) . "; UPDATE $t SET pad = 'o' WHERE $a" ],
		[ 'HOT update, then other key rolled back', 100, "UPDATE $t SET pad = 'h' WHERE " . ($a = $in->()) . "; BEGIN; UPDATE $t SET k = k + 1 WHERE $a; ROLLBACK" ],
		[ 'inserted again and rolled back', 0, "DELETE FROM $t WHERE " . ($a = $in->()) . "; BEGIN; INSERT INTO $t SELECT id, id, 'r' FROM generate_series(1, 2000) id WHERE $a; ROLLBACK" ],
		[ 'inserted and deleted at once', 0, "DELETE FROM $t WHERE " . ($a = $in->()) . "; BEGIN; INSERT INTO $t SELECT id, id, 'r' FROM generate_series(1, 2000) id WHERE $a; DELETE FROM $t WHERE $a; COMMIT" ],
		[ 'deleted and inserted again', 100, "BEGIN; DELETE FROM $t WHERE " . ($a = $in->()) . "; INSERT INTO $t SELECT id, id, 'r' FROM generate_series(1, 2000) id WHERE $a; COMMIT" ],
	);
}

for my $kind ('', 'UNLOGGED')
{
	$node->safe_psql('postgres', create('d', 4000, $kind));
	my $old = old_snapshot();
	my $left = 4000;
	for my $deleter (deleters('d'))
	{
		my ($name, $stay, $sql) = @$deleter;
		$left += $stay - 100;
		# Looked at before as well: what was seen dead or alive then may be another thing now.
		$node->safe_psql('postgres', look('d') . "$sql;" . look('d'));
		is($node->safe_psql('postgres', "$by_index SELECT count(pad) FROM d WHERE id > 0"), $left, "$kind $name: $left rows");
		is($node->safe_psql('postgres', "$by_index SELECT count(pad) FROM d WHERE k > 0"), $left, "... by the other index");
	}
	sees($old, "$kind deleters", 'd', 4000);
	indexes_ok($node, "$kind deleters", 2);
	if ($kind eq '')
	{
		# Lockers that stay while rows get other keys: multixacts with an updater.
		my $locker = session('BEGIN; SELECT count(*) FROM (SELECT 1 FROM d WHERE id BETWEEN 2001 AND 2100 FOR KEY SHARE) l');
		$node->safe_psql('postgres', 'UPDATE d SET k = k + 200000 WHERE id BETWEEN 2001 AND 2050;'
			. 'BEGIN; UPDATE d SET k = k + 200000 WHERE id BETWEEN 2051 AND 2100; ROLLBACK;' . look('d'));
		sees($old, 'updated under lockers', 'd', 4000);
		is($node->safe_psql('postgres', 'SELECT st.differences(i) FROM st.index i'), '', 'updated under lockers: the same by any scan');
		$locker->query('COMMIT');
		$locker->quit;
		$node->safe_psql('postgres', "BEGIN; DELETE FROM d WHERE id BETWEEN $$_[0] AND $$_[0] + 99; PREPARE TRANSACTION '$$_[1]'")
		  for [ 2101, 'commits' ], [ 2201, 'aborts' ];
		my $rows = "$by_index SELECT count(pad) FROM d WHERE id BETWEEN 2101 AND 2300";
		is($node->safe_psql('postgres', look('d') . $rows) =~ s/.*\n//sr, '200', 'prepared: nothing is deleted');
		$node->safe_psql('postgres', "COMMIT PREPARED 'commits'");
		$node->safe_psql('postgres', "ROLLBACK PREPARED 'aborts'");
		is($node->safe_psql('postgres', look('d') . $rows) =~ s/.*\n//sr, '100', 'committed and rolled back: half is');
		sees($old, 'prepared deleters', 'd', 4000);
	}
	$old->query('COMMIT');
	$old->quit;
	indexes_ok($node, "$kind deleters, old snapshot gone", 2);
	$node->safe_psql('postgres', look('d') x 2 . "INSERT INTO d SELECT i, i, 'n' FROM generate_series(5001, 9000) i; DELETE FROM d WHERE id > 6000;" . look('d'));
	indexes_ok($node, "$kind deleters, TIDs used again", 2);
	$node->safe_psql('postgres', 'DROP TABLE d');
}

# A temporary table: no other session can look; a cursor holds the old snapshot.
my $owner = session(create('d', 4000, 'TEMPORARY'));
my $left = 4000;
for my $deleter (deleters('d'))
{
	my ($name, $stay, $sql) = @$deleter;
	$left += $stay - 100;
	$owner->query(look('d') . "$sql;" . look('d'));
	is($owner->query("$by_index SELECT count(pad) FROM d WHERE id > 0; RESET ALL"), $left, "TEMPORARY $name: $left rows");
}
is($owner->query('SELECT st.faults()'), '', 'TEMPORARY deleters: no faults');
$owner->query("$by_index BEGIN; DECLARE c CURSOR FOR SELECT id FROM d ORDER BY id");
is(scalar(split /\n/, $owner->query('FETCH 100 FROM c')), 100, 'TEMPORARY: a cursor is open');
$owner->query('DELETE FROM d WHERE id % 3 > 0; ' . look('d') . "INSERT INTO d SELECT i, i, 'n' FROM generate_series(4001, 8000) i;" . look('d'));
is(scalar(my @rest = split /\n/, $owner->query('FETCH ALL FROM c')), $left - 100, '... and finds the rest of its rows');
$owner->query('COMMIT; RESET ALL');
is($owner->query('SELECT st.faults()'), '', 'TEMPORARY, deleted under a cursor: no faults');
$owner->query('ROLLBACK; DROP TABLE d');
$owner->quit;

# ---- keys too long for low fences

my $long = "lpad(id::text, 4, '0') || " . join ' || ', map { "md5(id::text || '$_')" } 1 .. 30;
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE long (id int, pad text);
CREATE INDEX long_i ON long USING steady (($long));
INSERT INTO long SELECT i, 'p' FROM generate_series(1, 600) i;
SQL
my $holder = old_snapshot();
$node->safe_psql('postgres', 'DELETE FROM long WHERE id <= 500');
indexes_ok($node, "long keys, looked at $_ times", 1) for 0 .. 2;
stat_is($node, 'long_i', 'levels > 3 AND killed = 500 AND flagged_children > 50', 'long keys');
sees($holder, 'long keys', 'long', 600);
$node->safe_psql('postgres', "INSERT INTO long VALUES (10, 'alive')");
indexes_ok($node, 'a long key among the dead', 1);
$holder->quit;
$node->safe_psql('postgres', 'DROP TABLE long');

# ---- more subtransactions than a snapshot has room for

# One that runs may be missing from such a snapshot.
sub subtransactions
{
	my ($sql) = @_;
	return "DO \$\$ BEGIN FOR i IN 0 .. 99 LOOP BEGIN $sql; EXCEPTION WHEN division_by_zero THEN END; END LOOP; END \$\$";
}
$node->safe_psql('postgres', create('o', 4000));
my $many = session('BEGIN');
$many->query(subtransactions('DELETE FROM o WHERE id BETWEEN i * 10 + 1 AND i * 10 + 10'));
my $middle = old_snapshot();
$node->safe_psql('postgres', 'DELETE FROM o WHERE id BETWEEN 1001 AND 2000');
my $after = old_snapshot();
is($node->safe_psql('postgres', look('o')) =~ s/\n.*//sr, '3000', 'many subtransactions that run: their rows are there');
$many->query('COMMIT');
$node->safe_psql('postgres', look('o'));
stat_is($node, 'o_k', 'killed = 2000 AND flagged_children > 0', 'many subtransactions');
sees($middle, 'many subtransactions, from before the end of any', 'o', 4000);
sees($after, 'many subtransactions, from before the end of one', 'o', 3000);
$many->query('BEGIN');
$many->query(subtransactions('INSERT INTO other VALUES (i)'));
$node->safe_psql('postgres', 'DELETE FROM o WHERE id BETWEEN 2001 AND 3000; ' . look('o'));
is($node->safe_psql('postgres', "$by_index SELECT count(pad) FROM o WHERE id > 0"), '1000', 'others have many of them: a new snapshot has its rows');
is($node->safe_psql('postgres', q{SELECT st.differences(i) FROM st.index i}), '', '... by any scan');
sees($middle, 'others have many of them', 'o', 4000);
sees($after, 'others have many of them, later', 'o', 3000);
$many->query('ROLLBACK');
indexes_ok($node, 'many subtransactions', 2);
$_->quit for $many, $middle, $after;
$node->safe_psql('postgres', 'DROP TABLE o');

# ---- write skew through pages that a scan could pass over

$node->safe_psql('postgres', create('t', 8000));
my $old = old_snapshot();
$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 7500; ' . look('t'));
stat_is($node, 't_id', 'flagged_children > 5', 'write skew');
my @skew = map { session("$by_index BEGIN ISOLATION LEVEL SERIALIZABLE") } 0, 1;
is($_->query('SELECT count(pad) FROM t WHERE id BETWEEN 1 AND 7000'), '0', 'a transaction sees an empty range') for @skew;
$skew[0]->query("INSERT INTO t VALUES (2000, 2000, 'skew')");
$skew[1]->query("INSERT INTO t VALUES (5000, 5000, 'skew')");
$_->query('COMMIT') for @skew;
is($node->safe_psql('postgres', q{SELECT count(*) FROM t WHERE pad = 'skew'}), '1', 'one of two that fill it fails');
$_->quit for @skew;

# ---- live rows among the dead

my $next = 8000;
for my $batch (1 .. (is_long() ? 200 : 8))
{
	my $rows = $batch % 4 == 0 ? 1500 : 40;
	my $keys = join ',', map { sprintf '(%d)', 1 + int(rand(7500)) } 1 .. $rows;
	my $end = $batch % 3 == 0 ? 'ROLLBACK' : 'COMMIT';
	my ($found, $all) = split /\n/, $node->safe_psql('postgres', <<"SQL");
$by_index
BEGIN;
INSERT INTO t SELECT DISTINCT v, v, 'batch' FROM (VALUES $keys) o (v) WHERE NOT EXISTS (SELECT 1 FROM t WHERE id = v);
SELECT count(*) FROM t WHERE pad = 'batch' AND id IN (VALUES $keys);
SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_seqscan = on;
SELECT count(*) FROM t WHERE pad = 'batch' AND id IN (VALUES $keys);
$end;
SQL
	is($found, $all, "batch $batch: each row is found by its key");
	indexes_ok($node, "batch $batch, $end", 2);
	$node->safe_psql('postgres', "DELETE FROM t WHERE id < 7501 AND id % 2 = $batch % 2;" . look('t'));
	indexes_ok($node, "batch $batch, some deleted", 2);
}
sees($old, 'rows among the dead', 't', 8000);

# ---- a base backup, and a server that stopped at once, know of no stamps

$node->safe_psql('postgres', "DELETE FROM t WHERE id <= 7500; " . look('t') . 'CHECKPOINT');
stat_is($node, 't_id', 'killed > 5000 AND flagged_children > 5', 'before the backup');
$node->backup('stamped');
stat_is($node, 't_id', 'killed > 5000 AND flagged_children > 5', 'after the backup');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'stamped');
$copy->start;
stat_is($copy, $_, 'killed = 0 AND flagged_children = 0', 'the backup') for qw(t_id t_k);
indexes_ok($copy, 'the backup', 2);
$copy->stop;

# Those who hold the horizon do not outlive the server: their horizon is held by a prepared transaction.
$node->safe_psql('postgres', "BEGIN; INSERT INTO other VALUES (3); PREPARE TRANSACTION 'holder'");
$node->safe_psql('postgres', look('t') . 'CHECKPOINT');
$node->stop('immediate');
$node->start;
stat_is($node, $_, 'killed = 0 AND flagged_children = 0 AND entries > 8000', 'after a crash') for qw(t_id t_k);
indexes_ok($node, 'after a crash', 2);
$node->safe_psql('postgres', look('t'));
indexes_ok($node, 'after a crash, stamped again', 2);
$node->safe_psql('postgres', "ROLLBACK PREPARED 'holder'; DROP TABLE t");

# ---- the same few keys inserted and deleted by several sessions

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE u (id int, n int);
CREATE UNIQUE INDEX u_id ON u USING steady (id);
CREATE FUNCTION add(k int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO u VALUES (k, 0);
EXCEPTION WHEN unique_violation THEN
END $$;
SQL
$old = old_snapshot();
$node->pgbench('--no-vacuum --client=4 --transactions=' . (is_long() ? 20000 : 800), 0, [qr/processed/], [qr/^/], 'inserts and deletes of the same keys',
	{ '050_add@3' => "\\set k random(1, 5)\nSELECT add(:k);", '050_del@2' => "\\set k random(1, 5)\nDELETE FROM u WHERE id = :k;" });
is($node->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;'
	. 'SELECT id, count(*) FROM u GROUP BY id HAVING count(*) > 1'), '', 'no key is there twice');
stat_is($node, 'u_id', 'killed > 500', 'the same keys');
indexes_ok($node, 'the same keys', 1);
sees($old, 'the same keys', 'u', 0);
$old->quit;
$node->safe_psql('postgres', 'DROP TABLE u');

# ---- a standby stamps for itself, and is right after its promotion

$node->safe_psql('postgres', create('s', 6000));
my $standby = start_standby($node, 'standby', "max_standby_streaming_delay = -1");
my $there = old_snapshot($standby);
my $here = old_snapshot();
$node->safe_psql('postgres', 'DELETE FROM s WHERE id <= 5000');
replayed($node, $standby);
stat_is($standby, 's_id', 'killed = 0', 'the standby, before it looks');
for my $times (1, 2)
{
	is($standby->safe_psql('postgres', look('s')) =~ s/\n.*//sr, '1000', 'the standby finds the rows that are left');
	stat_is($standby, 's_id', 'killed = 5000 AND flagged_children = 0', 'the standby');
	sees($there, 'the standby', 's', 6000);
	indexes_ok($standby, 'the standby', 2);
}
$node->safe_psql('postgres', look('s') . "INSERT INTO s SELECT i, i, 'n' FROM generate_series(1, 5000, 50) i; DELETE FROM s WHERE id BETWEEN 2001 AND 2500");
replayed($node, $standby);
$standby->safe_psql('postgres', look('s'));
sees($there, 'the standby, new rows among the dead', 's', 6000);
indexes_ok($standby, 'the standby, new rows among the dead', 2);
$node->stop('immediate');
$standby->promote;
sees($there, 'promoted', 's', 6000);
$standby->safe_psql('postgres', look('s'));
stat_is($standby, 's_id', 'killed > 3000 AND flagged_children > 0', 'promoted');
$standby->safe_psql('postgres', "INSERT INTO s SELECT i, i, 'promoted' FROM generate_series(2, 5000, 50) i");
is($standby->safe_psql('postgres', "$by_index SELECT count(*) FROM s WHERE id <= 5000 AND pad = 'promoted'"), '100',
	'promoted: new rows among the dead are found');
sees($there, 'promoted, with new rows', 's', 6000);
indexes_ok($standby, 'promoted', 2);
$there->quit;
$here->{run}->kill_kill;
is(join("\n", map { log_lines($_, qr/PANIC|TRAP|is damaged/) } $node, $standby, $copy), '', 'no complaints in the logs');
$standby->stop;
done_testing();

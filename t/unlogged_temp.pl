# Relations without WAL: unlogged indexes are reset by a crash and kept by a shutdown; temporary ones live and die with
# their session and its transactions. And prepared transactions, whose deletes end after a restart.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $node = new_node('main', 'max_prepared_transactions = 5', allows_streaming => 1);
$node->start;
prepare($node);

# ---- unlogged

my $fill = q{INSERT INTO u SELECT hashint4(i) & 1023, repeat(md5((i % 300)::text), i % 6), i FROM generate_series(%d, %d) i};
$node->safe_psql('postgres', <<'SQL');
CREATE UNLOGGED TABLE u (k int, t text, n int);
CREATE INDEX u_k ON u USING steady (k);
CREATE INDEX u_t ON u USING steady (t, k DESC);
CREATE UNIQUE INDEX u_n ON u USING steady (n) INCLUDE (t);
SQL
$node->safe_psql('postgres', sprintf($fill, 1, 4000));
$node->safe_psql('postgres', 'DELETE FROM u WHERE n % 3 = 0 OR n BETWEEN 1000 AND 2500; VACUUM u; UPDATE u SET k = k + 1 WHERE k < 500');
indexes_ok($node, 'unlogged', 3);
my $rows = $node->safe_psql('postgres', 'SELECT count(*), sum(n) FROM u');

$node->restart;
is($node->safe_psql('postgres', 'SELECT count(*), sum(n) FROM u'), $rows, 'a shutdown keeps the rows');
indexes_ok($node, 'after a shutdown', 3);

# Twice: once with the tables' init forks just made, once with a checkpoint behind them.
for my $checkpoint (0, 1)
{
	$node->safe_psql('postgres', 'CHECKPOINT') if $checkpoint;
	$node->stop('immediate');
	$node->start;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '0', 'a crash empties the table');
	indexes_ok($node, 'after a crash', 3);
	$node->safe_psql('postgres', sprintf($fill, 1, 3000));
	indexes_ok($node, 'filled after a crash', 3);
	$node->safe_psql('postgres', 'REINDEX TABLE u; TRUNCATE u;' . sprintf($fill, 1, 1000));
	indexes_ok($node, 'REINDEX and TRUNCATE', 3);
	$node->safe_psql('postgres', 'DROP INDEX u_k; CREATE INDEX u_k ON u USING steady (k)');
}

# Before a standby or after a crash, only the init fork tells what an empty index is.
my $standby = start_standby($node, 'standby');
$standby->promote;
is($standby->safe_psql('postgres', 'SELECT count(*) FROM u'), '0', 'a promoted standby has an empty table');
$standby->safe_psql('postgres', sprintf($fill, 1, 3000));
indexes_ok($standby, 'filled on a promoted standby', 3);
$standby->stop;

$node->safe_psql('postgres', 'ALTER TABLE u SET LOGGED; DELETE FROM u WHERE n % 2 = 0; ' . sprintf($fill, 1001, 2000));
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '1500', 'SET LOGGED: nothing is lost in a crash');
indexes_ok($node, 'SET LOGGED', 3);
$node->safe_psql('postgres', 'ALTER TABLE u SET UNLOGGED; ' . sprintf($fill, 2001, 3000));
indexes_ok($node, 'SET UNLOGGED', 3);
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '0', 'SET UNLOGGED: a crash empties the table');
$node->safe_psql('postgres', sprintf($fill, 1, 2000));
indexes_ok($node, 'filled again', 3);

# A table of a transaction that failed leaves nothing behind. (Without the checkpoint the server itself doesn't come up
# again: it trips over the file of such a table, whatever its indexes.)
$node->safe_psql('postgres', 'BEGIN; CREATE UNLOGGED TABLE gone (a int); CREATE INDEX ON gone USING steady (a);
	INSERT INTO gone SELECT generate_series(1, 1000); ROLLBACK; CHECKPOINT');
$node->stop('immediate');
$node->start;
indexes_ok($node, 'after a rolled back table', 3);
$node->safe_psql('postgres', 'DROP TABLE u');

# ---- temporary

my $session = $node->background_psql('postgres');

# st.faults() in the session itself: nobody else can look at a temporary table.
sub temp_ok
{
	my ($what, $count) = @_;
	$session->query_safe(q{SELECT set_config('st.checked', '0', false)});
	is($session->query_safe('SELECT st.faults()'), '', "temporary tables, $what: steady indexes are right");
	is($session->query_safe(q{SELECT current_setting('st.checked')}), $count, "... all $count");
}

$session->query_safe($_) for split /;\n/, <<'SQL';
CREATE TEMP TABLE t_keep (a int, b text);
CREATE TEMP TABLE t_rows (a int, b text) ON COMMIT DELETE ROWS;
CREATE INDEX t_keep_a ON t_keep USING steady (a);
CREATE INDEX t_keep_b ON t_keep USING steady (b, a);
CREATE INDEX t_rows_a ON t_rows USING steady (a);
CREATE INDEX t_rows_b ON t_rows USING steady (b, a);
INSERT INTO t_keep SELECT hashint4(i) & 511, repeat(md5((i % 200)::text), i % 6) FROM generate_series(1, 3000) i;
INSERT INTO t_rows SELECT i, 'gone at once' FROM generate_series(1, 1000) i
SQL
temp_ok('filled', 4);
is($session->query_safe('SELECT count(*) FROM t_rows'), '0', 'ON COMMIT DELETE ROWS');
for my $round (1 .. 2)
{
	$session->query_safe('BEGIN');
	$session->query_safe("INSERT INTO t_rows SELECT hashint4(i) & 255, 'b' || i % 30 FROM generate_series(1, 2000) i");
	$session->query_safe('DELETE FROM t_rows WHERE a < 100');
	temp_ok("in the transaction ($round)", 4);
	$session->query_safe('SAVEPOINT s');
	$session->query_safe('TRUNCATE t_rows');
	$session->query_safe("INSERT INTO t_rows VALUES (1, '1')");
	$session->query_safe('ROLLBACK TO s');
	is($session->query_safe('SELECT count(*) > 500 FROM t_rows'), 't', 'an undone TRUNCATE');
	temp_ok("an undone TRUNCATE ($round)", 4);
	$session->query_safe('COMMIT');
	temp_ok("after the transaction ($round)", 4);
}
$session->query_safe('DELETE FROM t_keep WHERE a % 3 = 0 OR a BETWEEN 100 AND 300');
$session->query_safe('VACUUM t_keep');
temp_ok('after VACUUM', 4);
$session->query_safe('BEGIN');
$session->query_safe('CREATE TEMP TABLE t_drop (a int) ON COMMIT DROP');
$session->query_safe('CREATE INDEX t_drop_a ON t_drop USING steady (a)');
$session->query_safe('INSERT INTO t_drop SELECT i % 700 FROM generate_series(1, 2000) i');
temp_ok('ON COMMIT DROP', 5);
$session->query_safe('COMMIT');
temp_ok('dropped', 4);

# A cursor stands on a page; in its own transaction the pages behind it become empty and are unlinked, for their rows were
# dead before. Rows that are deleted now stay visible to it.
$session->query_safe($_) for split /;\n/, <<'SQL';
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE TEMP TABLE t_cursor (a int, b text);
INSERT INTO t_cursor SELECT i, repeat('x', 30) FROM generate_series(1, 6000) i;
CREATE INDEX t_cursor_a ON t_cursor USING steady (a) WITH (fillfactor = 15);
DELETE FROM t_cursor WHERE a BETWEEN 501 AND 4500;
BEGIN;
DECLARE plain CURSOR FOR SELECT a, b FROM t_cursor ORDER BY a;
DECLARE narrow SCROLL CURSOR FOR SELECT a FROM t_cursor ORDER BY a
SQL
is($session->query_safe('FETCH FORWARD 100 FROM plain') =~ tr/\n// + 1, 100, 'a cursor reads');
is($session->query_safe('FETCH FORWARD 100 FROM narrow') =~ tr/\n// + 1, 100, 'another reads');
$session->query_safe('DELETE FROM t_cursor WHERE a > 50 AND a % 500 > 0');
for my $round (1 .. 3)
{
	$session->query_safe('SELECT count(b) FROM t_cursor WHERE a > 0');
	$session->query_safe("INSERT INTO t_cursor SELECT 10000 * $round + i, 'new' FROM generate_series(1, 4000) i");
	$session->query_safe("DELETE FROM t_cursor WHERE a > 10000 * $round");
}
is($session->query_safe(q{SELECT deleted_pages > 5 FROM steady_stats('t_cursor_a')}), 't', 'pages were unlinked');
my @rows = (1 .. 500, 4501 .. 6000);
my @plain = split /\n/, $session->query_safe('FETCH ALL FROM plain');
is(join(',', map { /^(\d+)/ } @plain), join(',', @rows[ 100 .. $#rows ]), 'the first finds its rows in order');
is(join(',', split /\n/, $session->query_safe('FETCH ALL FROM narrow')), join(',', @rows[ 100 .. $#rows ]), 'so does the other');
is(join(',', split /\n/, $session->query_safe('FETCH BACKWARD ALL FROM narrow')), join(',', reverse @rows), 'and back');
$session->query_safe('COMMIT');
temp_ok('after cursors', 5);
$session->quit;
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_class WHERE relpersistence = 't'}) or die 'tables stay';

# ---- prepared transactions

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE p (a int, b int);
CREATE UNIQUE INDEX p_a ON p USING steady (a);
CREATE INDEX p_b ON p USING steady (b);
INSERT INTO p SELECT i, i % 50 FROM generate_series(1, 3000) i;
BEGIN;
DELETE FROM p WHERE a <= 1000;
PREPARE TRANSACTION 'kept';
BEGIN;
DELETE FROM p WHERE a > 2000;
INSERT INTO p SELECT i, i % 50 FROM generate_series(4001, 4500) i;
PREPARE TRANSACTION 'undone';
SQL
my $scans = 'SET enable_seqscan = off; SELECT count(b) FROM p WHERE a > 0; SELECT count(a) FROM p WHERE b >= 0;';
is($node->safe_psql('postgres', $scans), "3000\n3000", 'rows deleted by prepared transactions are still there');
$node->safe_psql('postgres', 'VACUUM p');
is($node->safe_psql('postgres', $scans), "3000\n3000", 'and after VACUUM');
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', $scans), "3000\n3000", 'and after a crash');
my ($status, $out, $err) = $node->psql('postgres', q{SET lock_timeout = '100ms'; INSERT INTO p VALUES (4001, 1)});
like($err, qr/lock timeout/, 'a new row waits for one that is prepared');
$node->safe_psql('postgres', q{COMMIT PREPARED 'kept'; ROLLBACK PREPARED 'undone'; INSERT INTO p VALUES (4001, 1), (1, 1)});
is($node->safe_psql('postgres', $scans), "2002\n2002", 'once they have ended all see what they did');
indexes_ok($node, 'after prepared transactions', 2);
$node->safe_psql('postgres', 'VACUUM p');
is($node->safe_psql('postgres', q{SELECT entries FROM steady_stats('p_b')}), '2002', 'VACUUM removes the entries');
indexes_ok($node, 'and VACUUM', 2);

$node->stop;
done_testing();

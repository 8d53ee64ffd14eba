# Indexes that are built while others write have every row: CREATE INDEX CONCURRENTLY and REINDEX CONCURRENTLY again and
# again under HOT and other updates, inserts, deletes and VACUUM, with the verifier counting rows after each.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $seed = seed();
my $rounds = is_long() ? 60 : 5;

my $node = new_node('main', 'max_connections = 30');
$node->start;
prepare($node);
load_setup($node);
# n is in no index but as a payload: without that one its updates are HOT, but for chains that begin before the build.
$node->safe_psql('postgres', 'DROP INDEX load_t; ALTER TABLE load SET (fillfactor = 70); VACUUM FULL load');

my $load = load_start($node, $seed, 4,
	'hot@20' => q{
\set k random(0, 16383)
UPDATE load SET n = n + 1 WHERE id IN (SELECT id FROM load WHERE k >= :k ORDER BY k LIMIT 8);
},
	'long@1' => q{
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM load;
UPDATE load SET n = n + 1 WHERE id IN (SELECT max(id) FROM load);
\sleep 20 ms
END;
});

for my $round (1 .. $rounds)
{
	my $last = $node->safe_psql('postgres', 'SELECT last_value FROM load_id');
	$node->safe_psql('postgres', 'CREATE INDEX CONCURRENTLY built_t ON load USING steady (t, k DESC)');
	$node->safe_psql('postgres', 'CREATE INDEX CONCURRENTLY built_part ON load USING steady ((k % 1000), few) WHERE k < 9000');
	$node->safe_psql('postgres', 'CREATE UNIQUE INDEX CONCURRENTLY built_id ON load USING steady (id DESC)');
	$node->safe_psql('postgres', "SELECT steady_verify('$_', true)") for qw(built_t built_part built_id);
	$node->safe_psql('postgres', "REINDEX INDEX CONCURRENTLY $_; SELECT steady_verify('$_', true)")
	  for qw(load_k load_few load_i built_part);
	pass("$round: built under load, and verified");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_index WHERE indrelid = 'load'::regclass AND NOT indisvalid}), '0',
		'... and valid');
	cmp_ok($node->safe_psql('postgres', 'SELECT last_value FROM load_id'), '>', $last, '... while others wrote');
	$node->safe_psql('postgres', 'DROP INDEX built_t, built_part, built_id');
}
# The last ones meet with all that comes after them.
$node->safe_psql('postgres', 'CREATE INDEX CONCURRENTLY built_t ON load USING steady (t, k DESC) INCLUDE (n)');
my $from = $node->safe_psql('postgres', 'SELECT last_value FROM load_id');
load_until($node, "SELECT last_value > $from + 500 FROM load_id");
load_stop($node, $load);
indexes_ok($node, 'in the end', 4);
is($node->safe_psql('postgres', q{SELECT count(*) FROM load WHERE t = 'aborted'}), '0', 'nothing of what was aborted');

# ---- unique builds that meet with duplicates

my $check = q{SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'dup_a'::regclass};
$node->safe_psql('postgres', 'CREATE TABLE dup (a int, b int); INSERT INTO dup SELECT i, i FROM generate_series(1, 1000) i');

# There from the beginning
$node->safe_psql('postgres', 'INSERT INTO dup VALUES (500, 0)');
my ($status, $out, $err) = $node->psql('postgres', 'CREATE UNIQUE INDEX CONCURRENTLY dup_a ON dup USING steady (a)');
like($err, qr/could not create unique index "dup_a"\n.*Key \(a\)=\(500\) is duplicated/s, 'a duplicate is found');
is($node->safe_psql('postgres', $check), 'f|f', 'the index is left invalid');
$node->safe_psql('postgres', 'DELETE FROM dup WHERE b = 0');
($status, $out, $err) = $node->psql('postgres', "SELECT steady_verify('dup_a')");
like($err, qr/cannot verify index "dup_a"/, 'which the verifier says');
$node->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY dup_a');
is($node->safe_psql('postgres', $check), 't|t', 'REINDEX CONCURRENTLY makes it valid');
indexes_ok($node, 'after REINDEX CONCURRENTLY', 5);

# One that comes while the index is built, when it is ready to be written to but not to be read: the writer gets the error.
$node->safe_psql('postgres', 'DROP INDEX dup_a');
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN');
$holder->query_safe('UPDATE dup SET b = b + 1 WHERE a = 1');
my $builder = $node->background_psql('postgres', on_error_stop => 0);
$builder->query_until(qr/begin/, "\\echo begin\nCREATE UNIQUE INDEX CONCURRENTLY dup_a ON dup USING steady (a);\n");
# It waits twice for older transactions: first those that don't know of the index, then those that could miss it.
$node->poll_query_until('postgres', q{SELECT phase = 'waiting for writers before build' FROM pg_stat_progress_create_index}) or die;
$node->safe_psql('postgres', 'INSERT INTO dup VALUES (7, 0)');
$holder->query_safe('COMMIT');
like(($builder->query('SELECT 1'))[0], qr/1/, 'the build ends');
like($builder->{stderr}, qr/could not create unique index "dup_a"/, 'a row that came before the scan makes it fail');
is($node->safe_psql('postgres', $check), 'f|f', 'the index is left invalid');
$node->safe_psql('postgres', 'DROP INDEX dup_a; DELETE FROM dup WHERE b = 0');

$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$holder->query_safe('SELECT count(*) FROM dup');
$builder->query_until(qr/begin/, "\\echo begin\nCREATE UNIQUE INDEX CONCURRENTLY dup_a ON dup USING steady (a);\n");
$node->poll_query_until('postgres', q{SELECT phase = 'waiting for old snapshots' FROM pg_stat_progress_create_index}) or die;
is($node->safe_psql('postgres', $check), 'f|t', 'the index waits for old snapshots');
($status, $out, $err) = $node->psql('postgres', 'INSERT INTO dup VALUES (7, 0)');
like($err, qr/duplicate key value violates unique constraint "dup_a"/, 'a row that comes then is refused');
$holder->query_safe('COMMIT');
$builder->query('SELECT 1');
is($node->safe_psql('postgres', $check), 't|t', 'and the index becomes valid');
$_->quit for $holder, $builder;
indexes_ok($node, 'after the waits', 5);

$node->stop;
done_testing();

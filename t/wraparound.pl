# Transaction ids wrap around; stamps, which keep 64 bits of them, don't. Snapshots from both sides of the turn see their
# rows by the index, and what died on both sides is skipped together.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $epoch = 5;
my $per_page = 8192 * 4;    # of the commit log: at such an id it begins a new page
my $turn = 2**32;

# No freezing but ours, and no checkpoint at a bad time
my $node = new_node('main', "autovacuum_freeze_max_age = 2000000000\nmax_prepared_transactions = 2");
$node->start;
prepare($node);
$node->safe_psql('postgres', <<'SQL');
ALTER DATABASE template0 ALLOW_CONNECTIONS true;
CREATE PROCEDURE burn(until xid8) LANGUAGE plpgsql AS $$
BEGIN
	WHILE pg_current_xact_id() < until LOOP
		COMMIT;
	END LOOP;
END $$;
SQL

# Ids may be ahead of the oldest one in use by less than half of all there are.
for my $xid (map { $_ - $_ % $per_page } 1_500_000_000, 3_000_000_000, $turn - 1)
{
	system_or_bail('vacuumdb', '--all', '--freeze', '--quiet', '--maintenance-db', $node->connstr('postgres'));
	$node->stop;
	system_or_bail('pg_resetwal', '--next-transaction-id', $xid, '--epoch', $epoch, '--pgdata', $node->data_dir);
	$node->start;
}
system_or_bail('vacuumdb', '--all', '--freeze', '--quiet', '--maintenance-db', $node->connstr('postgres'));

my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;';
my $look = "$by_index SELECT count(pad) FROM t WHERE id > 0; SELECT count(pad) FROM t WHERE k > 0;"
  . 'SELECT count(pad) FROM (SELECT pad FROM t ORDER BY id DESC) o;';

sub stat_is
{
	my ($condition, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($is, $stats) = split /\|/, $node->safe_psql('postgres', "SELECT $condition, s FROM steady_stats('t_k') s"), 2;
	is($is, 't', "$what: $condition") || diag $stats;
}

sub next_xid { return $node->safe_psql('postgres', 'SELECT pg_snapshot_xmax(pg_current_snapshot())') }

sub snapshot
{
	my $session = $node->background_psql('postgres');
	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	return $session;
}

sub sees
{
	my ($session, $what, $rows) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($session->query_safe('SELECT st.differences(i) FROM st.index i'), '', "$what: scans find what a sequential scan finds");
	is($session->query_safe('SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM t; RESET ALL'),
		$rows, "$what: $rows rows");
}

# Chains of updates that were frozen, with rows of before and after the third jump
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int, k int, pad text) WITH (fillfactor = 50);
CREATE UNIQUE INDEX t_id ON t USING steady (id);
CREATE INDEX t_k ON t USING steady (k) INCLUDE (id);
INSERT INTO t SELECT i, i, 'p' FROM generate_series(1, 6000) i;
UPDATE t SET pad = 'hot' WHERE id % 3 = 0;
VACUUM FREEZE t;
UPDATE t SET pad = 'hotter' WHERE id % 6 = 0;
SQL
my $limit = ($epoch + 1) * $turn;
cmp_ok(next_xid(), '<', $limit, 'ids are about to wrap around');
my $first = snapshot();
$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 1000');
my $writer = $node->background_psql('postgres');
$writer->query_safe('BEGIN; DELETE FROM t WHERE id > 5900');
my $second = snapshot();
$node->safe_psql('postgres', "BEGIN; DELETE FROM t WHERE id BETWEEN 1001 AND 1100; PREPARE TRANSACTION 'p'");
$node->safe_psql('postgres', 'DELETE FROM t WHERE id BETWEEN 1101 AND 2000');
$node->safe_psql('postgres', $look x 2);
stat_is("killed = 1900 AND largest_stamp::text::numeric < $limit", 'before');
sees($first, 'before, the first snapshot', 6000);
sees($second, 'before, the second snapshot', 5000);

$node->safe_psql('postgres', "SET synchronous_commit = off; CALL burn('@{[ $limit + 10 ]}')");
cmp_ok(next_xid(), '>', $limit, 'ids have wrapped around');
sees($first, 'just after, the first snapshot', 6000);
sees($second, 'just after, the second snapshot', 5000);
stat_is("killed = 1900 AND largest_stamp::text::numeric < $limit", 'just after');
my $third = snapshot();
$node->safe_psql('postgres', 'DELETE FROM t WHERE id BETWEEN 2001 AND 3000');
$writer->query_safe('COMMIT');
$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
$node->safe_psql('postgres', $look x 2);
stat_is("killed = 3100 AND smallest_stamp::text::numeric < $limit AND largest_stamp::text::numeric > $limit AND flagged_children > 0", 'after');
sees($first, 'after, the first snapshot', 6000);
sees($second, 'after, the second snapshot', 5000);
sees($third, 'after, the third snapshot', 4100);
is($node->safe_psql('postgres', "$by_index SELECT count(pad) FROM t WHERE k > 0"), '2900', 'a new snapshot');
indexes_ok($node, 'after', 2);

# Both sides of the turn are skipped.
for my $part ([ 'before', 0, 1000 ], [ 'after', 2001, 3000 ])
{
	my ($side, $from, $to) = @$part;
	my @skipped = map { $node->safe_psql('postgres', "$by_index SET enable_indexonlyscan = off; SELECT count(pad) FROM t WHERE k BETWEEN $from AND $to")
		  . ' ' . $node->safe_psql('postgres', q{SELECT skipped_entries + skipped_pages FROM steady_stats('t_k')}) } 1 .. 2;
	my ($first_skipped, $second_skipped) = map { /^0 (\d+)$/ or die "not none but $_"; $1 } @skipped;
	cmp_ok($second_skipped, '>', $first_skipped, "what was stamped $side is skipped");
}

# New rows among the dead, and the dead removed when nobody holds them any more
$node->safe_psql('postgres', "INSERT INTO t SELECT i, i, 'new' FROM generate_series(1, 3000, 7) i");
sees($third, 'new rows among the dead, the third snapshot', 4100);
indexes_ok($node, 'new rows among the dead', 2);
for my $session ($first, $second, $third)
{
	$session->query_safe('COMMIT');
	$session->quit;
}
$writer->quit;
$node->safe_psql('postgres', "DELETE FROM t WHERE pad = 'new';" . $look x 20);
stat_is('entries < 3500 AND deleted_pages > 0', 'let go');
indexes_ok($node, 'let go', 2);
$node->safe_psql('postgres', "VACUUM FREEZE t; INSERT INTO t SELECT i, i, 'again' FROM generate_series(1, 3000) i");
indexes_ok($node, 'frozen, and TIDs used again', 2);
is(join("\n", log_lines($node, qr/PANIC|TRAP|is damaged|must be vacuumed/)), '', 'no complaints in the log');
$node->stop;
done_testing();

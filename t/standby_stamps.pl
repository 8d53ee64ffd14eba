# What a standby's scans learn of dead rows they keep in its memory alone, and use it for newer snapshots only: those from
# before a delete, or from its middle, go on seeing the rows by the index, in recovery and after promotion.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $primary = new_node('primary', 'wal_log_hints = on', allows_streaming => 1);
$primary->start;
prepare($primary);
# Each page has some of every kind of row.
$primary->safe_psql('postgres', <<'SQL');
CREATE TABLE s (k int, kind int, few int);
CREATE INDEX s_k ON s USING steady (k);
CREATE INDEX s_few ON s USING steady (few);
INSERT INTO s SELECT i, i % 5, i % 7 FROM generate_series(1, 5000) i;
SQL
# The primary prunes nothing that the snapshots here need: replay would wait for them. And what is only in memory has room.
my $standby = start_standby($primary, 'standby', "max_standby_streaming_delay = -1\nhot_standby_feedback = on\nshared_buffers = 32MB");
replayed($primary, $standby);
$primary->poll_query_until('postgres', 'SELECT backend_xmin IS NOT NULL FROM pg_stat_replication') or die 'no feedback';

my $settings = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET enable_sort = off';
my @queries = map { "SELECT $_" } 'count(kind) FROM s WHERE k > 0', 'count(kind) FROM s WHERE few = 3',
  'md5(string_agg(k::text, $$,$$)) FROM (SELECT k FROM s ORDER BY k DESC) o';

# A session of $node with a snapshot, and what it sees.
sub snapshot
{
	my ($node) = @_;
	my $session = $node->background_psql('postgres');
	$session->query_safe($settings);
	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	return { session => $session, seen => [ map { scalar $session->query_safe($_) } @queries ] };
}

sub sees_the_same
{
	my ($snapshot, $what) = @_;
	is_deeply([ map { scalar $snapshot->{session}->query_safe($_) } @queries ], $snapshot->{seen}, $what);
}

# What a new snapshot sees, twice by the index and once without.
sub new_sees
{
	my ($node, $rows, $what) = @_;
	is($node->safe_psql('postgres', "$settings; $queries[0]"), $rows, "$what ($_. scan)") for 1 .. 3;
	is_deeply([ map { $node->safe_psql('postgres', "$settings; $_") } @queries ],
		[ map { $node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; $_") }
			  @queries ], "$what: as without the index");
}

# ---- on the standby

my $before = snapshot($standby);
is($before->{seen}[0], '5000', 'a snapshot from before');

# One transaction deletes in its own name and in those of more subtransactions than a snapshot has room for.
my $deleter = $primary->background_psql('postgres');
$deleter->query_safe('BEGIN');
$deleter->query_safe('DELETE FROM s WHERE kind = 0');
$deleter->query_safe(q{DO $$
BEGIN
	FOR i IN 0 .. 99 LOOP
		BEGIN
			DELETE FROM s WHERE kind = 1 AND k / 50 = i;
		EXCEPTION WHEN division_by_zero THEN
		END;
	END LOOP;
END $$});
# Another one is over before the second snapshot, a third comes after it.
$primary->safe_psql('postgres', 'DELETE FROM s WHERE kind = 2');
replayed($primary, $standby);
my $middle = snapshot($standby);
is($middle->{seen}[0], '4000', 'a snapshot from the middle');
$deleter->query_safe('COMMIT');
$deleter->quit;
$primary->safe_psql('postgres', 'DELETE FROM s WHERE kind = 3');
replayed($primary, $standby);

new_sees($standby, '1000', 'a new snapshot');
cmp_ok($standby->safe_psql('postgres', q{SELECT killed FROM steady_stats('s_k')}), '>=', 4000, 'the standby has stamped the dead rows');
is($primary->safe_psql('postgres', q{SELECT killed FROM steady_stats('s_k')}), '0', 'the primary knows nothing of that');
sees_the_same($before, 'the snapshot from before sees them');
sees_the_same($middle, 'the snapshot from the middle sees some of them');
pages_equal($primary, $standby, 'stamps are not on the pages');
$standby->safe_psql('postgres', 'CHECKPOINT');
indexes_ok($standby, 'the standby', 2);

# Replay brings new rows onto the stamped pages.
$primary->safe_psql('postgres', 'INSERT INTO s SELECT i, 4, i % 7 FROM generate_series(1, 5000, 10) i');
replayed($primary, $standby);
new_sees($standby, '1500', 'with new rows between the dead ones');
sees_the_same($before, 'the snapshot from before doesn\'t see the new ones');
sees_the_same($middle, 'nor does the one from the middle');

# ---- promoted: its snapshots were taken in recovery, and live on

$primary->stop;
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'no promotion';
sees_the_same($before, 'promoted: the snapshot from before');
sees_the_same($middle, 'promoted: the one from the middle');
$standby->safe_psql('postgres', 'DELETE FROM s WHERE few = 3; INSERT INTO s SELECT i, 4, 3 FROM generate_series(6001, 6100) i');
new_sees($standby, $standby->safe_psql('postgres', 'SELECT count(*) FROM s'), 'promoted: a new snapshot');
sees_the_same($before, 'after more deletes: the snapshot from before');
sees_the_same($middle, 'after more deletes: the one from the middle');
$standby->safe_psql('postgres', 'VACUUM s');
sees_the_same($before, 'after VACUUM: the snapshot from before');
sees_the_same($middle, 'after VACUUM: the one from the middle');
indexes_ok($standby, 'promoted', 2);
for my $snapshot ($before, $middle)
{
	$snapshot->{session}->query_safe('COMMIT');
	$snapshot->{session}->quit;
}
$standby->safe_psql('postgres', 'VACUUM s');
new_sees($standby, $standby->safe_psql('postgres', 'SELECT count(*) FROM s'), 'in the end');
indexes_ok($standby, 'in the end', 2);
$standby->stop;
done_testing();

# A streaming standby has the same index as its primary after each kind of change, answers like it, and goes on as a
# primary when it is promoted.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $seed = seed();

# Hint bits are logged as page images: both servers' pages stay equal to the byte.
my $primary = new_node('primary', 'wal_log_hints = on', allows_streaming => 1);
$primary->start;
prepare($primary);
my $standby = start_standby($primary, 'standby', 'max_standby_streaming_delay = -1');

sub same
{
	my ($what) = @_;
	replayed($primary, $standby);
	pages_equal($primary, $standby, $what);
	indexes_ok($standby, "$what, on the standby", 8);
}

for my $change (@changes)
{
	run_change($primary, $change);
	same($change->[0]);
}
indexes_ok($primary, 'the primary', 8);

# ---- an index-only scan is no plan for a standby, but a plain scan is

my $explain = 'SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN (COSTS OFF) SELECT id FROM w WHERE id < 100 ORDER BY id';
like($primary->safe_psql('postgres', $explain), qr/^Index Only Scan using w_id/, 'the primary has index-only scans');
like($standby->safe_psql('postgres', $explain), qr/^Index Scan using w_id/, 'the standby has none');
is($standby->safe_psql('postgres', q{SELECT pg_index_column_has_property('w_id', 1, 'returnable')}), 'f', 'and says so');

# ---- scans on the standby leave no mark that the primary doesn't know

$primary->safe_psql('postgres', 'DELETE FROM w WHERE id % 2 = 0');
replayed($primary, $standby);
my $scan = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(pad) FROM w WHERE id > 0';
is($standby->safe_psql('postgres', $scan), '450', "dead rows are not found ($_. scan)") for 1 .. 3;
pages_equal($primary, $standby, 'after scans over dead rows');

# ---- stopped at any point of the log the index is right

$primary->safe_psql('postgres', 'DROP TABLE w, wide, queue');
load_setup($primary);
my $load = load_start($primary, $seed, 3);
for my $round (1 .. (is_long() ? 60 : 5))
{
	my $from = $primary->safe_psql('postgres', 'SELECT last_value FROM load_id');
	load_until($primary, "SELECT last_value > $from + 500 FROM load_id");
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
	$standby->poll_query_until('postgres', q{SELECT pg_get_wal_replay_pause_state() = 'paused'}) or die 'not paused';
	indexes_ok($standby, "replay stopped in the middle of a load ($round)", 4);
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
}

# ---- promoted in the middle of the load

$primary->stop('immediate');
$load->finish;
$standby->promote;
indexes_ok($standby, 'promoted', 4);
my $from = $standby->safe_psql('postgres', "SELECT nextval('load_id')");
$load = load_start($standby, $seed + 1, 3);
load_until($standby, "SELECT last_value > $from + 2000 FROM load_id");
load_stop($standby, $load);
$standby->safe_psql('postgres', 'VACUUM load');
indexes_ok($standby, 'promoted, and written to', 4);
is(join("\n", map { log_lines($_, qr/PANIC|FATAL: .*(inconsistent|corrupt)/) } $primary, $standby), '', 'no complaints in the logs');

$standby->stop;
done_testing();

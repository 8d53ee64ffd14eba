# What is removed from an index ahead of VACUUM, and a page that is used again, does not reach a standby's queries that
# could still need it: they are cancelled, or replay waits for them.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $primary = new_node('primary', 'wal_keep_size = 1GB', allows_streaming => 1);
$primary->start;
prepare($primary);

# Two wide rows a heap page leave room, so that no scan prunes the page: conflicts come from the index alone.
$primary->safe_psql('postgres', <<'SQL');
CREATE TABLE c (id int, k int, pad text);
ALTER TABLE c ALTER pad SET STORAGE PLAIN;
CREATE INDEX c_k ON c USING steady (k) WITH (codec = tuple);
INSERT INTO c SELECT i, i, repeat('x', 3400) FROM generate_series(1, 1000) i;
SQL
my $standby = start_standby($primary, 'standby', "max_standby_streaming_delay = -1\nhot_standby_feedback = off\nlog_min_messages = log");
replayed($primary, $standby);

my $table = $primary->safe_psql('postgres', q{SELECT pg_relation_filenode('c')});
my $index_scan = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';

sub conflicts
{
	return $standby->safe_psql('postgres', q{SELECT confl_snapshot FROM pg_stat_database_conflicts WHERE datname = 'postgres'});
}

# The records of the log from $begin on, as pg_waldump shows them
sub records
{
	my ($begin) = @_;
	my ($out, $err);
	my $end = $primary->lsn('insert');
	# What came before is on disk then. (A transaction that logged nothing would not wait for that.)
	$primary->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, '', '')});
	IPC::Run::run([ 'pg_waldump', '-p', $primary->data_dir . '/pg_wal', '-s', $begin, '-e', $end ], '>', \$out, '2>', \$err);
	return $out;
}

# A session of the standby with a snapshot of its own; it has seen so many rows.
sub old_session
{
	my ($rows) = @_;
	my $session = $standby->background_psql('postgres', on_error_stop => 0);
	$session->query("$index_scan BEGIN ISOLATION LEVEL REPEATABLE READ");
	is($session->query('SELECT count(pad) FROM c WHERE k > 0'), $rows, "a session of the standby sees $rows rows");
	return $session;
}

sub settle_standby
{
	my ($setting) = @_;
	$standby->adjust_conf('postgresql.conf', 'max_standby_streaming_delay', $setting);
	$standby->reload;
	$standby->poll_query_until('postgres', "SELECT current_setting('max_standby_streaming_delay') = '$setting'") or die 'no reload';
}

# Removes killed entries of dead rows $low .. $high, in a statement after the one that deleted the rows.
sub remove_killed
{
	my ($low, $high) = @_;
	$primary->safe_psql('postgres', "DELETE FROM c WHERE k BETWEEN $low AND $high");
	replayed($primary, $standby);
	my $begin = $primary->lsn('insert');
	my $before = $primary->safe_psql('postgres', q{SELECT entries FROM steady_stats('c_k')});
	# Finds them dead, and takes them off the pages, of which they are the most part.
	$primary->safe_psql('postgres', "$index_scan SELECT count(pad) FROM c WHERE k BETWEEN $low - 1 AND $high + 1") for 1 .. 2;
	my $after = $primary->safe_psql('postgres', q{SELECT entries FROM steady_stats('c_k')});
	cmp_ok($after, '<', $before, 'the primary removed entries');
	my $records = records($begin);
	like($records, qr/rmgr: Btree .*REUSE_PAGE/, '... and logged the conflict');
	unlike($records, qr/rmgr: Heap2 .*PRUNE.*rel \d+\/\d+\/$table\b/, '... which nothing in the table did');
}

# ---- replay waits

my $session = old_session(1000);
remove_killed(1, 500);
$standby->poll_query_until('postgres',
	q{SELECT wait_event = 'RecoveryConflictSnapshot' FROM pg_stat_activity WHERE backend_type = 'startup'})
  or die 'replay does not wait';
pass('replay waits for the session');
is($session->query('SELECT count(pad) FROM c WHERE k > 0'), '1000', 'which still finds every row by the index');
$session->query('COMMIT');
replayed($primary, $standby);
is($session->query('SELECT count(pad) FROM c WHERE k > 0'), '500', 'later it sees what the primary sees');
$session->quit;
pages_equal($primary, $standby, 'afterwards');
indexes_ok($standby, 'the standby', 1);

# ---- replay doesn't wait

settle_standby('0');
my $before = conflicts();
$session = old_session(500);
my $offset = -s $standby->logfile;
remove_killed(501, 900);
replayed($primary, $standby);
eval { $session->query('SELECT count(pad) FROM c WHERE k > 0') };  # fails, since psql leaves with its connection
like($session->{stderr}, qr/due to conflict with recovery/, 'a session in the way is cancelled');
$session->{run}->finish;
cmp_ok(conflicts(), '>', $before, 'and counted');
isnt(join("\n", log_lines($standby, qr/might have needed to see row versions that must be removed/, $offset)), '', 'and logged');

# ---- a newer snapshot is in nobody's way

$primary->safe_psql('postgres', 'DELETE FROM c WHERE k BETWEEN 901 AND 950');
replayed($primary, $standby);
$before = conflicts();
$session = old_session(50);
$primary->safe_psql('postgres', "$index_scan SELECT count(pad) FROM c WHERE k BETWEEN 900 AND 951") for 1 .. 2;
replayed($primary, $standby);
is($session->query('SELECT count(pad) FROM c WHERE k > 0'), '50', 'a snapshot that is newer than the removed rows goes on');
$session->quit;
is(conflicts(), $before, 'without a conflict');

# ---- a page used again

settle_standby('-1');
$primary->safe_psql('postgres', <<'SQL');
CREATE TABLE p (k int);
CREATE INDEX p_k ON p USING steady (k) WITH (codec = tuple);
INSERT INTO p SELECT generate_series(1, 5000);
DELETE FROM p WHERE k BETWEEN 1000 AND 4000;
VACUUM p;
SQL
replayed($primary, $standby);
# Its snapshot is not older than anything that VACUUM removed, but it could have read a link to the page before.
$session = $standby->background_psql('postgres');
$session->query_safe("$index_scan BEGIN ISOLATION LEVEL REPEATABLE READ");
is($session->query_safe('SELECT count(*) FROM p WHERE k > 0'), '1999', 'a session has a snapshot');
my $begin = $primary->lsn('insert');
my $pages = $primary->safe_psql('postgres', q{SELECT deleted_pages FROM steady_stats('p_k')});
$primary->safe_psql('postgres', 'SELECT pg_current_xact_id()');
$primary->safe_psql('postgres', 'INSERT INTO p SELECT generate_series(1000, 4000)');
cmp_ok($primary->safe_psql('postgres', q{SELECT deleted_pages FROM steady_stats('p_k')}), '<', $pages, 'the primary uses pages again');
$table = $primary->safe_psql('postgres', q{SELECT pg_relation_filenode('p')});
unlike(records($begin), qr/rmgr: Heap2 .*PRUNE.*rel \d+\/\d+\/$table\b/, '... and prunes nothing');
$standby->poll_query_until('postgres',
	q{SELECT wait_event = 'RecoveryConflictSnapshot' FROM pg_stat_activity WHERE backend_type = 'startup'})
  or die 'replay does not wait';
pass('replay waits with a page that is used again');
is($session->query_safe('SELECT count(*) FROM p WHERE k > 0'), '1999', 'the session sees what it saw');
$session->query_safe('COMMIT');
$session->quit;
replayed($primary, $standby);
pages_equal($primary, $standby, 'afterwards');
indexes_ok($standby, 'the standby', 2);

# ---- with feedback nothing is removed

$standby->adjust_conf('postgresql.conf', 'hot_standby_feedback', 'on');
$standby->adjust_conf('postgresql.conf', 'wal_receiver_status_interval', '1');
$standby->reload;
$session = $standby->background_psql('postgres');
$session->query_safe("$index_scan BEGIN ISOLATION LEVEL REPEATABLE READ");
is($session->query_safe('SELECT count(*) FROM p WHERE k > 0'), '5000', 'a session has a snapshot, and the primary knows');
$primary->poll_query_until('postgres', q{SELECT backend_xmin IS NOT NULL FROM pg_stat_replication}) or die 'no feedback';
$primary->safe_psql('postgres', 'DELETE FROM p WHERE k < 2000');
my $entries = $primary->safe_psql('postgres', q{SELECT entries FROM steady_stats('p_k')});
$primary->safe_psql('postgres', "$index_scan SELECT count(*) FROM p WHERE k BETWEEN 0 AND 2001") for 1 .. 2;
$primary->safe_psql('postgres', 'VACUUM p');
is($primary->safe_psql('postgres', q{SELECT entries FROM steady_stats('p_k')}), $entries, 'the primary removes nothing');
replayed($primary, $standby);
is($session->query_safe('SELECT count(*) FROM p WHERE k > 0'), '5000', 'the session sees what it saw');
$session->query_safe('COMMIT');
$session->quit;

$standby->stop;
$primary->stop;
done_testing();

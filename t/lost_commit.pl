# A crash loses an asynchronous commit, after a scan has stamped its rows and the stamped page was written. The rows are
# back, and the transaction's id is used again: the stamps of before must not be heeded.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

# Nothing that writes the log by itself, and so little memory that pages leave it. With checksums a stamp's own page image
# would make the commit safe.
my $node = new_node('main', <<'CONF', no_data_checksums => 1);
shared_buffers = 2MB
wal_level = minimal
max_wal_senders = 0
wal_writer_delay = 10s
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
synchronous_commit = off
CONF
$node->start;
prepare($node);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int, pad text);
CREATE INDEX t_id ON t USING steady (id);
CREATE TABLE other AS SELECT i, repeat('o', 500) AS o FROM generate_series(1, 8000) i;
CREATE INDEX other_i ON other USING btree (i);
VACUUM;    -- later nobody finds anything to prune, which would be logged
INSERT INTO t SELECT i, 'p' FROM generate_series(1, 100) i;
CHECKPOINT;
SQL
is($node->safe_psql('postgres', q{SELECT pg_relation_size('t') / 8192 || ' ' || leaf_pages FROM steady_stats('t_id')}), '1 1', 'one page each');
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t_id')});

# How many entries of the leaf are stamped in the file. The zone behind pd_lower: run (8 bytes), entries (2), ranges and
# flags (1 each), stamped (4).
sub stamped_in_file
{
	my $page = substr(slurp_file($file), 8192, 8192);
	my $zone = (unpack('x12S', $page) + 7) & ~7;
	return unpack("x${zone}x12L", $page);
}

my $wal_writer = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'});

# Whoever has the table's page pinned keeps it in memory: if it were written, the log would be before.
my $pin = $node->background_psql('postgres');
$pin->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT * FROM t');
is($pin->query_safe('FETCH 1 FROM c'), '1|p', 'the page of the table is pinned');
kill 'STOP', $wal_writer or die "kill: $!";

my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
my $scan = "$by_index SELECT count(pad) FROM t WHERE id > 0";
my $xid = $node->safe_psql('postgres', 'BEGIN; DELETE FROM t WHERE id <= 60; SELECT pg_current_xact_id(); COMMIT');
is($node->safe_psql('postgres', $scan), '40', 'rows are deleted');
is($node->safe_psql('postgres', q{SELECT killed FROM steady_stats('t_id')}), '60', '... and their entries stamped');
wait_for('the leaf to be written', sub {
	$node->safe_psql('postgres', "$by_index SELECT count(o) FROM other WHERE i > 0");
	return stamped_in_file() == 60;
});
pass('the stamped leaf is written');

$node->stop('immediate');
$pin->{run}->kill_kill;
is(stamped_in_file(), 60, 'the file has the stamps after the crash');
$node->start;
is($node->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM t'), '100',
	'the commit is lost');
is($node->safe_psql('postgres', $scan), '100', 'the index finds the rows that are back');
my $again;
do
{
	$again = $node->safe_psql('postgres', 'SELECT pg_current_xact_id()');
} while ($again < $xid);
is($again, $xid, 'the id of the transaction is used again, by one that commits');
is($node->safe_psql('postgres', $scan), '100', 'the index finds all rows');
is($node->safe_psql('postgres', "$by_index SELECT count(id) FROM t WHERE id = ANY (ARRAY(SELECT generate_series(1, 60)))"), '60', '... one by one');
is($node->safe_psql('postgres', q{SELECT killed FROM steady_stats('t_id')}), '0', 'the leaf has no stamps');
indexes_ok($node, 'after the crash', 1);
$node->stop;
done_testing();

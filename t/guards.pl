# Each guard is needed: what it guards against happens, and is seen, when it is switched off, and does not when it is on.
# (A debug build's; t/races.pl has the guards that matter only when two sessions meet.)
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Debug;
use Steady::Test;

my $node = debug_node('main', '', allows_streaming => 1);
my $old_snapshot = 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT min(i) FROM other';

# What a session's scans find and a sequential scan does not, or the other way round
sub differences
{
	my ($session) = @_;
	return grep { $_ ne '' } scalar $session->query('SELECT st.differences(i) FROM st.index i');
}

# ---- what a snapshot heeds

guarded('snapshot_range', 'an old snapshot sees its rows', sub {
	create(2000);
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 1500');
	look();
	must_be('killed = 1500');
	my @faults = differences($old);
	$old->quit;
	return @faults;
});

# More of them than a snapshot has room for. (A standby's has the last ones: those delete nothing.)
my $subtransactions = <<'SQL';
BEGIN;
DO $$ BEGIN
	FOR i IN 1..200 LOOP
		BEGIN DELETE FROM t WHERE id = i AND i <= 100; INSERT INTO other VALUES (i); EXCEPTION WHEN unique_violation THEN END;
	END LOOP;
END $$
SQL

guarded('subxid_overflow', 'a snapshot that lacks subtransactions sees their rows', sub {
	create(2000);
	my $writer = session($node, $subtransactions);
	$node->safe_psql('postgres', 'INSERT INTO other VALUES (2)');
	my $old = session($node, $old_snapshot);
	$writer->query('COMMIT');
	$writer->quit;
	look();
	must_be('killed = 100');
	my @faults = differences($old);
	$old->quit;
	return @faults;
});

guarded('snapshot_any', 'CLUSTER keeps what an old snapshot sees', sub {
	create(2000);
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 1500');
	look();
	must_be('killed = 1500');
	$node->safe_psql('postgres', 'CLUSTER t USING t_i');
	my $rows = $old->query('SET enable_seqscan = on; SET enable_indexscan = off; SELECT count(pad) FROM t');
	$old->quit;
	return $rows eq '2000' ? () : "$rows rows";
});

# ---- what is stamped

# Rows that are not there for a snapshot, nor ended: the scan comes by entries without a visible row. What else happened
# to them?
for my $case (
	[ 'chain_end', 'a row that was updated', q{UPDATE t SET pad = 'hot' WHERE id > 1000} ],
	[ 'locked_only', 'a row that was locked', 'BEGIN; SELECT count(*) FROM (SELECT 1 FROM t WHERE id > 1000 FOR UPDATE) l; COMMIT' ],
	[ 'deleter_committed', 'a delete that was undone', 'BEGIN; DELETE FROM t WHERE id > 1000; ROLLBACK' ],
	[ 'deleter_committed', 'a delete that goes on', undef ])
{
	my ($guard, $what, $change) = @$case;
	guarded($guard, "$what is not ended by it", sub {
		create(1000);
		my $old = session($node, $old_snapshot);
		$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'new' FROM generate_series(1001, 1100) i");
		my $other = session($node, 'BEGIN');
		$other->query('DELETE FROM t WHERE id > 1000') if !defined $change;
		$node->safe_psql('postgres', $change) if defined $change;
		is($old->query('SELECT count(pad) FROM t WHERE id > 0'), '1000', 'the old snapshot does not see the rows');
		$other->query('ROLLBACK');
		$_->quit for $old, $other;
		return faults($node);
	});
}

for my $kind ('', 'UNLOGGED')
{
	guarded('zone_carried', "$kind entries that come in between", sub {
		create(2000, kind => $kind);
		my $old = session($node, $old_snapshot);
		$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 10 IN (3, 4)');
		look();
		must_be('killed = 400');
		$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'between' FROM generate_series(1, 2000, 50) i");
		my @faults = faults($node);
		$old->quit;
		return @faults;
	});
}

# ---- flags

guarded('flag_clearing', 'rows that come among the dead', sub {
	create(8000);
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 7500');
	look();
	must_be('flagged_children > 5');
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'alive' FROM generate_series(1, 7000, 1000) i");
	my @faults = faults($node);
	$old->quit;
	return @faults;
});

guarded('bit_carried', 'a page that is emptied, but stays, under its flag', sub {
	create(8000);
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 7500');
	look();
	must_be('flagged_children > 5');
	$old->quit;
	# Whoever has a page pinned keeps it in the tree, but not what is on it.
	my $scan = session($node, 'SET steady.kill = off');
	stop_at($node, $scan, 'leaf-read', 'SELECT count(*) FROM t WHERE id < 100');
	my $flags = $node->safe_psql('postgres', q{SELECT flagged_children FROM steady_stats('t_i')});
	look('id < 100');
	must_be("entries < 8000 AND deleted_pages = 0 AND flagged_children = $flags");
	release();
	result($scan) eq '0' or die 'the scan sees rows';
	$node->safe_psql('postgres', q{INSERT INTO t VALUES (10, 'alive')});
	my @faults = faults($node);
	$scan->quit;
	return @faults;
});

guarded('whole_way', 'a clearing of flags that broke off', sub {
	create(600, key => $wide);
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 500');
	look("$wide > '0'");
	my $above = $node->safe_psql('postgres', q{SELECT sum(killed) FROM generate_series(1, pg_relation_size('t_i') / 8192 - 1) b,
		steady_page_header('t_i', b) h WHERE level > 1 AND NOT 'deleted' = ANY (flags)});
	$above > 0 or die 'no page above the lowest inner level has a flagged child';
	my ($status, undef, $err) = $node->psql('postgres', q{LOAD 'steady'; SET steady.debug_fail = 'clear'; INSERT INTO t VALUES (10, 'fails')});
	$err =~ /failed at "clear"/ or die "no failure: $err";
	$node->safe_psql('postgres', q{INSERT INTO t VALUES (10, 'alive')});
	my @faults = faults($node);
	$old->quit;
	return @faults;
});

guarded('unlink_flag', 'a page that takes over from one that was flagged', sub {
	create(8000);
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 7000');
	look();
	must_be('flagged_children > 5');
	$old->quit;
	$node->safe_psql('postgres', 'VACUUM t');
	must_be('deleted_pages > 5');
	return faults($node);
});

guarded('incomplete_split', 'a page whose right half has no downlink', sub {
	create(2000);
	my $old = session($node, $old_snapshot);
	# Of the first leaf more than half is dead. Entries come in behind until it is full.
	my ($next) = second_leaf($node);
	my $dead = int($next * 0.75);
	$node->safe_psql('postgres', "DELETE FROM t WHERE id <= $dead");
	my ($status, undef, $err) = $node->psql('postgres', <<"SQL");
LOAD 'steady';
SET steady.debug_fail = 'split';
DO \$\$ BEGIN
	FOR i IN 1..1000 LOOP
		INSERT INTO t VALUES ($dead + 1 + (i * 37) % 40, 'alive');
		COMMIT;
	END LOOP;
END \$\$;
SQL
	$err =~ /failed at "split"/ or die "no failure: $err";
	look();
	my @faults = faults($node);
	$old->quit;
	return @faults;
});

guarded('serializable', 'write skew through pages that are passed over', sub {
	create(8000);
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 7500');
	look();
	must_be('flagged_children > 5');
	my @both = map { session($node, 'BEGIN ISOLATION LEVEL SERIALIZABLE') } 1, 2;
	# The range ends on a page that is not passed over: were it to end before, the whole index would be locked.
	$_->query('SELECT count(pad) FROM t WHERE id BETWEEN 1 AND 7500') eq '0' or die 'rows are there' for @both;
	$both[0]->query("INSERT INTO t VALUES (2000, 'skew')");
	$both[1]->query("INSERT INTO t VALUES (5000, 'skew')");
	$_->query('COMMIT') for @both;
	my $rows = $node->safe_psql('postgres', q{SELECT count(*) FROM t WHERE pad = 'skew'});
	$_->quit for $old, @both;
	return $rows eq '1' ? () : "both filled the empty range";
});

# ---- predicate locks of pages that change

sub skew
{
	my ($range, $row, $change) = @_;
	my @both = map { session($node, 'BEGIN ISOLATION LEVEL SERIALIZABLE') } 1, 2;
	$both[0]->query("SELECT count(pad) FROM t WHERE id BETWEEN $range");
	$both[1]->query('SELECT count(pad) FROM t WHERE id BETWEEN 25000 AND 25009');
	$change->();
	$both[0]->query("INSERT INTO t VALUES (25005, 'skew')");
	$both[1]->query("INSERT INTO t VALUES ($row, 'skew')");
	$_->query('COMMIT') for @both;
	my $rows = $node->safe_psql('postgres', q{SELECT count(*) FROM t WHERE pad = 'skew'});
	$_->quit for @both;
	return $rows eq '1' ? () : "both wrote into what the other had read";
}

guarded('predicate_split', 'write skew over a page that is split', sub {
	create(0);
	$node->safe_psql('postgres', "INSERT INTO t SELECT i * 10, 'p' FROM generate_series(1, 3000) i");
	return skew('2100 AND 2110', 2105, sub {
		$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'split' FROM generate_series(1, 4000, 2) i WHERE i <> 2105 ORDER BY i * 7919 % 4001");
	});
});

guarded('predicate_unlink', 'write skew over a page that is unlinked', sub {
	create(0);
	$node->safe_psql('postgres', "INSERT INTO t SELECT i * 10, 'p' FROM generate_series(1, 3000) i; DELETE FROM t WHERE id BETWEEN 5000 AND 20000");
	return skew('12000 AND 12100', 12050, sub {
		$node->safe_psql('postgres', 'VACUUM t');
		must_be('deleted_pages > 1');
	});
});

# ---- what an index-only scan stands on

for my $guard ('scan_pin', 'vacuum_cleanup')
{
	guarded($guard, 'VACUUM waits for an index-only scan', sub {
		create(3000);
		$node->safe_psql('postgres', 'VACUUM t');
		$node->safe_psql('postgres', 'DELETE FROM t WHERE id BETWEEN 200 AND 2000');
		my $scan = session($node, 'SET steady.kill = off; BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id');
		$scan->query('FETCH 1 FROM c') eq '1' or die 'where does it stand?';
		my $vacuum = session($node);
		my $waits = settle($node, $vacuum, 'VACUUM t');
		my $rows = split /\n/, $scan->query('FETCH ALL FROM c');
		$scan->query('COMMIT');
		result($vacuum);
		$_->quit for $scan, $vacuum;
		return ($rows == 1198 ? () : "$rows rows"), ($waits ? () : 'VACUUM did not wait'), faults($node);
	});
}

# ---- pages used again

guarded('safe_xid', 'a page to which a scan has a link', sub {
	create(8000);
	my $session = session($node);
	my ($low, $high, $block) = second_leaf($session);
	$node->safe_psql('postgres', "DELETE FROM t WHERE id BETWEEN $low AND $high");
	$session->query('SET steady.kill = off; BEGIN; DECLARE c CURSOR FOR SELECT id, pad FROM t ORDER BY id');
	$session->query('FETCH 1 FROM c') eq '1|p' or die 'where does it stand?';
	look("id BETWEEN $low - 1 AND $high + 1");
	must_be('deleted_pages > 0');
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'right' FROM generate_series(9001, 12000) i");
	my $rows = split /\n/, $session->query('FETCH ALL FROM c');
	my $expected = 7999 - ($high - $low + 1);
	$session->quit;
	return ($rows == $expected ? () : "$rows rows of $expected"), faults($node);
});

guarded('safe_for_all', q{a temporary table's page to which a cursor has a link}, sub {
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS t');
	my $session = session($node, <<'SQL');
CREATE TEMPORARY TABLE t (id int, pad text);
CREATE INDEX t_i ON t USING steady (id);
INSERT INTO t SELECT i, 'p' FROM generate_series(1, 8000) i;
SQL
	my ($low, $high, $block) = second_leaf($session);
	$session->query("DELETE FROM t WHERE id BETWEEN $low AND $high");
	$session->query('SET steady.kill = off; BEGIN; DECLARE c CURSOR FOR SELECT id, pad FROM t ORDER BY id');
	$session->query('FETCH 1 FROM c') eq '1|p' or die 'where does it stand?';
	$session->query('SET steady.kill = on');
	$session->query("SELECT count(pad) FROM t WHERE id BETWEEN $low - 1 AND $high + 1") for 1, 2;
	$session->query(q{SELECT deleted_pages > 0 FROM steady_stats('t_i')}) eq 't' or die 'no page was unlinked';
	$node->safe_psql('postgres', 'INSERT INTO other VALUES (3)');
	$session->query("SET steady.kill = off; INSERT INTO t SELECT i, 'right' FROM generate_series(9001, 12000) i");
	my $rows = split /\n/, $session->query('FETCH ALL FROM c');
	my $expected = 7999 - ($high - $low + 1);
	$session->query('ROLLBACK');
	$session->quit;
	return $rows == $expected ? () : "$rows rows of $expected";
});

# ---- another run of the server

# Nothing that writes the log by itself, and so little memory that pages leave it. With checksums a stamp's own page image
# would make the commit safe. (As in t/lost_commit.pl.)
{
	my $run = new_node('run', <<'CONF', no_data_checksums => 1);
shared_buffers = 2MB
wal_level = minimal
max_wal_senders = 0
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
synchronous_commit = off
CONF
	$run->start;
	prepare($run);
	$run->safe_psql('postgres', <<'SQL');
CREATE TABLE other AS SELECT i, repeat('o', 500) AS o FROM generate_series(1, 8000) i;
CREATE INDEX other_i ON other USING btree (i);
CREATE TABLE burnt (i int);
SQL
	guarded('run_id', 'a deleter whose commit is lost in a crash, and its xid given to another one', sub {
		$run->safe_psql('postgres', <<'SQL');
DROP TABLE IF EXISTS t;
CREATE TABLE t (id int, pad text);
CREATE INDEX t_i ON t USING steady (id);
VACUUM;    -- later nobody finds anything to prune, which would be logged
INSERT INTO t SELECT i, 'p' FROM generate_series(1, 100) i;
CHECKPOINT;
SQL
		# If the page of the table were written, the log would be before.
		my $old = session($run, 'BEGIN; DECLARE c CURSOR FOR SELECT * FROM t');
		$old->query('SET enable_seqscan = on; FETCH 1 FROM c') eq '1|p' or die 'the page of the table is not pinned';
		my $session = session($run);
		my $writer = $run->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'});
		kill 'STOP', $writer or die $!;
		my $xid = $session->query('DELETE FROM t WHERE id <= 60 RETURNING pg_current_xact_id()') =~ s/\n.*//sr;
		$session->query('SELECT count(pad) FROM t WHERE id > 0') eq '40' or die 'nothing is deleted';
		$session->query(q{SELECT killed = 60 FROM steady_stats('t_i')}) eq 't' or die 'nothing is stamped';
		my $file = $run->data_dir . '/' . $session->query(q{SELECT pg_relation_filepath('t_i')});
		wait_for('the stamped leaf to be written', sub {
			$session->query('SELECT count(o) FROM other WHERE i > 0');
			my $page = substr(slurp_file($file), 8192, 8192);
			my $zone = (unpack('x12S', $page) + 7) & ~7;
			return unpack("x${zone}x12L", $page) == 60;
		});
		$session->query(q{SELECT pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()}) eq 't' or die 'the commit is on disk';
		$run->stop('immediate');
		$run->start;
		$run->safe_psql('postgres', 'SELECT count(*) FROM t') eq '100' or die 'the commit is not lost';
		my $next = $run->safe_psql('postgres', 'SELECT pg_current_xact_id()');
		$next <= $xid or die 'its xid will not be used again';
		$run->safe_psql('postgres', 'INSERT INTO burnt VALUES (1)') for $next .. $xid;
		return faults($run);
	});
	$run->stop;
}

{
	my $small = new_node('small', "wal_level = minimal\nmax_wal_senders = 0\nwal_log_hints = on\nshared_buffers = 2MB\nbgwriter_lru_maxpages = 0");
	$small->start;
	prepare($small);
	$small->safe_psql('postgres', <<'SQL');
CREATE TABLE other AS SELECT i, repeat('o', 500) AS o FROM generate_series(1, 8000) i;
CREATE INDEX other_i ON other USING btree (i);
VACUUM;
SQL
	guarded($_->[0], "$_->[1] in a relation that skips the log", sub {
		$small->safe_psql('postgres', <<'SQL');
DROP TABLE IF EXISTS t;
CREATE TABLE t (id int, pad text);
CREATE INDEX t_i ON t USING steady (id, (hashint8extended(id, 0)));
INSERT INTO t SELECT i, 'p' FROM generate_series(1, 8000) i;
SQL
		my $old = session($small, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other WHERE i = 1');
		$small->safe_psql('postgres', 'DELETE FROM t WHERE id <= 7500');
		my $session = session($small, 'BEGIN; REINDEX INDEX t_i');
		my $look = 'SELECT count(pad) FROM t WHERE id > 0';
		my $evict = 'SELECT count(o) FROM other WHERE i > 0';
		my $flagged = q{SELECT flagged_children > 5 FROM steady_stats('t_i')};
		# A split writes the flags together with its downlink.
		$session->query($_) for $look, $look;
		$session->query($flagged) eq 't' or die 'nothing is flagged';
		$session->query($_) for "INSERT INTO t SELECT i, 'right' FROM generate_series(8001, 9000) i", $evict, $evict;
		$session->query($flagged) eq 't' or die 'the flags are lost';
		$session->query($_) for "INSERT INTO t VALUES (100, 'alive')", $evict, $evict, 'COMMIT';
		my @faults = faults($small);
		$_->quit for $old, $session;
		return @faults;
	}) for [ 'clearing_kept', 'a clearing' ], [ 'bit_kept', 'what a page says' ];
	$small->stop;
}

# ---- xids beyond 32 bits

my $wraps = 0;

# A server that is about to come to the end of 32 bits
sub wrapping_node
{
	my $wrap = new_node('wrap' . ++$wraps);
	$wrap->start;
	prepare($wrap);
	$wrap->safe_psql($_, 'VACUUM FREEZE') for qw(postgres template1);
	$wrap->stop;
	my $xid = 2**32 - 500;
	append_to_file(sprintf('%s/pg_xact/%04X', $wrap->data_dir, $xid >> 20), "\0" x 2**18);
	system_or_bail('pg_resetwal', '-x', $xid, '-u', $xid - 1000, $wrap->data_dir);
	$wrap->start;
	return $wrap;
}

guarded('wide_xid', 'rows that are deleted on both sides of the end of 32 bits', sub {
	my $wrap = wrapping_node();
	$wrap->safe_psql('postgres', <<'SQL');
CREATE TABLE other (i int);
CREATE TABLE t (id int, pad text);
CREATE INDEX t_i ON t USING steady (id);
INSERT INTO t SELECT i, 'p' FROM generate_series(1, 4000) i;
SQL
	my $old = session($wrap, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other');
	$wrap->safe_psql('postgres', 'DELETE FROM t WHERE id <= 1000');
	$wrap->safe_psql('postgres', 'DO $$ BEGIN FOR i IN 1..700 LOOP INSERT INTO other VALUES (i); COMMIT; END LOOP; END $$');
	$wrap->safe_psql('postgres', 'DELETE FROM t WHERE id BETWEEN 1001 AND 2000');
	look('id > 0', $wrap);
	my ($smallest, $largest) = map { $wrap->safe_psql('postgres', "SELECT ${_}_stamp FROM steady_stats('t_i')") } qw(smallest largest);
	my @faults = (differences($old), faults($wrap));
	push @faults, "stamps from $smallest to $largest" if $smallest >= 2**32 || $largest <= 2**32;
	$old->quit;
	$wrap->stop;
	return @faults;
});

# ---- standbys

# What it knows of dead rows lives in its buffers only.
my $standby = start_standby($node, 'standby', "max_standby_streaming_delay = -1\nhot_standby_feedback = off\nshared_buffers = 32MB");

# Waits until replay is done or waits for a query. True if it waits.
sub replay_settles
{
	my $lsn = $node->lsn('insert');
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	my $waits = q{EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event ~ 'Conflict|BufferPin')};
	$standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn' OR $waits") or die 'no replay';
	return $standby->safe_psql('postgres', "SELECT $waits") eq 't';
}

guarded('snapshot_range', q{a standby's old snapshot sees its rows}, sub {
	create(2000);
	replayed($node, $standby);
	my $there = session($standby, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 1500');
	replayed($node, $standby);
	look('id > 0', $standby);
	must_be('killed = 1500', $standby);
	my @faults = differences($there);
	$there->quit;
	return @faults;
});

guarded('subxid_overflow', q{a standby's snapshot that lacks subtransactions sees their rows}, sub {
	create(2000);
	my $writer = session($node, $subtransactions);
	$node->safe_psql('postgres', 'INSERT INTO other VALUES (2)');
	replayed($node, $standby);
	my $there = session($standby, $old_snapshot);
	$writer->query('COMMIT');
	$writer->quit;
	replayed($node, $standby);
	look('id > 0', $standby);
	must_be('killed = 100', $standby);
	my @faults = differences($there);
	$there->quit;
	return @faults;
});

guarded('conflict_record', q{a standby's snapshot sees its rows}, sub {
	# Two wide rows a heap page leave room, so that no scan prunes the page.
	$node->safe_psql('postgres', <<'SQL');
DROP TABLE IF EXISTS t;
CREATE TABLE t (id int, pad text);
ALTER TABLE t ALTER pad SET STORAGE PLAIN;
CREATE INDEX t_i ON t USING steady (id, (hashint8extended(id, 0)));
INSERT INTO t SELECT i, repeat('x', 3400) FROM generate_series(1, 1000) i;
SQL
	replayed($node, $standby);
	my $there = session($standby, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 500');
	look();
	must_be('entries < 700');
	my $waits = replay_settles();
	my $rows = $there->query('SELECT count(pad) FROM t WHERE id > 0');
	$there->quit;
	return ($rows == 1000 ? () : "$rows rows"), ($waits ? () : 'replay did not wait');
});

guarded('reuse_record', q{a page to which a standby's scan has a link}, sub {
	create(8000);
	my ($low, $high) = second_leaf(session($node));
	$node->safe_psql('postgres', "DELETE FROM t WHERE id BETWEEN $low AND $high");
	replayed($node, $standby);
	my $there = session($standby, 'SET steady.kill = off; BEGIN; DECLARE c CURSOR FOR SELECT id, pad FROM t ORDER BY id');
	$there->query('FETCH 1 FROM c') eq '1|p' or die 'where does it stand?';
	look("id BETWEEN $low - 1 AND $high + 1");
	must_be('deleted_pages > 0');
	$node->safe_psql('postgres', 'INSERT INTO other VALUES (1)') for 1, 2;
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'right' FROM generate_series(9001, 12000) i");
	must_be('deleted_pages = 0');
	my $waits = replay_settles();
	my $rows = split /\n/, $there->query('FETCH ALL FROM c');
	$there->quit;
	my $expected = 7999 - ($high - $low + 1);
	return ($rows == $expected ? () : "$rows rows of $expected"), ($waits ? () : 'replay did not wait');
});

guarded('standby_index_only', 'a standby has no index-only scans', sub {
	create(3000);
	$node->safe_psql('postgres', 'VACUUM t');
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id BETWEEN 250 AND 2000');
	replayed($node, $standby);
	my $there = session($standby, 'SET steady.kill = off; BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id');
	$there->query('FETCH 1 FROM c') eq '1' or die 'where does it stand?';
	$node->safe_psql('postgres', 'VACUUM t');
	replay_settles() and die 'replay waits';
	my $rows = split /\n/, $there->query('FETCH ALL FROM c');
	$there->quit;
	return $rows == 1248 ? () : "$rows rows";
});

guarded('recovery_flags', 'rows that are replayed among the dead', sub {
	create(8000);
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 7500');
	replayed($node, $standby);
	look('id > 0', $standby);
	must_be('killed = 7500', $standby);
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'alive' FROM generate_series(1, 7000, 1000) i");
	replayed($node, $standby);
	my @faults = faults($standby);
	$old->quit;
	return @faults;
});
$standby->stop;

$node->stop;
is(join("\n", map { log_lines($_, qr/PANIC|TRAP/) } $node, $standby), '', 'no complaints in the logs');
done_testing();

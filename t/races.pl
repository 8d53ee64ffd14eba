# Races, replayed: one session stands at a point in the code while others do what would be in its way. Where a guard is
# what decides the race, it goes wrong without. (A debug build's; see t/guards.pl.)
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Debug;
use Steady::Test;

my $node = debug_node('main', 'max_connections = 20', allows_streaming => 1);
my $old_snapshot = 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT min(i) FROM other';

# ---- between reading and stamping

guarded('pin_or_lsn', 'VACUUM frees a TID, and a new row gets it, before its old entry is stamped', sub {
	create(200, pad => 500);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 20');
	my $dead = '(1,' . $node->safe_psql('postgres', q{SELECT 20 - count(*) FROM t WHERE ctid < '(1,1)'}) . ')';
	my $scan = session($node);
	# It ends on a page of the table behind that of the dead row, which it has pinned.
	stop_at($node, $scan, 'stamp', 'SELECT count(pad) FROM t WHERE id BETWEEN 15 AND 100');
	$node->safe_psql('postgres', 'VACUUM t');
	for my $i (1 .. 100)
	{
		last if $node->safe_psql('postgres', "SELECT count(*) FROM t WHERE ctid = '$dead'");
		$node->safe_psql('postgres', "INSERT INTO t VALUES (20 + $i, repeat('n', 500))");
		die "nobody gets $dead" if $i == 100;
	}
	release();
	result($scan) eq '85' or die 'the scan sees other rows';
	$scan->quit;
	return faults($node);
});

guarded('unlogged_pin', 'the same without a log, where no LSN tells that the page has changed', sub {
	create(200, kind => 'UNLOGGED', pad => 500);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 20');
	my $dead = '(1,' . $node->safe_psql('postgres', q{SELECT 20 - count(*) FROM t WHERE ctid < '(1,1)'}) . ')';
	my ($scan, $vacuum) = map { session($node) } 1, 2;
	stop_at($node, $scan, 'stamp', 'SELECT count(pad) FROM t WHERE id BETWEEN 15 AND 100');
	my $waits = settle($node, $vacuum, 'VACUUM t');
	for my $i (1 .. 100)
	{
		last if $waits || $node->safe_psql('postgres', "SELECT count(*) FROM t WHERE ctid = '$dead'");
		$node->safe_psql('postgres', "INSERT INTO t VALUES (20 + $i, repeat('n', 500))");
		die "nobody gets $dead" if $i == 100;
	}
	release();
	result($scan) eq '85' or die 'the scan sees other rows';
	result($vacuum);
	$_->quit for $scan, $vacuum;
	return ($waits ? () : 'VACUUM did not wait'), faults($node);
});

for my $kind ('', 'UNLOGGED')
{
	race("$kind entries are on another page when they are stamped", sub {
		create(1000, kind => $kind);
		my $old = session($node, $old_snapshot);
		$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 3 = 0 AND id < 300');
		my $scan = session($node);
		stop_at($node, $scan, 'stamp', 'SELECT count(pad) FROM t WHERE id < 280');
		$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'n' FROM generate_series(1, 300) i ORDER BY i * 7919 % 301");
		release();
		result($scan);
		my @faults = faults($node);
		look();
		push @faults, faults($node);
		$_->quit for $old, $scan;
		return @faults;
	});
}

# ---- flags

guarded('sticky_bit', 'an insert into a page that is about to be flagged', sub {
	create(8000);
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 7500');
	my ($setter, $writer) = map { session($node) } 1, 2;
	stop_at($node, $setter, 'flag', 'SELECT count(pad) FROM t WHERE id > 0');
	settle($node, $writer, q{INSERT INTO t VALUES (10, 'alive')}) or die 'the writer does not wait';
	release();
	my @faults = grep { $_ ne '500' } result($setter);
	result($writer);
	look();
	push @faults, faults($node);
	$_->quit for $old, $setter, $writer;
	return @faults;
});

race('a page is stamped and flagged by others while a writer is about to put an entry there', sub {
	create(8000);
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 7500');
	look('id BETWEEN 1 AND 7500');
	must_be('flagged_children > 5');
	my $writer = session($node);
	stop_at($node, $writer, 'insert', q{INSERT INTO t VALUES (10, 'alive')});
	my $scan = session($node);
	settle($node, $scan, 'SELECT count(pad) FROM t WHERE id BETWEEN 1 AND 7600') or die 'the scan does not wait for the page';
	look('id BETWEEN 1000 AND 7600');
	release();
	result($writer);
	result($scan);
	look();
	my @faults = faults($node);
	$_->quit for $old, $writer, $scan;
	return @faults;
});

race('the parent splits while a child is about to be flagged', sub {
	# Keys so wide that a page has few
	create(300, key => "lpad((id % 300)::text, 4, '0') || " . join ' || ', map { "md5(id::text || '$_')" } 1 .. 20);
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 100');
	my $setter = session($node);
	my $key = $node->safe_psql('postgres', q{SELECT pg_get_indexdef('t_i'::regclass, 1, false)});
	my $pages = $node->safe_psql('postgres', q{SELECT inner_pages FROM steady_stats('t_i')});
	stop_at($node, $setter, 'flag', "SELECT count(pad) FROM t WHERE ($key) > '0'");
	# Into the parent's other children
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'n' FROM generate_series(340, 389) i");
	release();
	result($setter) eq '200' or die 'the scan sees other rows';
	must_be("inner_pages > $pages");
	my @faults = faults($node);
	look("($key) > '0'");
	push @faults, faults($node);
	$_->quit for $old, $setter;
	return @faults;
});

# ---- splits

race('between the halves of a split', sub {
	create(1000);
	my ($writer, $reader, $second) = map { session($node) } 1 .. 3;
	stop_at($node, $writer, 'split', q{INSERT INTO t SELECT i, 'n' FROM generate_series(1, 300) i});
	my $waits = settle($node, $reader, 'SELECT count(pad) FROM t WHERE id > 0');
	settle($node, $second, q{INSERT INTO t SELECT i, 'm' FROM generate_series(1, 600) i});
	$waits or die 'the reader finds no page locked';
	release();
	result($_) for $writer, $second;
	my @faults = grep { $_ ne '1000' } result($reader);
	$_->quit for $writer, $reader, $second;
	return @faults, faults($node);
});

for my $how ('an error', 'a crash')
{
	race("$how between the halves of a split, and the next writers", sub {
		create(1000);
		my $fill = q{DO $$ BEGIN FOR i IN 1..300 LOOP INSERT INTO t VALUES (i, 'n'); COMMIT; END LOOP; END $$};
		if ($how eq 'an error')
		{
			my (undef, undef, $err) = $node->psql('postgres', "LOAD 'steady'; SET steady.debug_fail = 'split'; $fill");
			$err =~ /failed at "split"/ or die "no failure: $err";
		}
		else
		{
			my $writer = session($node);
			stop_at($node, $writer, 'split', $fill);
			$node->safe_psql('postgres', 'INSERT INTO other VALUES (1)');  # all that was logged is on disk
			$node->stop('immediate');
			$node->start;
		}
		my $incomplete = q{SELECT count(*) FROM generate_series(1, pg_relation_size('t_i') / 8192 - 1) b, steady_page_header('t_i', b) h
			WHERE 'incomplete_split' = ANY (h.flags)};
		my @faults = faults($node);
		$node->safe_psql('postgres', $incomplete) eq '1' or die 'no split is incomplete';
		$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 2 = 0; VACUUM t');
		push @faults, faults($node);
		$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'm' FROM generate_series(1, 300) i");
		push @faults, 'the split stays incomplete' if $node->safe_psql('postgres', $incomplete) ne '0';
		return @faults, faults($node);
	});
}

# ---- unlinking

guarded('unlink_recheck', 'an insert into a page that is about to be unlinked', sub {
	create(3000);
	my (undef, $high) = second_leaf(session($node));
	$node->safe_psql('postgres', "DELETE FROM t WHERE id <= $high");
	my $vacuum = session($node);
	stop_at($node, $vacuum, 'unlink', 'VACUUM t');
	$node->safe_psql('postgres', q{INSERT INTO t VALUES (10, 'alive')});
	release();
	result($vacuum);
	$vacuum->quit;
	return faults($node);
});

race('a split of the left sibling of a page that is about to be unlinked', sub {
	create(3000);
	my $session = session($node);
	my ($low, $high) = second_leaf($session);
	$node->safe_psql('postgres', "DELETE FROM t WHERE id BETWEEN $low AND $high");
	stop_at($node, $session, 'unlink', 'VACUUM t');
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'n' FROM generate_series(1, $low - 1) i");
	release();
	result($session);
	my @faults = faults($node);
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'n' FROM generate_series($low - 1, $high + 1) i");
	$session->quit;
	return @faults, faults($node);
});

race('an insert into a page that is being unlinked, and a scan that comes by', sub {
	create(3000);
	my ($vacuum, $writer, $scan) = map { session($node) } 1 .. 3;
	my ($low, $high) = second_leaf($vacuum);
	$node->safe_psql('postgres', "DELETE FROM t WHERE id BETWEEN $low AND $high");
	stop_at($node, $vacuum, 'unlink-locked', 'VACUUM t');
	settle($node, $writer, "INSERT INTO t VALUES ($low + 10, 'alive')") or die 'the writer does not wait';
	settle($node, $scan, 'SELECT count(pad) FROM t WHERE id > 0') or die 'the scan does not wait';
	release();
	result($_) for $vacuum, $writer;
	my $rows = result($scan);
	my $expected = 3000 - ($high - $low + 1);
	$_->quit for $vacuum, $writer, $scan;
	return ($rows == $expected ? () : "$rows rows"), faults($node);
});

guarded('unlink_cleanup', 'a page is emptied on which an index-only scan stands', sub {
	create(3000);
	my ($scan, $vacuum) = map { session($node) } 1, 2;
	my ($low) = second_leaf($scan);
	$node->safe_psql('postgres', "DELETE FROM t WHERE id < $low");
	$scan->query('SET steady.kill = off');
	stop_at($node, $scan, 'leaf-read', "SELECT count(*) FROM t WHERE id < $low");
	look("id <= $low");
	must_be('entries <= 3000 - ' . ($low - 1));
	my $waits = settle($node, $vacuum, 'VACUUM t');
	release();
	my $rows = result($scan);
	result($vacuum);
	$_->quit for $scan, $vacuum;
	return ($rows eq '0' ? () : "$rows rows"), ($waits ? () : 'VACUUM did not wait'), faults($node);
});

# Of the lowest inner pages, the second one's rows were deleted before the old snapshot was taken, and those of the third
# one after it; the latter is flagged. VACUUM empties the children of the second. The last one that it has can't go before
# the page itself has gone, and handed it to the third: there it stands, empty, when a row comes in.
sub handed_child
{
	my ($node) = @_;
	create(600, key => $wide);
	my ($low, $high, $end, $children) = split /\|/, $node->safe_psql('postgres', <<'SQL');
SELECT min(id) FILTER (WHERE n = 1), min(id) FILTER (WHERE n = 2), min(id) FILTER (WHERE n = 3), min(entries) FILTER (WHERE n = 2)
FROM (SELECT row_number() OVER (ORDER BY h.high) AS n, substring(h.high FROM '\d{4}')::int AS id, h.entries
	FROM generate_series(1, pg_relation_size('t_i') / 8192 - 1) b, steady_page_header('t_i', b) h
	WHERE h.level = 1 AND h.high IS NOT NULL) page
SQL
	$node->safe_psql('postgres', "DELETE FROM t WHERE id >= $low AND id < $high");
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', "DELETE FROM t WHERE id >= $high AND id < $end");
	look(sprintf "$wide BETWEEN '%04d' AND '%04d'", $high, $end);
	$node->safe_psql('postgres', q{SELECT sum(killed) FROM generate_series(1, pg_relation_size('t_i') / 8192 - 1) b,
		steady_page_header('t_i', b) h WHERE level > 1 AND NOT 'deleted' = ANY (flags)}) eq '1' or die 'no inner page is flagged';
	my $vacuum = session($node);
	# One pass for each child, the last one twice, and one for the page
	stop_at($node, $vacuum, 'unlink:' . ($children + 2), 'VACUUM t');
	must_be("deleted_pages = $children");
	return ($old, $vacuum, $low + 1);
}

guarded('handed_child', 'a child comes to a page that is flagged', sub {
	my ($old, $vacuum, $id) = handed_child($node);
	$node->safe_psql('postgres', "INSERT INTO t VALUES ($id, 'alive')");
	release();
	result($vacuum);
	my @faults = faults($node);
	$_->quit for $old, $vacuum;
	return @faults;
});

# ---- VACUUM's walk

guarded('vacuum_links', 'the next leaf of its walk becomes another one', sub {
	create(8000);
	my $vacuum = session($node);
	my ($low, $high, $block) = second_leaf($vacuum);
	$node->safe_psql('postgres', "DELETE FROM t WHERE id BETWEEN $low AND $high OR id % 2 = 0");
	stop_at($node, $vacuum, 'vacuum-link', 'VACUUM t');
	look("id BETWEEN $low AND $high");
	must_be('deleted_pages = 1');
	$node->safe_psql('postgres', 'INSERT INTO other VALUES (1)') for 1, 2;
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'n' FROM generate_series(8001, 9000) i");
	must_be('deleted_pages = 0');
	release();
	result($vacuum);
	$vacuum->quit;
	return faults($node);
});

race('leaves split before and behind its walk', sub {
	create(3000);
	my $vacuum = session($node);
	my ($low, $high) = second_leaf($vacuum);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 3 = 0');
	stop_at($node, $vacuum, 'vacuum-link', 'VACUUM t');
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'n' FROM generate_series(1, $high) i ORDER BY i * 7919 % ($high + 1)");
	release();
	result($vacuum);
	$vacuum->quit;
	return faults($node);
});

# ---- the unique check

sub duplicates
{
	my ($key) = @_;
	my $rows = $node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;"
		. " SELECT count(*) FROM t WHERE id = $key");
	return $rows == 1 ? () : "$rows rows have the key", ;
}

guarded('first_leaf', 'another one comes between check and insert', sub {
	create(1000, unique => 1);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 500');
	my ($first, $second) = map { session($node) } 1, 2;
	stop_at($node, $first, 'unique-checked', q{INSERT INTO t VALUES (500, 'first')});
	my $waits = settle($node, $second, q{INSERT INTO t VALUES (500, 'second')});
	release();
	result($_) for $first, $second;
	$_->quit for $first, $second;
	return duplicates(500), ($waits ? () : 'the second did not wait'), faults($node);
});

# Under many dead ones of the key, over several pages, in front of which the check begins
race('two inserters of a key that has pages of dead entries', sub {
	create(1000, unique => 1, key => "lpad(id::text, 12, '0')");
	my $old = session($node, $old_snapshot);
	$node->safe_psql('postgres', q{DO $$ BEGIN FOR i IN 1..2000 LOOP DELETE FROM t WHERE id = 500; COMMIT; INSERT INTO t VALUES (500, 'n'); COMMIT; END LOOP; END $$;
		DELETE FROM t WHERE id = 500});
	must_be('killed > 500 AND leaf_pages > 6');
	my ($first, $second) = map { session($node) } 1, 2;
	stop_at($node, $first, 'unique-checked', q{INSERT INTO t VALUES (500, 'first')});
	settle($node, $second, q{INSERT INTO t VALUES (500, 'second')}) or die 'the second does not wait';
	release();
	result($_) for $first, $second;
	$_->quit for $old, $first, $second;
	return duplicates(500), faults($node);
});

guarded('check_again', 'a third one takes the place of the one that was waited for', sub {
	create(1000, unique => 1);
	my ($first, $second) = map { session($node) } 1, 2;
	$first->query(q{BEGIN; INSERT INTO t VALUES (5000, 'first')});
	stop_at($node, $second, 'unique-waited', q{INSERT INTO t VALUES (5000, 'second')}, sub { $first->query('ROLLBACK') });
	$node->safe_psql('postgres', q{INSERT INTO t VALUES (5000, 'third')});
	release();
	result($second);
	$_->quit for $first, $second;
	return duplicates(5000), faults($node);
});

# The expression holds the second pass of the build between the row that the first has missed and its entry.
guarded('own_row', 'a row of a concurrent build is replaced by another one of its key', sub {
	$node->safe_psql('postgres', <<'SQL');
DROP TABLE IF EXISTS t;
CREATE OR REPLACE FUNCTION held(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF k = 5 AND current_setting('held.here', true) = 'yes' THEN
		PERFORM pg_advisory_xact_lock(1);
	END IF;
	RETURN k;
END $$;
CREATE TABLE t (id int, pad text);
INSERT INTO t VALUES (1, 'old'), (2, 'old');
SQL
	my ($first, $builder, $third, $holder) = map { session($node) } 1 .. 4;
	$holder->query('SELECT pg_advisory_lock(1)');
	$first->query(q{BEGIN; INSERT INTO t VALUES (3, 'first')});
	$builder->query(q{SET held.here = 'yes'; SET client_min_messages = error});
	background($builder, 'CREATE UNIQUE INDEX CONCURRENTLY t_i ON t USING steady (held(id))');
	blocked($node, $builder, $first);
	$third->query(q{BEGIN; INSERT INTO t VALUES (4, 'third'), (5, 'third'), (6, 'third')});
	$first->query('COMMIT');
	blocked($node, $builder, $third);
	$third->query('COMMIT');
	blocked($node, $builder, $holder);
	$first->query('DELETE FROM t WHERE id = 5');
	$first->query(q{INSERT INTO t VALUES (5, 'first')});
	$holder->query('SELECT pg_advisory_unlock(1)');
	my @faults = grep { $_ ne '' } result($builder);
	$_->quit for $first, $builder, $third, $holder;
	return @faults, faults($node);
});

# ---- serializable transactions

guarded('empty_again', 'write skew over an index that has no entry yet', sub {
	create(0);
	my @both = map { session($node, 'BEGIN ISOLATION LEVEL SERIALIZABLE') } 1, 2;
	stop_at($node, $both[0], 'empty-index', 'SELECT count(pad) FROM t WHERE id BETWEEN 1 AND 100');
	$both[1]->query('SELECT count(pad) FROM t WHERE id BETWEEN 1 AND 100') eq '0' or die 'rows are there';
	$both[1]->query(q{INSERT INTO t VALUES (50, 'skew'); COMMIT});
	release();
	result($both[0]) =~ /^0\b|could not serialize/ or die 'rows are there';
	$both[0]->query(q{INSERT INTO t VALUES (60, 'skew')});
	$both[0]->query('COMMIT');
	$_->quit for @both;
	my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM t');
	return $rows eq '1' ? () : 'both filled the empty index';
});

# ---- a tree of four levels with runs of dead entries, at each point, while others write and read all over it

my $read = "SELECT count(pad) FROM t WHERE $wide > '0'";
for my $case (
	[ 'stamp', $read, 2, 5, 12 ],
	[ 'flag', $read, 2, 5, 12 ],
	[ 'unlink', $read, 1, 2, 3 ],
	[ 'unlink-locked', $read, 1, 2, 3 ],
	[ 'insert', q{INSERT INTO t SELECT i, 'n' FROM generate_series(10, 490, 10) i}, 2, 5, 12 ],
	[ 'split', q{INSERT INTO t SELECT i, 'n' FROM generate_series(10, 490, 2) i}, 1, 4, 9 ])
{
	my ($point, $sql, @passes) = @$case;
	for my $pass (is_long() ? @passes : $passes[1])
	{
		race("reads and writes all over a tree at $point, pass $pass", sub {
			create(600, key => $wide);
			my $old = session($node, $old_snapshot);
			$node->safe_psql('postgres', 'DELETE FROM t WHERE id BETWEEN 6 AND 494');
			look("$wide > '0'") if $point !~ /stamp|flag/;
			$old->query("COMMIT; $old_snapshot") if $point =~ /unlink/;
			my ($first, $forward, $backward, @writers) = map { session($node, 'SET enable_sort = off') } 1 .. 8;
			stop_at($node, $first, "$point:$pass", $sql);
			for my $i (0 .. $#writers)
			{
				settle($node, $writers[$i], "INSERT INTO t SELECT i, 'n' FROM generate_series(20 + 95 * $i, 32 + 95 * $i) i");
			}
			settle($node, $forward, "SELECT count(pad) FROM (SELECT pad FROM t ORDER BY $wide) o");
			settle($node, $backward, "SELECT count(pad) FROM (SELECT pad FROM t ORDER BY ($wide) DESC) o");
			release();
			my @sessions = ($first, $forward, $backward, @writers);
			my @faults = grep { !/^\d*$/ } map { result($_) } @sessions;
			push @faults, grep { $_ ne '' } scalar $old->query('SELECT st.differences(i) FROM st.index i');
			push @faults, faults($node);
			look("$wide > '0'");
			$_->quit for $old, @sessions;
			return @faults, faults($node);
		});
	}
}

# ---- a standby that is promoted while its primary stands there

for my $case ('between the halves of a split', 'between the unlinking of an inner page and that of its child')
{
	race("promoted $case", sub {
		my $splits = $case =~ /split/;
		my $standby = start_standby($node, $splits ? 'promoted_split' : 'promoted_unlink');
		my @sessions;
		if ($splits)
		{
			create(1000);
			@sessions = session($node);
			stop_at($node, $sessions[0], 'split', q{DO $$ BEGIN FOR i IN 1..300 LOOP INSERT INTO t VALUES (i, 'n'); COMMIT; END LOOP; END $$});
		}
		else
		{
			@sessions[ 0, 1 ] = handed_child($node);
		}
		$node->safe_psql('postgres', 'INSERT INTO other VALUES (1)');  # all that was logged is on disk
		replayed($node, $standby);
		$standby->promote;
		my $undone = $splits ? q{'incomplete_split' = ANY (h.flags)} : q{h.level = 0 AND h.entries = 0 AND NOT 'deleted' = ANY (h.flags)};
		$undone = qq{SELECT count(*) FROM generate_series(1, pg_relation_size('t_i') / 8192 - 1) b, steady_page_header('t_i', b) h WHERE $undone};
		$standby->safe_psql('postgres', $undone) eq '1' or die 'nothing is left to do';
		# Scans come by later: they would unlink the page.
		my (undef, undef, @faults) = $standby->psql('postgres', q{SELECT steady_verify('t_i', true)});
		push @faults, faults($standby);
		$standby->safe_psql('postgres', $splits ? q{INSERT INTO t SELECT i, 'm' FROM generate_series(1, 300) i} : 'VACUUM t');
		push @faults, 'it stays undone' if $standby->safe_psql('postgres', $undone) ne '0';
		push @faults, faults($standby);
		$standby->safe_psql('postgres', q{INSERT INTO t SELECT i, 'm' FROM generate_series(1, 600) i; DELETE FROM t WHERE id % 3 = 0; VACUUM t});
		push @faults, faults($standby);
		$standby->stop;
		release();
		result($sessions[-1]);
		$_->quit for @sessions;
		return @faults, faults($node);
	});
}

$node->stop;
is(join("\n", log_lines($node, qr/PANIC|TRAP/)), '', 'no complaints in the log');
done_testing();

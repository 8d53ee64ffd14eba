# Entries of dead rows cost a scan nothing once they were looked at, whoever holds the horizon; who holds it sees all of
# its rows; and once it is let go the entries and their pages go without VACUUM.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $dead = is_long() ? 200_000 : 20_000;
my $live = 2000;
my $rows = $dead + $live;
my $rounds = is_long() ? 100 : 5;

my $node = new_node('main', "max_prepared_transactions = 2\nshared_buffers = 128MB", allows_streaming => 1);
$node->start;
prepare($node);

# The rows to die are the first by id, the last by back, in the middle by mid; in u they are updated instead.
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE none (i int);
CREATE INDEX none_i ON none USING steady (i);
CREATE PROCEDURE fill() LANGUAGE plpgsql AS \$\$
BEGIN
	DROP TABLE IF EXISTS q, u;
	CREATE TABLE q (id int, back int, mid int, pad text);
	INSERT INTO q SELECT i, -i, CASE WHEN i <= $dead THEN i + 1000 WHEN i <= $dead + 1000 THEN i - $dead ELSE i END, 'p'
	FROM generate_series(1, $rows) i;
	CREATE INDEX q_id ON q USING steady (id);
	CREATE INDEX q_back ON q USING steady (back);
	CREATE INDEX q_mid ON q USING steady (mid) INCLUDE (id);
	CREATE TABLE u (id int, state int, priority int, pad text);
	INSERT INTO u SELECT i, 0, i / 5000, 'p' FROM generate_series(1, $rows) i;
	CREATE INDEX u_ready ON u USING steady (id) WHERE state = 0;
	CREATE INDEX u_state ON u USING steady (state, priority, id);
	ANALYZE q, u;
END \$\$;
-- Kills rows in transactions of 100.
CREATE PROCEDURE kill(first int, last int) LANGUAGE plpgsql AS \$\$
BEGIN
	FOR i IN first..last BY 100 LOOP
		DELETE FROM q WHERE id BETWEEN i AND i + 99;
		UPDATE u SET state = 1 WHERE state = 0 AND id BETWEEN i AND i + 99;
		COMMIT;
	END LOOP;
END \$\$;
SQL

# Each with the index it goes by, the number of rows that it yields and the first of them
my %query = (
	'head'           => [ 'q_id',    "SELECT id, pad FROM q ORDER BY id LIMIT 1", 1, $dead + 1 ],
	'index-only'     => [ 'q_id',    "SELECT id FROM q ORDER BY id LIMIT 1", 1, $dead + 1 ],
	'backward'       => [ 'q_back',  "SELECT -back, pad FROM q ORDER BY back DESC LIMIT 1", 1, $dead + 1 ],
	'across'         => [ 'q_mid',   "SELECT id, pad FROM q WHERE mid > 990 ORDER BY mid LIMIT 20", 20, $dead + 991 ],
	'backward across' => [ 'q_mid',  "SELECT id, pad FROM q WHERE mid <= $dead + 1010 ORDER BY mid DESC LIMIT 20", 20, $dead + 1010 ],
	'partial'        => [ 'u_ready', "SELECT id, pad FROM u WHERE state = 0 ORDER BY id LIMIT 1", 1, $dead + 1 ],
	'composite'      => [ 'u_state', "SELECT id, pad FROM u WHERE state = 0 ORDER BY priority, id LIMIT 1", 1, $dead + 1 ],
);
my @indexes = qw(q_id q_back q_mid u_ready u_state);
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;';

# The node of a plan that scans an index
sub index_node
{
	my ($plan) = @_;
	return $plan if $plan->{'Index Name'};
	return map { index_node($_) } @{ $plan->{Plans} // [] };
}

# How many pages a query touches, each time that one session runs it
sub pages
{
	my ($name, $times) = @_;
	my ($index, $query) = @{ $query{$name} };
	# What a session reads of the catalogs once is not counted.
	my $out = $node->safe_psql('postgres', "$by_index SELECT i FROM none ORDER BY i LIMIT 1;" . "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) $query;" x $times);
	my @pages;
	for my $plan (split /^\](?:\n|$)/m, $out)
	{
		my ($scan) = index_node(decode_json("$plan]")->[0]{Plan});
		is($scan->{'Index Name'}, $index, "$name: goes by $index") unless @pages;
		push @pages, $scan->{'Shared Hit Blocks'} + $scan->{'Shared Read Blocks'};
	}
	return @pages;
}

sub stat_of
{
	my ($index, $column) = @_;
	return $node->safe_psql('postgres', "SELECT $column FROM steady_stats('$index')");
}

sub verified
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($status, $out, $err) = $node->psql('postgres', 'SELECT steady_verify(index, true) FROM st.index');
	ok($status == 0, "$what: verified") || diag $err;
}

# What scans of any kind find and a sequential scan doesn't, in a session's own snapshot
sub holder_sees
{
	my ($session, $what, $count) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $out = $session->query('SELECT st.differences(i) FROM st.index i;') // 'no answer';
	is($out, '', "$what: the holder's scans find what a sequential scan finds");
	return unless defined $count;
	is($session->query('SELECT (SELECT count(*) FROM q) || $$ $$ || (SELECT count(*) FROM u WHERE state = 0)'), "$count $count",
		"$what: the holder has its rows");
}

sub session
{
	my ($begin, $on) = @_;
	my $session = ($on // $node)->background_psql('postgres', on_error_stop => 0);
	$session->query($begin);
	return $session;
}

# All queries find the first live row behind the dead, and all but the first touch few pages.
sub dead_cost_nothing
{
	my ($holder) = @_;
	for my $name (sort keys %query)
	{
		my ($index, $query, $count, $first) = @{ $query{$name} };
		my $seen = stat_of($index, 'flagged_children > 0');
		my @pages = pages($name, 3);
		note "$holder, $name: pages @pages";
		if ($seen eq 'f' && $name ne 'across')
		{
			cmp_ok($pages[0], '>', 20, "$holder, $name: the first scan looks at the dead");
		}
		cmp_ok($pages[1], '<=', 20, "$holder, $name: the second touches few pages");
		cmp_ok($pages[2], '<=', 20, "$holder, $name: the third, too");
		cmp_ok((pages($name, 1))[0], '<=', 20, "$holder, $name: and the first of a new session");
		my @found = split /\n/, $node->safe_psql('postgres', "$by_index $query");
		is(scalar @found, $count, "$holder, $name: yields its rows");
		like($found[0], qr/^$first\b/, "$holder, $name: the right ones");
		is(stat_of($index, 'killed > 0 AND flagged_children > 0'), 't', "$holder, $name: stamps and flags");
	}
	for my $index (@indexes)
	{
		cmp_ok(stat_of($index, 'killed'), '>=', 0.95 * $dead, "$holder: the dead of $index are stamped");
	}
	verified($holder);
}

# With nobody left who needs them, the dead and their pages go, and a queue that goes on needs no more space.
sub dead_go
{
	my ($holder) = @_;
	my %limit = map { $_ => ($_ eq 'u_state' ? $rows : $live) / 100 + 8 } @indexes;
	for my $name (sort keys %query)
	{
		my ($index, $query) = @{ $query{$name} };
		for my $try (1 .. $dead / 50)
		{
			last if stat_of($index, 'leaf_pages') <= $limit{$index};
			$node->safe_psql('postgres', "$by_index " . "$query;" x 5);
		}
	}
	cmp_ok(stat_of($_, 'leaf_pages'), '<=', $limit{$_}, "$holder is gone: the dead pages of $_ go") for @indexes;

	my %blocks;
	my $head = 'SELECT id FROM q ORDER BY id LIMIT 1; SELECT back FROM q ORDER BY back DESC LIMIT 1;'
		. ' SELECT id FROM u WHERE state = 0 ORDER BY id LIMIT 1; SELECT id FROM u WHERE state = 0 ORDER BY priority, id LIMIT 1;';
	for my $round (0 .. 2 * $rounds - 1)
	{
		%blocks = map { $_ => stat_of($_, 'blocks') } @indexes if $round == $rounds;
		my ($from, $next) = ($dead + 1 + 1000 * $round, $rows + 1 + 1000 * $round);
		$node->safe_psql('postgres', <<"SQL" . $by_index . $head x 5);
INSERT INTO q SELECT i, -i, i, 'p' FROM generate_series($next, $next + 999) i;
INSERT INTO u SELECT i, 0, i / 5000, 'p' FROM generate_series($next, $next + 999) i;
CALL kill($from, $from + 999);
SQL
	}
	cmp_ok(stat_of($_, 'blocks'), '<=', $blocks{$_} + 2, "$holder is gone: $_ needs no more space") for qw(q_id q_back u_ready);
	indexes_ok($node, "$holder is gone, after more rounds", 5);
}

my $half = $dead / 2;
sub kill_rows
{
	my ($first, $last) = @_;
	$node->safe_psql('postgres', "CALL kill($first, $last)");
}

# ---- an idle reader

$node->safe_psql('postgres', 'CALL fill()');
my $reader = session('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM q LIMIT 1');
kill_rows(1, $half);
holder_sees($reader, 'half of the rows deleted', $rows);
# It looks at the dead while they are stamped bit by bit.
for my $at (map { $_ * $dead / 10 } 2, 4)
{
	$node->safe_psql('postgres', "$by_index SELECT count(pad) FROM q WHERE id <= $at; SELECT count(pad) FROM q WHERE mid <= $at;"
		. "SELECT count(pad) FROM u WHERE state = 0 AND id <= $at");
	holder_sees($reader, "stamped up to $at", $rows);
}
kill_rows($half + 1, $dead);
dead_cost_nothing('reader');
holder_sees($reader, 'all stamped', $rows);
$node->safe_psql('postgres', "INSERT INTO q SELECT i, -i, i + 1000, 'again' FROM generate_series(1, $half, 7) i");
holder_sees($reader, 'new rows among the dead', $rows);
indexes_ok($node, 'new rows among the dead', 5);
$node->safe_psql('postgres', "DELETE FROM q WHERE pad = 'again'");
holder_sees($reader, 'and deleted again', $rows);
$reader->query('COMMIT');
dead_go('reader');
$reader->quit;

# ---- writers: one from before, one that takes its xid in the middle

$node->safe_psql('postgres', 'CALL fill()');
my @writers = map { session('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0') } 1 .. 2;
$writers[0]->query('SELECT pg_current_xact_id()');
kill_rows(1, $half);
$writers[1]->query('SELECT pg_current_xact_id()');
$node->safe_psql('postgres', "$by_index $query{head}[1]");
kill_rows($half + 1, $dead);
dead_cost_nothing('writers');
holder_sees($writers[1], 'a writer', $live);
$_->query('COMMIT') for @writers;
dead_go('writers');
$_->quit for @writers;

# ---- a prepared transaction

$node->safe_psql('postgres', 'CALL fill()');
$node->safe_psql('postgres', "CREATE TABLE other (i int); BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION 'holder'");
kill_rows(1, $dead);
dead_cost_nothing('prepared');
is($node->safe_psql('postgres', 'SELECT st.differences(i) FROM st.index i'), '', 'prepared: scans find what a sequential scan finds');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'holder'");
dead_go('prepared');

# ---- a standby with feedback

$node->safe_psql('postgres', 'CALL fill()');
my $standby = start_standby($node, 'standby', "hot_standby_feedback = on\nwal_receiver_status_interval = 1s");
replayed($node, $standby);
$node->poll_query_until('postgres', 'SELECT backend_xmin IS NOT NULL FROM pg_stat_replication') or die 'no feedback';
my $there = session('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM q LIMIT 1', $standby);
kill_rows(1, $dead);
dead_cost_nothing('standby');
$node->safe_psql('postgres', "$by_index SELECT count(pad) FROM q WHERE id > 0; SELECT count(pad) FROM q WHERE mid > 0;" x 2);
replayed($node, $standby);
holder_sees($there, 'standby', $rows);
# What it finds out itself is used by its newer snapshots, and not by this one.
is($standby->safe_psql('postgres', "$by_index SELECT count(pad) FROM q WHERE id > 0"), $live, 'standby: a new snapshot has the rest') for 1 .. 2;
holder_sees($there, 'standby, stamped there', $rows);
$there->query('COMMIT');
$there->quit;
$standby->stop;
$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_replication') or die 'the standby stays';
dead_go('standby');
$standby->start;
replayed($node, $standby);
is($standby->safe_psql('postgres', 'SELECT st.differences(i) FROM st.index i'), '', 'standby: scans find what a sequential scan finds');
$standby->stop;

# ---- leaves that keep a few rows: what was stamped under a snapshot goes with the first scan after it

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE sparse (id int, pad text);
CREATE INDEX sparse_word ON sparse USING steady (id, (hashint8extended(id, 0)));  -- wide: a page has a few hundred
CREATE INDEX sparse_tuple ON sparse USING steady ((id + 0)) WITH (codec = tuple);
INSERT INTO sparse SELECT i, 'p' FROM generate_series(1, 10000) i;
SQL
my $sparse = "SET default_transaction_read_only = on; $by_index SELECT count(pad) FROM sparse WHERE id > 0; SELECT count(pad) FROM sparse WHERE id + 0 > 0";
my $snapshot = session('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$node->safe_psql('postgres', "DELETE FROM sparse WHERE id % 10 > 0 OR id BETWEEN 3001 AND 4200; $sparse; $sparse");
for my $index (qw(sparse_word sparse_tuple))
{
	is(stat_of($index, 'entries = 10000 AND killed = 9120 AND leaf_pages > 8 AND flagged_children > 0'), 't', "$index: stamped under a snapshot");
}
$snapshot->query('COMMIT');
$snapshot->quit;
is($node->safe_psql('postgres', $sparse), "880\n880", 'the rows among the dead');
for my $index (qw(sparse_word sparse_tuple))
{
	is(stat_of($index, 'entries = 880 AND killed = 0 AND deleted_pages > 0'), 't', "$index: one scan takes the dead and their pages")
	  || diag stat_of($index, "steady_stats('$index')");
}
verified('sparse');

# ---- cursors

$node->safe_psql('postgres', 'CALL fill()');
my $owner = session("BEGIN; $by_index DECLARE by_id SCROLL CURSOR FOR SELECT id, pad FROM q ORDER BY id;"
	. ' DECLARE by_back CURSOR FOR SELECT back FROM q ORDER BY back; DECLARE by_state SCROLL CURSOR FOR SELECT id, pad FROM u WHERE state = 0 ORDER BY id');
sub moved
{
	my ($what, $command, $count) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	# psql says nothing of MOVE in quiet mode; rows can be counted.
	my @lines = split /\n/, $owner->query($command);
	is(scalar @lines, $count, "$what: $command");
	return \@lines;
}
moved('before', 'FETCH 100 FROM by_id', 100);
moved('before', 'FETCH 100 FROM by_back', 100);
kill_rows(1, $half);
is(moved('half deleted', 'FETCH 1000 FROM by_id', 1000)->[-1], '1100|p', '... in order');
is(moved('half deleted', 'FETCH 1000 FROM by_state', 1000)->[-1], '1000|p', '... in order');
$node->safe_psql('postgres', "$by_index $query{$_}[1]") for sort keys %query;
moved('half stamped', 'FETCH 1000 FROM by_back', 1000);
is(moved('half stamped', 'FETCH BACKWARD 500 FROM by_id', 500)->[-1], '600|p', '... in order');
kill_rows($half + 1, $dead);
dead_cost_nothing('cursor');
is(moved('all stamped', 'FETCH ALL FROM by_id', $rows - 600)->[0], '601|p', '... in order');
moved('all stamped', 'FETCH ALL FROM by_back', $rows - 1100);
moved('all stamped', 'FETCH ALL FROM by_state', $rows - 1000);
moved('all stamped', 'FETCH BACKWARD ALL FROM by_id', $rows);
moved('all stamped', 'FETCH BACKWARD ALL FROM by_state', $rows);
$owner->query('COMMIT');
dead_go('cursor');
$owner->quit;

is(join("\n", log_lines($node, qr/PANIC|TRAP|is damaged/)), '', 'no complaints in the log');
$node->stop;
done_testing();

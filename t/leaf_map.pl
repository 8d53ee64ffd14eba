# Look-ups and inserts that go straight to a leaf by what their session saw earlier, while others split, unlink and use
# again what they would find there. (A debug build's; see t/guards.pl.)
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Debug;
use Steady::Test;

my $node = debug_node('main');
my $rows = 8000;
my @words = (with => 'codec = auto');  # maps lead to leaves of words

# Look-ups of all ids in random order, many times as many as a session needs to know its way
my $look_up = 'SELECT count(t.pad), sum(t.id) FROM (SELECT g FROM generate_series(-10, 20000) g ORDER BY hashint4(g)) g JOIN t ON t.id = g.g';
my $sequential = "SET enable_seqscan = on; SET enable_indexscan = off; SELECT count(pad), sum(id) FROM t";

sub looker
{
	my $session = session($node, 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off;');
	$session->query($look_up);
	return $session;
}

# What is wrong with what the session finds.
sub wrong
{
	my ($session, $when) = @_;
	my $expected = $node->safe_psql('postgres', $sequential);
	my $got = $session->query($look_up);
	return $got eq $expected ? () : "$when: $got, not $expected";
}

sub pages
{
	my ($session) = @_;
	my $plan = join ' ', $session->query('EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT id FROM t WHERE id = 4711');
	my ($pages) = $plan =~ /Buffers: shared hit=(\d+)/ or die $plan;
	return $pages;
}

subtest 'one page of the index is read' => sub {
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int, pad text);
INSERT INTO t SELECT i, 'p' FROM generate_series(1, 60000) i;
CREATE INDEX t_i ON t USING steady (id, (hashint8extended(id, 0))) WITH (fillfactor = 10, codec = auto);
SQL
	must_be('levels = 3');
	my ($known, $new) = (looker(), session($node));
	$known->query($_) for 'SELECT id FROM t WHERE id = 4711', 'SELECT id FROM t WHERE id = 4711';
	$new->query($_) for 'SELECT id FROM t WHERE id = 4711', 'SELECT id FROM t WHERE id = 4711';
	is(pages($new) - pages($known), 2, 'and not two more');
	$_->quit for $known, $new;
};

for my $kind ('', 'UNLOGGED')
{
	guarded('map_fences', "$kind leaves are split, unlinked, and used for other keys", sub {
		create($rows, @words, kind => $kind);
		my $session = looker();
		# What is wrong is so by far: one look is enough.
		my @wrong = wrong($session, 'at first');
		for my $step (
			[ 'split', "INSERT INTO t SELECT i, 'n' FROM generate_series(1, $rows, 2) i" ],
			[ 'unlinked', 'DELETE FROM t WHERE id BETWEEN 1000 AND 7000; VACUUM t' ],
			[ 'used again', "INSERT INTO other VALUES (1); INSERT INTO t SELECT i, 'n' FROM generate_series(8001, 16000) i" ],
			[ 'and once more', "INSERT INTO t SELECT i, 'n' FROM generate_series(2000, 6000) i" ])
		{
			last if @wrong;
			$node->safe_psql('postgres', $_) for split /; /, $step->[1];
			must_be('deleted_pages > 5') if $step->[0] eq 'unlinked';
			push @wrong, wrong($session, $step->[0]);
		}
		$session->quit;
		return @wrong, faults($node);
	});
}

race('the leaf is unlinked on the way there, and its neighbour splits', sub {
	create($rows, @words);
	my $session = looker();
	my ($low, $high) = second_leaf($session);
	$node->safe_psql('postgres', "DELETE FROM t WHERE id BETWEEN $low AND $high");
	stop_at($node, $session, 'map-read', "SELECT id FROM t WHERE id BETWEEN $low + 1 AND $high + 5");
	$node->safe_psql('postgres', 'VACUUM t');
	must_be('deleted_pages = 1');
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'n' FROM generate_series($low, 2 * $high) i");
	release();
	my $found = join ' ', split /\n/, result($session);
	my $expected = join ' ', map { $high + $_ } 1 .. 5;
	my @wrong = wrong($session, 'afterwards');
	$session->quit;
	return ($found eq $expected ? () : "found $found"), @wrong, faults($node);
});

race('the way was learned while pages were flagged, and rows come into them', sub {
	create($rows, @words);
	my $old = session($node, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT min(i) FROM other');
	$node->safe_psql('postgres', "DELETE FROM t WHERE id BETWEEN 100 AND $rows - 100");
	look();
	must_be('flagged_children > 5');
	my $session = looker();
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 'n' FROM generate_series(100, $rows, 50) i");
	my @wrong = wrong($session, 'rows came');
	$_->quit for $old, $session;
	return @wrong, faults($node);
});

# ---- inserts

for my $unique (0, 1)
{
	race('inserts into leaves that others change' . ($unique ? ', unique' : ''), sub {
		create($rows, @words, unique => $unique);
		my @sessions = map { looker() } 1, 2;
		my $n = 0;
		for my $round (1 .. 4)
		{
			for my $session (@sessions)
			{
				$n++;
				$session->query("INSERT INTO t SELECT i * 8 + 10000 + $n, 'n' FROM generate_series(1, 600) i ORDER BY hashint4(i)");
			}
			$node->safe_psql('postgres', "DELETE FROM t WHERE id % 1000 > 300 AND id % 8 = $round; VACUUM t");
		}
		my @wrong = map { wrong($_, 'inserted') } @sessions;
		if ($unique)
		{
			my $error = do { $sessions[0]->{stderr} = ''; $sessions[0]->query("INSERT INTO t VALUES (300, 'again')"); $sessions[0]->{stderr} };
			push @wrong, 'a duplicate was let in' if $error !~ /duplicate key/;
		}
		$_->quit for @sessions;
		return @wrong, faults($node);
	});
}

# ---- files that get shorter in place

subtest 'a table is emptied in the transaction that made it' => sub {
	my $session = session($node, 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off; SET client_min_messages = warning');
	for my $table ('CREATE TABLE x (id int, pad text)', 'CREATE TEMP TABLE x (id int, pad text) ON COMMIT DELETE ROWS')
	{
		my $fill = sub { "INSERT INTO x SELECT i, 'p' FROM generate_series(1, $_[0]) i" };
		my $all = $look_up =~ s/\bt\b/x/gr;
		$session->query($table =~ /TEMP/ ? "$table; CREATE INDEX x_i ON x USING steady (id) WITH (fillfactor = 10, codec = auto); BEGIN"
			: "BEGIN; $table; CREATE INDEX x_i ON x USING steady (id) WITH (fillfactor = 10, codec = auto)");
		my @found;
		for my $count (15000, 10, 2000, 0, 9000)
		{
			$session->query($fill->($count)) if $count;
			push @found, scalar $session->query($all), $count ? "$count|" . $count * ($count + 1) / 2 : '0|';
			$session->query($table =~ /TEMP/ ? 'COMMIT; BEGIN' : 'TRUNCATE x');
		}
		$session->query('ROLLBACK');
		$session->query('DROP TABLE IF EXISTS x');
		while (my ($got, $expected) = splice @found, 0, 2)
		{
			is($got, $expected, "$table: $expected");
		}
		is($session->{stderr}, '', 'no error');
	}
	$session->quit;
};

$node->stop;
is(join("\n", log_lines($node, qr/PANIC|TRAP/)), '', 'no complaints in the log');
done_testing();

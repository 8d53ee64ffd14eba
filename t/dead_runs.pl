# However many dead entries lie in front of the first live one, or between two live ones, and whoever asks: a query
# touches a handful of pages, and so does its planning, while a snapshot holds the horizon. Queues that delete and queues
# that change an indexed state are alike in this. Each entry is looked at once. (Leaves that are hardly filled make many inner
# pages from few rows.)
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my @sizes = is_long() ? (10_000, 100_000, 1_000_000) : (10_000, 100_000);
my $most = 20;
my $live = 1000;

my $node = new_node('main', "shared_buffers = 512MB\nmax_wal_size = 8GB\nsynchronous_commit = off\nmax_prepared_transactions = 2");
$node->start;
prepare($node);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE none (i int, t text, z timestamptz);
CREATE INDEX none_i ON none USING steady (i);
CREATE INDEX none_t ON none USING steady (t);
CREATE INDEX none_z ON none USING steady (z);
SQL
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;';

# Of q the first rows by id are to die, which are the last by back, and by mid are behind the first 100 of those that
# stay. Of u they change their state.
sub fill
{
	my ($dead) = @_;
	my $rows = $dead + $live;
	$node->safe_psql('postgres', <<"SQL");
DROP TABLE IF EXISTS q, u;
CREATE TABLE q (id int, back int, mid int, t text, pad text);
INSERT INTO q SELECT i, -i, CASE WHEN i <= $dead THEN i + 100 WHEN i <= $dead + 100 THEN i - $dead ELSE i END, 't' || lpad(i::text, 9, '0'), 'p'
FROM generate_series(1, $rows) i;
CREATE UNIQUE INDEX q_id ON q USING steady (id);
CREATE INDEX q_back ON q USING steady (back) WITH (fillfactor = 10);
CREATE INDEX q_mid ON q USING steady (mid) WITH (fillfactor = 10);
CREATE INDEX q_t ON q USING steady (t);
CREATE TABLE u (queue int, id int, state int, priority int, run_at timestamptz, pad text);
INSERT INTO u SELECT 1, i, 0, i / 5000, '2030-01-01'::timestamptz + i * interval '1 second', 'p' FROM generate_series(1, $rows) i;
CREATE INDEX u_ready ON u USING steady (run_at) WHERE state = 0;
CREATE INDEX u_queue ON u USING steady (queue, state, priority, run_at, id);
ANALYZE q, u;
SQL
}

# Each with the index it goes by, and how far behind the dead the id of the first row is that it yields
my %query = (
	'head'                 => [ 'q_id',    'SELECT id, pad FROM q ORDER BY id LIMIT 1', 1 ],
	'head, index-only'     => [ 'q_id',    'SELECT id FROM q ORDER BY id LIMIT 1', 1 ],
	'head, from a key on'  => [ 'q_id',    'SELECT id, pad FROM q WHERE id > 0 ORDER BY id LIMIT 1', 1 ],
	'head, locked'         => [ 'q_id',    'SELECT id, pad FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED', 1 ],
	'head, text'           => [ 'q_t',     'SELECT id, pad FROM q ORDER BY t LIMIT 1', 1 ],
	'backward'             => [ 'q_back',  'SELECT id, pad FROM q ORDER BY back DESC LIMIT 1', 1 ],
	'in the middle'        => [ 'q_mid',   'SELECT id, pad FROM q WHERE mid BETWEEN 91 AND :dead + 100 + 10 ORDER BY mid', 91 ],
	'backward in the middle' => [ 'q_mid', 'SELECT id, pad FROM q WHERE mid BETWEEN 91 AND :dead + 100 + 10 ORDER BY mid DESC', 110 ],
	'partial index'        => [ 'u_ready', 'SELECT id, pad FROM u WHERE state = 0 ORDER BY run_at LIMIT 1', 1 ],
	'composite index'      => [ 'u_queue', 'SELECT id, pad FROM u WHERE queue = 1 AND state = 0 ORDER BY priority, run_at, id LIMIT 1', 1 ],
);

sub index_node
{
	my ($plan) = @_;
	return $plan if $plan->{'Index Name'};
	return map { index_node($_) } @{ $plan->{Plans} // [] };
}

sub blocks { return $_[0]->{'Shared Hit Blocks'} + $_[0]->{'Shared Read Blocks'} }

# What a query touches, in a new session, each of so many times: pages of its scan and of its planning. What of the
# catalogs a session reads but once is not counted.
sub pages
{
	my ($query, $times) = @_;
	my $out = $node->safe_psql('postgres', $by_index . join('', map { "SELECT $_ FROM none ORDER BY $_ LIMIT 1;" } 'i', 't', 'z') . "EXPLAIN $query;"
		. "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) $query;" x $times);
	my @pages;
	while ($out =~ /^(\[\n.*?^\])$/msg)
	{
		my $plan = decode_json($1)->[0];
		my ($scan) = index_node($plan->{Plan});
		push @pages, { index => $scan->{'Index Name'}, scan => blocks($scan), planning => $plan->{Planning} ? blocks($plan->{Planning}) : 0 };
	}
	return @pages;
}

my %before;
for my $dead (@sizes)
{
	fill($dead);
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM st.index');
	my $step = $dead / 50;
	$node->safe_psql('postgres', join '', map { my $from = $_ * $step + 1; my $to = $from + $step - 1;
		"DELETE FROM q WHERE id BETWEEN $from AND $to; UPDATE u SET state = 1 WHERE id BETWEEN $from AND $to;" } 0 .. 49);
	for my $name (sort keys %query)
	{
		my ($index, $query, $first) = @{ $query{$name} };
		$query =~ s/:dead/$dead/;
		my @once = pages($query, 1);
		my ($pages) = pages($query, 1);
		note "$dead dead, $name: scan $once[0]{scan}, then $pages->{scan}; planning $pages->{planning}";
		is($pages->{index}, $index, "$dead dead, $name: goes by $index");
		cmp_ok($pages->{scan}, '<=', $most, "... touches few pages in a new session");
		cmp_ok($pages->{planning}, '<=', $most, "... and so does its planning");
		my @found = split /\n/, $node->safe_psql('postgres', "$by_index $query");
		is((split /\|/, $found[0])[0], $dead + $first, '... finds the first live row');
		is(scalar @found, $name =~ /middle/ ? 20 : 1, '... and as many as there are');
		# One level more is gone down twice, or thrice.
		cmp_ok($pages->{$_}, '<=', $before{$name}{$_} + 6, "... $_: no more than with fewer dead") for grep { $before{$name} } 'scan', 'planning';
		$before{$name} = $pages;
	}
	is($holder->query_safe('SELECT count(*) FROM q'), $dead + $live, "$dead dead: the holder has its rows");
	is($holder->query_safe('SELECT st.differences(i) FROM st.index i'), '', '... by any scan');
	$node->safe_psql('postgres', 'SELECT steady_verify(index, true) FROM st.index');
	if ($dead == $sizes[-1])
	{
		# After a restart each entry is looked at once more.
		$node->safe_psql('postgres', q{BEGIN; INSERT INTO none (i) VALUES (1); PREPARE TRANSACTION 'holder'});
		$node->restart;
		my ($index, $query) = @{ $query{head} };
		my @pages = map { $_->{scan} } pages($query, 2), pages($query, 1);
		note "after a restart: scan @pages";
		cmp_ok($pages[0], '>', $dead / 1000, 'after a restart the first query pays');
		cmp_ok($pages[$_], '<=', $most, '... and no other') for 1, 2;
		$node->safe_psql('postgres', q{ROLLBACK PREPARED 'holder'});
		last;
	}
	$holder->query_safe('COMMIT');
	$holder->quit;
}

# The same few keys again and again, in a unique index: what is touched for each doesn't grow with the dead versions of it.
$node->safe_psql('postgres', <<'SQL');
SET client_min_messages = error;
DROP TABLE q, u;
CREATE TABLE keys (id int, n int) WITH (fillfactor = 50);
CREATE UNIQUE INDEX keys_id ON keys USING steady (id);
INSERT INTO keys SELECT i, 0 FROM generate_series(1, 200) i;
SQL
my %round = ('insert and delete' => 'DELETE FROM keys WHERE id > 0; INSERT INTO keys SELECT i, :round FROM generate_series(1, 200) i;');
$round{upsert} = q{INSERT INTO keys SELECT i, :round FROM generate_series(1, 200) i ON CONFLICT (id) DO UPDATE SET n = :round;}
  . q{DELETE FROM keys WHERE id % 4 = :round % 4;} if $node->pg_version >= 18;
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM none');
my $rounds = is_long() ? 2000 : 200;
for my $what (sort keys %round)
{
	# Pages of the index that so many rounds touch
	my $touched = sub {
		my ($from, $to) = @_;
		my $sum = 'SELECT pg_stat_force_next_flush(); SELECT sum(idx_blks_hit + idx_blks_read) FROM pg_statio_user_indexes';
		my $run = $by_index . join '', map { $round{$what} =~ s/:round/$_/gr } $from .. $to;
		my ($before, $after) = map { (split /\n/, $node->safe_psql('postgres', $_))[-1] } $sum, "$run $sum";
		$after = (split /\n/, $node->safe_psql('postgres', $sum))[-1];
		return ($after - $before) / ($to - $from + 1);
	};
	$touched->(1, 10);
	my $early = $touched->(11, 30);
	$touched->(31, $rounds);
	my $late = $touched->($rounds + 1, $rounds + 20);
	note "$what: $early pages a round at first, $late at last";
	# Once the dead versions of each key fill a leaf, searches climb to pass them: so many pages a row, and no more (15.20,
	# packed keys: 2,777 a round after 2,000 rounds, 2,211 after 4,000).
	my $most = is_long() ? 200 * 16 : 1.5 * $early;
	cmp_ok($late, '<=', $most, "$what of the same keys: no more pages a round");
}
is($holder->query_safe('SELECT count(*) FROM keys'), '200', 'the holder has its rows');
is($holder->query_safe('SELECT st.differences(i) FROM st.index i'), '', '... by any scan');
indexes_ok($node, 'the same keys', 1 + 3);
$node->stop;
done_testing();

# The counts of steady_stats since the server's start: what scans and unique checks skipped, what was removed and unlinked.
# They add up exactly, whoever counts, and are of one index and one run of one server.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $node = new_node('main', 'shared_buffers = 4MB', allows_streaming => 1);
$node->start;
prepare($node);

# One leaf of 100 entries, and a tree of many pages on three levels
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE few (i int, t text);
CREATE UNIQUE INDEX few_i ON few USING steady (i);
INSERT INTO few SELECT i, 't' FROM generate_series(1, 100) i;
CREATE TABLE wide (i int, k text COLLATE "C");
CREATE INDEX wide_k ON wide USING steady (k);
INSERT INTO wide SELECT i, lpad(i::text, 500, '0') FROM generate_series(1, 3000) i;
ALTER TABLE wide ALTER k SET STORAGE plain;
REINDEX INDEX wide_k;
CREATE TABLE other AS SELECT i, repeat('o', 500) AS o FROM generate_series(1, 30000) i;
CREATE INDEX other_i ON other USING btree (i);
SQL
my @columns = qw(skipped_entries skipped_pages skipped_subtrees removed_entries unlinked_pages);
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;';

sub counts
{
	my ($index, $on) = @_;
	my %count;
	@count{@columns} = split /\|/, ($on // $node)->safe_psql('postgres', "SELECT @{[ join ', ', @columns ]} FROM steady_stats('$index')");
	return \%count;
}

# What a command adds to the counts of an index
sub added
{
	my ($index, $command, $on) = @_;
	my $before = counts($index, $on);
	($on // $node)->safe_psql('postgres', "$by_index $command");
	my $after = counts($index, $on);
	return { map { $_ => $after->{$_} - $before->{$_} } @columns };
}

my $none = { map { $_ => 0 } @columns };
is($node->safe_psql('postgres', q{SELECT leaf_pages FROM steady_stats('few_i')}), '1', 'one leaf');
is($node->safe_psql('postgres', q{SELECT levels FROM steady_stats('wide_k')}), '4', 'four levels');
is_deeply(counts($_), $none, "$_: nothing yet") for qw(few_i wide_k);

my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$node->safe_psql('postgres', 'DELETE FROM few WHERE i <= 60; DELETE FROM wide WHERE i <= 2900');

my $scan = 'SELECT t FROM few WHERE i > 0 ORDER BY i';
is_deeply(added('few_i', $scan), $none, 'the first scan skips nothing');
is_deeply(added('few_i', $scan), { %$none, skipped_entries => 60 }, 'the next one skips the dead');
is_deeply(added('few_i', "$scan DESC"), { %$none, skipped_entries => 60 }, 'backward, too');
is_deeply(added('few_i', 'SELECT t FROM few WHERE i BETWEEN 51 AND 55'), { %$none, skipped_entries => 5 }, 'only what lies in its range');
is_deeply(added('few_i', 'SET enable_bitmapscan = on; SET enable_indexscan = off; SELECT t FROM few WHERE i <= 10'), { %$none, skipped_entries => 10 }, 'a bitmap scan');
is_deeply(added('few_i', 'SELECT t FROM few WHERE i > 60'), $none, 'nothing where nothing is dead');
is_deeply(added('few_i', 'SET steady.stamps = off;' . $scan), $none, 'nothing with stamps off');
is_deeply(added('few_i', 'SELECT f.i, g.t FROM generate_series(1, 4) f (i) CROSS JOIN LATERAL (SELECT t FROM few WHERE i = f.i OFFSET 0) g'),
	{ %$none, skipped_entries => 4 }, 'one scan that is begun four times');
is_deeply(added('few_i', q{INSERT INTO few VALUES (7, 'again')}), { %$none, skipped_entries => 54 }, 'a unique check, up to the first live row');
is_deeply(added('few_i', "BEGIN; $scan; ROLLBACK"), { %$none, skipped_entries => 60 }, 'a transaction that is rolled back');
is_deeply(counts('wide_k'), $none, 'the other index has none of that');

# Many at a time
my ($clients, $transactions) = (8, 200);
my $before = counts('few_i');
$node->pgbench("--no-vacuum --client=$clients --transactions=$transactions", 0, [qr/processed/], [qr/^$/], 'scans at the same time',
	{ '100_scan' => "SET enable_seqscan = off;\nSET enable_bitmapscan = off;\n$scan;" });
is(counts('few_i')->{skipped_entries} - $before->{skipped_entries}, $clients * $transactions * 60, 'none of them is lost');

# Pages and subtrees
my $head = 'SELECT i FROM wide ORDER BY k LIMIT 1;';
my $added = added('wide_k', $head);
is($added->{skipped_subtrees}, '0', 'the first scan passes over no subtree');
$added = added('wide_k', $head);
cmp_ok($added->{skipped_pages}, '>', 0, 'the next one passes over pages');
cmp_ok($added->{skipped_subtrees}, '>', 0, '... and subtrees');
cmp_ok($added->{skipped_entries}, '<', 20, '... and is left with few entries');
is_deeply([ @{$added}{qw(removed_entries unlinked_pages)} ], [ 0, 0 ], '... and removes nothing');
is_deeply(added('wide_k', $head), $added, '... as the one behind it');

# The page leaves memory and comes back: everything else is read through one quarter of it.
$before = counts('few_i');
$node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(o) FROM other WHERE i > 0') for 1 .. 2;
is_deeply(counts('few_i'), $before, 'counts are kept when memory is short');
indexes_ok($node, 'with counts', 2);

# A standby counts for itself.
my $standby = start_standby($node, 'standby', "hot_standby_feedback = on\nshared_buffers = 32MB");
replayed($node, $standby);
$before = counts('few_i');
is_deeply(counts('few_i', $standby), $none, 'a standby begins at none');
$standby->safe_psql('postgres', $by_index . $scan);
is_deeply(added('few_i', $scan, $standby), { %$none, skipped_entries => 60 }, '... and counts what it skips');
is_deeply(counts('few_i'), $before, '... the primary does not');
pages_equal($node, $standby, 'counts are not on the pages');

# The dead go.
$holder->query_safe('COMMIT');
$holder->quit;
$node->safe_psql('postgres', 'DELETE FROM few WHERE i IN (61, 62)');
my $entries = $node->safe_psql('postgres', q{SELECT entries FROM steady_stats('few_i')});
$standby->stop;
$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_replication') or die 'the standby stays';
$added = added('few_i', "$scan;" x 2);
is($added->{removed_entries}, $entries - $node->safe_psql('postgres', q{SELECT entries FROM steady_stats('few_i')}), 'removed entries are counted');
cmp_ok($added->{removed_entries}, '>=', 59, '... all of them');
my ($blocks, $deleted) = split /\|/, $node->safe_psql('postgres', q{SELECT leaf_pages + inner_pages, deleted_pages FROM steady_stats('wide_k')});
$added = added('wide_k', $head x 600);
my $left = $node->safe_psql('postgres', q{SELECT leaf_pages + inner_pages FROM steady_stats('wide_k')});
cmp_ok($added->{unlinked_pages}, '>', 100, 'pages are unlinked');
is($added->{unlinked_pages}, $blocks - $left, '... and counted');
cmp_ok($added->{removed_entries}, '>', 2000, '... and their entries');
$before = counts('few_i');
$node->safe_psql('postgres', 'DELETE FROM few WHERE i > 90; VACUUM few');
is_deeply(counts('few_i'), $before, 'what VACUUM removes is not counted');
indexes_ok($node, 'in the end', 2);

$node->safe_psql('postgres', 'CHECKPOINT');
$node->restart;
is_deeply(counts($_), $none, "$_: after a restart at none") for qw(few_i wide_k);
$node->stop;
done_testing();

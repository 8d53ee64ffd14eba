# The verifier among others: scans that stamp and remove entries while it works, a standby that replays, and relations
# that it can't read.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $seed = seed();
my $seconds = is_long() ? 300 : 15;
my $primary = new_node('primary', '', allows_streaming => 1);
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION steady');
my $standby = start_standby($primary, 'standby', "hot_standby_feedback = on\nmax_standby_streaming_delay = -1");

# Verifies an index again and again for some time. Returns how often it ended how, by SQLSTATE.
sub verify_for
{
	my ($node, @indexes) = @_;
	my %count;
	my $end = time() + $seconds;
	while (time() < $end)
	{
		foreach my $index (@indexes)
		{
			my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT steady_verify('$index', true)");
			my ($state) = $status == 0 ? 'right' : $err =~ /ERROR:\s+(\w+)/ ? $1 : $err;
			diag $err if $status != 0 && $state ne '55006' && !$count{$state};
			$count{$state}++;
		}
	}
	note join(', ', map { "$_: $count{$_}" } sort keys %count);
	return \%count;
}

# ---- readers that find dead rows

$primary->safe_psql('postgres', <<'SQL');
CREATE TABLE v (k int, t text);
CREATE INDEX v_k ON v USING steady (k);
CREATE INDEX v_t ON v USING steady (t);
INSERT INTO v SELECT i, md5((i % 5000)::text) FROM generate_series(1, 40000) i;
DELETE FROM v WHERE k % 3 = 0 OR k BETWEEN 10000 AND 20000;
SQL
my $reader = q{
\set a random(1, 40000)
SET enable_seqscan = off;
SELECT count(t) FROM v WHERE k BETWEEN :a AND :a + 500;
SET enable_bitmapscan = off;
SELECT count(*) FROM (SELECT k FROM v WHERE t >= md5(:a::text) ORDER BY t LIMIT 300) s;
};
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/read.sql", $reader);
my $readers = IPC::Run::start([ 'pgbench', '-n', '-c', 3, '-T', $seconds + 5, '-f', "$dir/read.sql", '--random-seed', $seed, $primary->connstr('postgres') ],
	'>', \my $out, '2>', \my $err);
my $count = verify_for($primary, 'v_k', 'v_t');
IPC::Run::finish($readers);
like($out, qr/number of failed transactions: 0|transaction type/, 'there were readers') or diag $err;
is(join(',', grep { $_ ne 'right' } keys %$count), '', 'readers make no verification fail');
cmp_ok($count->{right} // 0, '>', 1, 'there were some');
cmp_ok($primary->safe_psql('postgres', q{SELECT killed + 40000 - entries FROM steady_stats('v_k')}), '>', 0,
	'readers stamped or removed entries');

# ---- a standby that replays

load_setup($primary);
replayed($primary, $standby);
my $load = load_start($primary, $seed, 2);
$count = verify_for($standby, 'load_i', 'load_k', 'load_few', 'load_t');
$load->kill_kill;
# 55006: the index changed too often. 40P01 and 40001: replay went first.
is(join(',', grep { !/^(right|55006|40P01|40001)$/ } keys %$count), '', 'replay is not taken for damage');
replayed($primary, $standby);
foreach my $node ($primary, $standby)
{
	is($node->safe_psql('postgres', "SELECT steady_verify(i::regclass, true) FROM unnest(ARRAY['load_i', 'load_k', 'load_few', 'load_t']) i"),
		"\n\n\n", 'sound in the end on ' . $node->name);
}

# ---- what can't be read

$primary->safe_psql('postgres', 'CREATE UNLOGGED TABLE u (k int); CREATE INDEX u_k ON u USING steady (k)');
replayed($primary, $standby);
my $sleeper = IPC::Run::start([ 'psql', '-X', '-d', $primary->connstr('postgres'),
	'-c', 'CREATE TEMP TABLE other (k int); CREATE INDEX other_k ON other USING steady (k); INSERT INTO other VALUES (1)',
	'-c', 'SELECT pg_sleep(600)' ], '<', \undef, '>', '/dev/null');
$primary->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query ~ '^SELECT pg_sleep'}) or die;
my $other = $primary->safe_psql('postgres', q{SELECT oid FROM pg_class WHERE relname = 'other_k'});
foreach my $call ('steady_verify(%s)', 'steady_stats(%s)', 'steady_page_header(%s, 1)', 'steady_page_items(%s, 1)')
{
	my (undef, undef, $theirs) = $primary->psql('postgres', 'SELECT ' . sprintf($call, $other));
	like($theirs, qr/cannot access temporary tables of other sessions/, sprintf("$call of another session", 'temporary'));
	my (undef, undef, $unlogged) = $standby->psql('postgres', 'SELECT ' . sprintf($call, q{'u_k'}));
	like($unlogged, qr/cannot access temporary or unlogged relations during recovery/, sprintf("$call on a standby", 'unlogged'));
}
$sleeper->kill_kill;

$standby->stop;
$primary->stop;
done_testing();

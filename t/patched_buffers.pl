# Buffer replacement by the module (steady.buffer_policy), on a server with the hook for it: under loads that replace all
# buffers many times, when relations are dropped, cut and moved, when all buffers are pinned, and with what else hands
# out buffers.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;
use Steady::Buffers;

skip_without_hook();

# ---- every policy replaces all buffers more than ten times

for my $policy (@policies)
{
	my $node = policy_server($policy, $policy);
	is($node->safe_psql('postgres', 'SHOW steady.buffer_policy'), $policy, "$policy is used");
	pgbench_init($node);
	my $before = buffer_stats($node);
	pgbench($node, '-c', 4, '-t', 2000);
	pgbench($node, '-c', 4, '-t', 2000, '-S');
	sums_agree($node, $policy);
	my $after = buffer_stats($node);
	my %more = map { $_ => $after->{$_} - $before->{$_} } grep { $after->{$_} =~ /^\d+$/ } keys %$after;
	note join ' ', map { "$_=$more{$_}" } sort keys %more;
	is($after->{policy}, $policy, 'the view names it');
	is($after->{buffers}, $buffers, '... and tells how many buffers there are');
	cmp_ok($more{victims}, '>', 10 * $buffers, "$policy: victims exceed ten times the buffers");
	cmp_ok($more{evicted}, '>', 5 * $buffers, '... most of them lost a page');
	cmp_ok($more{steps}, '>=', $policy eq 'core' ? 1 : $more{victims}, '... and were searched for');
	cmp_ok($more{hits}, '>', $more{installed}, '... hits are counted');
	if ($policy eq 's3fifo')
	{
		cmp_ok($more{ghosts}, '>', 1000, 'ghosts are found');
		cmp_ok($more{promotions}, '>', 1000, 'buffers are promoted');
		cmp_ok($more{fresh_hits}, '>', 0, 'some hits come in bursts');
		is($after->{free_buffers} + $after->{fresh_buffers} + $after->{small_buffers} + $after->{main_buffers}, $buffers,
			'each buffer is in one list');
		cmp_ok($after->{main_buffers}, '>', $buffers / 2, 'most of them in main');
	}
	elsif ($policy eq 'clock')
	{
		is($after->{lock_acquisitions}, 0, 'the clock takes no lock');
	}

	# The background writer is ahead of the search.
	my $writes = 'SELECT buffers_clean FROM pg_stat_bgwriter';
	my $clean = $node->safe_psql('postgres', $writes);
	pgbench($node, '-c', 2, '-t', 1000);
	cmp_ok($node->safe_psql('postgres', $writes) - $clean, '>', 200, "$policy: the background writer finds what to clean");

	# A scan by way of a ring leaves the others' pages alone.
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE hot AS SELECT i, repeat('h', 500) AS pad FROM generate_series(1, 4000) i;
VACUUM ANALYZE hot;
SQL
	my $hot = 'SELECT sum(length(pad)) FROM hot';
	my $missed_after = sub {
		$node->safe_psql('postgres', "$hot; " x 5);
		$node->safe_psql('postgres', "$_[0]; SELECT count(abalance) FROM pgbench_accounts WHERE aid > 0");
		my $read = $node->safe_psql('postgres', "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) $hot");
		return $read =~ /read=(\d+)/ ? $1 : 0;
	};
	my $pages = $node->safe_psql('postgres', "SELECT pg_relation_size('hot') / 8192");
	cmp_ok($missed_after->('SET enable_indexscan = off; SET enable_bitmapscan = off'), '<', $pages / 4,
		"$policy: a large scan by way of a ring leaves what others need");
	cmp_ok($missed_after->('SET enable_seqscan = off; SET enable_bitmapscan = off'), '<', $pages / 4,
		"$policy: so does one without a ring") if $policy eq 's3fifo';

	# Relations that go, shrink and move.
	my $offset = -s $node->logfile;
	$node->safe_psql('postgres', 'CREATE DATABASE gone');
	$node->safe_psql('gone', 'CREATE TABLE t AS SELECT i, repeat(chr(120), 300) FROM generate_series(1, 20000) i');
	$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION ''");
	my $load = pgbench_start($node, '-c', 2);
	for my $round (1 .. 5)
	{
		$node->safe_psql('postgres', <<'SQL');
CREATE TABLE moving AS SELECT i, repeat('x', 200) AS pad FROM generate_series(1, 30000) i;
DELETE FROM moving WHERE i > 5000;
VACUUM moving;
ALTER TABLE moving SET TABLESPACE elsewhere;
SQL
		is($node->safe_psql('postgres', 'SELECT count(*), sum(i), sum(length(pad)) FROM moving'), '5000|12502500|1000000',
			"$policy: a table that was cut and moved is whole ($round)");
		$node->safe_psql('postgres', 'TRUNCATE moving; INSERT INTO moving SELECT i, 1 FROM generate_series(1, 100) i; DROP TABLE moving');
	}
	$node->safe_psql('postgres', 'DROP DATABASE gone');
	$load->signal('INT');
	$load->finish;
	$node->safe_psql('postgres', 'DROP TABLESPACE elsewhere');
	sums_agree($node, "$policy, with relations that went");
	if ($policy eq 's3fifo')
	{
		# What is dropped is free, and used first.
		$node->safe_psql('postgres', 'CREATE TABLE big AS SELECT i, repeat(chr(120), 1000) FROM generate_series(1, 5000) i; SELECT count(*) FROM big; DROP TABLE big');
		my $free = buffer_stats($node)->{free_buffers};
		cmp_ok($free, '>', 50, 'buffers of a dropped table are free');
	}
	is_deeply([ log_lines($node, 'PANIC|TRAP|could not read block|invalid page', $offset) ], [], "$policy: nothing was misread");
	$node->stop;
}

# ---- all buffers pinned

for my $policy (@policies)
{
	my $node = policy_server("pinned_$policy", $policy, 'shared_buffers = 512kB');
	$node->safe_psql('postgres', <<'SQL');
DO $$ BEGIN
	FOR i IN 1..80 LOOP
		EXECUTE format('CREATE TABLE p%s AS SELECT 1 AS x', i);
	END LOOP;
END $$;
SQL
	my $cursors = join '', map { "DECLARE c$_ CURSOR FOR SELECT * FROM p$_; FETCH c$_; " } 1 .. 80;
	my ($status, $out, $err) = $node->psql('postgres', "BEGIN; $cursors COMMIT;");
	like($err, qr/ERROR:  no unpinned buffers available/, "$policy: an error when all buffers are pinned");
	is($node->safe_psql('postgres', 'SELECT sum(x) FROM (SELECT * FROM p1 UNION ALL SELECT * FROM p80) q'), 2, '... and all is well afterwards');
	$node->stop;
}

# ---- pg_prewarm

for my $policy (@policies)
{
	my $node = new_node("prewarm_$policy", "shared_preload_libraries = 'steady,pg_prewarm'\nsteady.buffer_policy = '$policy'\nshared_buffers = 16MB");
	$node->start;
	my ($status) = $node->psql('postgres', 'CREATE EXTENSION pg_prewarm');
	$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION steady;
CREATE TABLE warm AS SELECT i, repeat('w', 700) AS pad FROM generate_series(1, 8000) i;
CHECKPOINT;
SQL
	my $blocks = $node->safe_psql('postgres', "SELECT pg_relation_size('warm') / 8192");
	is($node->safe_psql('postgres', "SELECT pg_prewarm('warm')"), $blocks, "$policy: pg_prewarm reads all");
	$node->stop;
	my $offset = -s $node->logfile;
	$node->append_conf('postgresql.conf', 'log_min_messages = log');
	$node->start;
	$node->wait_for_log(qr/autoprewarm successfully prewarmed \d+ of \d+/, $offset);
	my ($done, $all) = slurp_file($node->logfile, $offset) =~ /autoprewarm successfully prewarmed (\d+) of (\d+)/;
	cmp_ok($done, '>', 0.95 * $all, "$policy: autoprewarm found enough free buffers ($done of $all)");
	my ($missed) = $node->safe_psql('postgres', 'EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT sum(length(pad)) FROM warm') =~ /read=(\d+)/;
	cmp_ok($missed // 0, '<', 0.05 * $blocks, '... and the pages stayed');
	$node->stop;
}

# ---- asynchronous reads

{
	my $node = PostgreSQL::Test::Cluster->new('methods');
	$node->init;
	my $has_aio = $node->pg_version >= 18;
	for my $method ($has_aio ? qw(sync worker) : ())
	{
		my $aio = policy_server("aio_$method", 's3fifo', "io_method = $method\neffective_io_concurrency = 64");
		pgbench_init($aio);
		my $scan = 'SELECT count(*), sum(aid) FROM pgbench_accounts';
		my @scans = map { IPC::Run::start([ 'psql', '-XAt', '-p', $aio->port, '-h', $aio->host, '-c', "$scan; " x 5, 'postgres' ], '>', \my $out) } 1 .. 3;
		$_->finish for @scans;
		pgbench($aio, '-c', 4, '-t', 1000);
		sums_agree($aio, "io_method $method");
		is($aio->safe_psql('postgres', $scan), '800000|320000400000', "io_method $method: scans find all rows");
		$aio->stop;
	}
}

# ---- settings that cannot be had

{
	my $node = new_node('bare', "steady.buffer_policy = 's3fifo'");
	$node->start;
	my ($status, $out, $err) = $node->psql('postgres', "LOAD 'steady'; SHOW steady.buffer_policy");
	like($err, qr/needs shared memory/, 'a library that was not preloaded says so');
	is($out, 'off', '... and leaves it to the server');
	($status, $out, $err) = $node->psql('postgres', 'CREATE EXTENSION steady; SELECT * FROM steady_buffer_stats');
	like($err, qr/buffer accesses are not counted/, 'the view tells the same');
	$node->stop;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'steady'\nsteady.buffer_policy = 'fastest'");
	$node->start;
	is(scalar(log_lines($node, qr/WARNING: .*invalid value for parameter "steady.buffer_policy": "fastest"/)), 1, 'no policy of that name: a warning');
	is($node->safe_psql('postgres', 'SHOW steady.buffer_policy'), 'off', '... and the server goes its own way');
	$node->stop;
}

done_testing();

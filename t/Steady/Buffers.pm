# What the tests of buffer replacement share: servers with a policy, what the view shows, and pgbench's tables.
package Steady::Buffers;

use strict;
use warnings;
use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

our @EXPORT = qw($buffers @policies skip_without_hook policy_server buffer_stats pgbench_init pgbench pgbench_start sums_agree);

our $buffers = 2048;
our @policies = qw(core clock s3fifo);

sub skip_without_hook
{
	my $node = new_node('hook', "shared_preload_libraries = 'steady'");
	$node->start;
	my ($status, $out, $err) = $node->psql('postgres', 'CREATE EXTENSION steady; SELECT * FROM steady_buffer_stats');
	$node->stop;
	plan skip_all => 'this server has no hook for buffer replacement (contrib_patches)' if $err =~ /has no hook/;
	is($err, '', 'the server has the hook');
}

# A server with 16 MB of shared buffers and a policy.
sub policy_server
{
	my ($name, $policy, $settings, %init) = @_;
	my $node = new_node($name, <<"CONF", %init);
shared_preload_libraries = 'steady'
steady.buffer_policy = '$policy'
shared_buffers = 16MB
bgwriter_delay = 10ms
bgwriter_lru_maxpages = 1000
max_connections = 50
allow_in_place_tablespaces = on
@{[ $settings // '' ]}
CONF
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION steady');
	return $node;
}

# What the view shows, by column.
sub buffer_stats
{
	my ($node) = @_;
	return { map { split /=/ } split /\n/,
		$node->safe_psql('postgres', 'SELECT key || chr(61) || coalesce(value, chr(45)) FROM steady_buffer_stats s, json_each_text(row_to_json(s))') };
}

sub pgbench_init
{
	my ($node, $scale) = @_;
	$node->run_log([ 'pgbench', '-i', '-q', '-s', $scale // 8, '-p', $node->port, '-h', $node->host, 'postgres' ]) or die 'pgbench -i failed';
}

sub pgbench
{
	my ($node, @args) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($node->run_log([ 'pgbench', '-n', '-p', $node->port, '-h', $node->host, @args, 'postgres' ]), "pgbench @args");
}

# The tables of pgbench tell the same sum four times, and indexes find what scans find.
sub sums_agree
{
	my ($node, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql('postgres', <<'SQL'), 't|800000|800000', "$what: nothing is lost");
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
CREATE TEMP TABLE found AS SELECT
	(SELECT sum(abalance) FROM pgbench_accounts) a, (SELECT sum(bbalance) FROM pgbench_branches) b,
	(SELECT sum(tbalance) FROM pgbench_tellers) t, (SELECT coalesce(sum(delta), 0) FROM pgbench_history) h,
	(SELECT count(*) FROM pgbench_accounts) n;
RESET enable_indexscan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT a = b AND b = t AND t = h, n, (SELECT count(abalance) FROM pgbench_accounts WHERE aid > 0) FROM found;
SQL
}

# pgbench in the background.
sub pgbench_start
{
	my ($node, @args) = @_;
	my ($out, $err);
	return IPC::Run::start([ 'pgbench', '-n', '-T', 600, '-p', $node->port, '-h', $node->host, @args, 'postgres' ], '>', \$out, '2>', \$err);
}

1;

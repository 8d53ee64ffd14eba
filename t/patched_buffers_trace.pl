# A load is recorded (steady.buffer_trace), and the simulator makes of it what the server made.
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

my $simulator = "$PostgreSQL::Test::Utils::tmp_check/buffer-simulator";
system_or_bail('make', '-s', "SIMULATOR=$simulator", 'simulator');
for my $policy (@policies)
{
	my $node = policy_server("trace_$policy", $policy, <<'CONF');
shared_buffers = 4MB
checkpoint_timeout = 1h
max_wal_size = 4GB
bgwriter_lru_maxpages = 0
CONF
	# From the start of a server on: then its buffers are as empty as the simulator's.
	$node->append_conf('postgresql.conf', "steady.buffer_trace = 'accesses'");
	$node->restart;
	pgbench_init($node, 2);
	pgbench($node, '-c', 1, '-t', 500);
	pgbench($node, '-c', 1, '-t', 4000, '-S');
	my $seen = buffer_stats($node);
	$node->stop;
	my ($out, $err);
	IPC::Run::run([ $simulator, $node->data_dir . '/accesses' ], '>', \$out, '2>', \$err) or die "the simulator failed: $err";
	note $out;
	my ($header, @lines) = map { [ split /\t/ ] } split /\n/, $out;
	my %simulated = map { my @line = @$_; $line[1] => { map { $header->[$_] => $line[$_] } 0 .. $#line } } @lines;
	unlike($err, qr/missing/, "$policy: no record is missing");
	my $accesses = $seen->{hits} + $seen->{installed};
	cmp_ok(abs($simulated{$policy}{accesses} / $accesses - 1), '<', 0.01, "$policy: every access was recorded");
	my $ratio = $seen->{hits} / $accesses;
	cmp_ok(abs($simulated{$policy}{hit_ratio} - $ratio), '<', 0.005, "$policy: the simulator's hit ratio is the server's ($ratio)");
	cmp_ok($simulated{optimum}{hit_ratio}, '>=', $simulated{$_}{hit_ratio}, "... and not better than the optimum ($_)") for @policies;

	# Recording can be switched off and on.
	$node->start;
	$node->safe_psql('postgres', "ALTER SYSTEM SET steady.buffer_trace = ''");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('steady.buffer_trace') = ''");
	my $size = -s ($node->data_dir . '/accesses');
	$node->safe_psql('postgres', 'SELECT count(*) FROM pgbench_accounts') for 1 .. 2;
	# But for what background processes still had.
	cmp_ok(-s ($node->data_dir . '/accesses') - $size, '<', 20000, "$policy: nothing is recorded any more");
	$node->safe_psql('postgres', "ALTER SYSTEM SET steady.buffer_trace = 'again'");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('steady.buffer_trace') = 'again'");
	$node->safe_psql('postgres', 'SELECT count(*) FROM pgbench_accounts');
	$node->stop;
	cmp_ok(-s ($node->data_dir . '/again') // 0, '>', 50000, "$policy: another file when it is told so");
}

done_testing();

# Servers are killed under a load that replaces all buffers again and again: nothing is lost, and the policy's lists begin anew.
#
# STEADY_LONG=1: more kills.
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

my $seed = seed();
my $node = policy_server('kills', 's3fifo', 'restart_after_crash = on');
pgbench_init($node);
for my $kill (1 .. (is_long() ? 40 : 4))
{
	my $load = pgbench_start($node, '-c', 4);
	my $victims = buffer_stats($node)->{victims};
	wait_for('victims', sub { buffer_stats($node)->{victims} > $victims + 3000 });
	my $how = kill_server($node, $kill, $load);
	my $stats = buffer_stats($node);
	is($stats->{free_buffers} + $stats->{fresh_buffers} + $stats->{small_buffers} + $stats->{main_buffers}, $buffers,
		"kill $kill ($how): each buffer is in one list");
	sums_agree($node, "kill $kill");
	cmp_ok(buffer_stats($node)->{victims}, '>', 0, '... and the policy is at work again');
}
$node->stop;
done_testing();

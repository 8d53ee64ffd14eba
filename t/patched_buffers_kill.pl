# Servers are killed under a load that replaces all buffers again and again: nothing is lost, and the policy's lists begin anew.
# A standby replays such a load, and is promoted.
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
my $node = policy_server('kills', 's3fifo', 'restart_after_crash = on', allows_streaming => 1);
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

# Replay uses buffers, too, and has no session of its own.
my $standby = start_standby($node, 'standby');
my $replaced = buffer_stats($standby)->{victims};
pgbench($node, '-c', 4, '-t', 1000);
replayed($node, $standby);
cmp_ok(buffer_stats($standby)->{victims} - $replaced, '>', $buffers, 'replay replaces buffers');
is($standby->safe_psql('postgres', 'SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)'),
	't', 'the standby has all of it');
$standby->promote;
pgbench($standby, '-c', 4, '-t', 300);
sums_agree($standby, 'a promoted standby');
$_->stop for $standby, $node;
done_testing();

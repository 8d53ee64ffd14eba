# Replay makes of each page what the change had made of it: the server's own check of all records of an index.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $seed = seed();
my $primary = new_node('primary', "wal_consistency_checking = 'generic, btree'\nwal_keep_size = 1GB", allows_streaming => 1);
$primary->start;
prepare($primary);
my $standby = start_standby($primary, 'standby', 'max_standby_streaming_delay = -1');
my $begin = $primary->lsn('insert');

sub consistent
{
	my ($what) = @_;
	replayed($primary, $standby);
	is(join("\n", log_lines($standby, qr/inconsistent page|PANIC|FATAL/)), '', "$what: pages are consistent");
}

for my $change (@changes)
{
	run_change($primary, $change);
	consistent($change->[0]);
}
load_setup($primary);
my $load = load_start($primary, $seed, 3);
my $rows = is_long() ? 200000 : 3000;
load_until($primary, "SELECT last_value > 3000 + $rows FROM load_id");
load_stop($primary, $load);
consistent('a load');
indexes_ok($standby, 'the standby', 8);

# Did it check anything?
my ($out, $err);
my $end = $primary->lsn('flush');
IPC::Run::run([ 'pg_waldump', '-b', '-p', $primary->data_dir . '/pg_wal', '-r', 'Generic', '-s', $begin, '-e', $end ], '>', \$out, '2>', \$err);
my $checked = () = $out =~ /FPW for WAL verification/g;
cmp_ok($checked, '>', 10000, "$checked page images were there to be compared");

# The primary replays its own log.
$primary->stop('immediate');
$primary->start;
is(join("\n", log_lines($primary, qr/inconsistent page|PANIC/)), '', 'recovery of the primary: pages are consistent');
indexes_ok($primary, 'the primary', 8);
$primary->stop;
$standby->stop;
done_testing();

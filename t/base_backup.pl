# A copy of a server that is taken while it is written to has sound indexes: base backups under a load that inserts,
# kills, removes and vacuums, and recovery from the archive up to a point in the middle of it.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $seed = seed();
my $primary = new_node('primary', '', allows_streaming => 1, has_archiving => 1);
$primary->start;
prepare($primary);
load_setup($primary);
my $load = load_start($primary, $seed, 3);

sub wait_for_load
{
	my ($rows) = @_;
	my $from = $primary->safe_psql('postgres', 'SELECT last_value FROM load_id');
	load_until($primary, "SELECT last_value > $from + $rows FROM load_id");
}

sub checked
{
	my ($node, $what) = @_;
	indexes_ok($node, $what, 4);
	is($node->safe_psql('postgres', q{SELECT count(*) FROM load WHERE t = 'aborted'}), '0', "$what: nothing of what was aborted");
	# What comes next builds on what was copied.
	my $more = load_start($node, $seed + 100, 2);
	my $from = $node->safe_psql('postgres', "SELECT nextval('load_id')");
	load_until($node, "SELECT last_value > $from + 400 FROM load_id");
	load_stop($node, $more);
	$node->safe_psql('postgres', 'VACUUM load');
	indexes_ok($node, "$what, and written to", 4);
}

# ---- copies

wait_for_load(500);
for my $round (1 .. (is_long() ? 12 : 2))
{
	$primary->backup("copy_$round");
	wait_for_load(100);
	my $copy = PostgreSQL::Test::Cluster->new("copy_$round");
	$copy->init_from_backup($primary, "copy_$round");
	$copy->append_conf('postgresql.conf', 'archive_mode = off');  # the archive is the primary's
	$copy->start;
	checked($copy, "copy $round");
	$copy->stop;
}

# ---- a point in time

wait_for_load(300);
$primary->safe_psql('postgres', q{SELECT pg_create_restore_point('here')});
wait_for_load(300);
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
load_stop($primary, $load);
indexes_ok($primary, 'the primary', 4);
$primary->stop;

my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($primary, 'copy_1', has_restoring => 1, standby => 0);
$restored->append_conf('postgresql.conf', "recovery_target_name = 'here'\nrecovery_target_action = 'promote'\narchive_mode = off");
$restored->start;
$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'recovery goes on';
cmp_ok(scalar(log_lines($restored, qr/recovery stopping at restore point "here"/)), '==', 1, 'recovery ended where it should');
checked($restored, 'restored');
$restored->stop;

done_testing();

# After a crash an index is what the log says: after each kind of change, in the middle of a load, and where relations
# are synced instead of logged.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $seed = seed();

sub crash
{
	my ($node) = @_;
	$node->stop('immediate');
	$node->start;
}

# ---- each kind of change on its own

my $node = new_node('main', "wal_level = replica\nfull_page_writes = on");
$node->start;
prepare($node);
my $number = 0;
for my $change (@changes)
{
	# Images for the first change of a page after a checkpoint, fragments for the later ones: both should be met.
	$node->safe_psql('postgres', 'CHECKPOINT') if $number++ % 2;
	run_change($node, $change);
	crash($node);
	indexes_ok($node, "crash after: $change->[0]", 8);
}

# ---- in the middle of a load

$node->safe_psql('postgres', 'DROP TABLE w, wide, queue');
load_setup($node);
for my $round (1 .. (is_long() ? 30 : 3))
{
	my $from = $node->safe_psql('postgres', "SELECT nextval('load_id')");
	my $load = load_start($node, $seed + $round, 4);
	for my $part (1 .. 3)
	{
		load_until($node, "SELECT last_value > $from + $part * 800 FROM load_id");
		$node->safe_psql('postgres', 'CHECKPOINT') if $part < 3 && $round % 3 > 0;
	}
	crash($node);
	$load->finish;
	indexes_ok($node, "crash in the middle of a load ($round)", 4);
	is($node->safe_psql('postgres', q{SELECT count(*) FROM load WHERE t = 'aborted'}), '0', 'nothing of what was aborted');
	# What comes next builds on pages that recovery left.
	$node->safe_psql('postgres', 'VACUUM load');
	indexes_ok($node, "and VACUUM after it ($round)", 4);
}

# ---- pages that the free space map forgot

# The map isn't logged. VACUUM finds such pages also where no row is dead.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE lost (i int);
CREATE INDEX lost_i ON lost USING steady (i) WITH (fillfactor = 15);
INSERT INTO lost SELECT generate_series(1, 30000);
CHECKPOINT;
DELETE FROM lost WHERE i < 29000;
VACUUM lost;
CREATE TABLE later ();	-- a commit brings the log to disk; and who unlinked is of the past then
SQL
crash($node);
my ($blocks, $deleted) = split /\|/, $node->safe_psql('postgres', q{SELECT blocks, deleted_pages FROM steady_stats('lost_i')});
cmp_ok($deleted, '>', 50, 'unlinked pages after a crash');
$node->safe_psql('postgres', 'VACUUM lost; INSERT INTO lost SELECT generate_series(30001, 45000)');
my ($blocks_now, $deleted_now) = split /\|/, $node->safe_psql('postgres', q{SELECT blocks, deleted_pages FROM steady_stats('lost_i')});
cmp_ok($deleted_now, '<', $deleted - 30, 'a VACUUM without dead rows finds them');
cmp_ok($blocks_now, '<=', $blocks, '... and they are used again');
indexes_ok($node, 'pages used again', 5);
$node->stop;

# ---- relations that are new in their transaction, and not logged

my $minimal = new_node('minimal', "wal_level = minimal\nmax_wal_senders = 0");
$minimal->start;
prepare($minimal);
for my $change (@changes)
{
	run_change($minimal, $change);
}
crash($minimal);
indexes_ok($minimal, 'wal_level = minimal: crash after all changes', 8);
$minimal->safe_psql('postgres', 'DROP TABLE w, wide, queue');

my $fill = q{SELECT hashint4(i) & 4095, i % 6, repeat(md5((i % 1000)::text), i % 8), i FROM generate_series(%d, %d) i};
my $indexes = q{
CREATE INDEX %1$s_k ON %1$s USING steady (k);
CREATE INDEX %1$s_few ON %1$s USING steady (few);
CREATE INDEX %1$s_t ON %1$s USING steady (t, k);
CREATE UNIQUE INDEX %1$s_n ON %1$s USING steady (n);
};
my $churn = q{
UPDATE %1$s SET k = k + 1 WHERE n %% 3 = 0;
DELETE FROM %1$s WHERE k < 500 OR n %% 5 = 0;
};
my %transaction = (
	built => "CREATE TABLE %1\$s (k int, few int, t text, n int); INSERT INTO %1\$s " . sprintf($fill, 1, 4000) . ";$indexes",
	filled => "CREATE TABLE %1\$s (k int, few int, t text, n int);$indexes INSERT INTO %1\$s " . sprintf($fill, 1, 4000) . ";$churn"
	  . 'INSERT INTO %1$s ' . sprintf($fill, 4001, 5000),
	truncated => "TRUNCATE %1\$s; INSERT INTO %1\$s " . sprintf($fill, 1, 3000) . ";$churn",
	truncated_twice => 'TRUNCATE %1$s; INSERT INTO %1$s ' . sprintf($fill, 1, 1000) . '; SAVEPOINT s; TRUNCATE %1$s; INSERT INTO %1$s '
	  . sprintf($fill, 1, 100) . '; ROLLBACK TO s; INSERT INTO %1$s ' . sprintf($fill, 1001, 2500),
	rewritten => "CLUSTER %1\$s USING %1\$s_k; REINDEX TABLE %1\$s; $churn ALTER TABLE %1\$s ALTER n TYPE bigint; INSERT INTO %1\$s "
	  . sprintf($fill, 10001, 11000),
	undone => 'TRUNCATE %1$s; INSERT INTO %1$s ' . sprintf($fill, 1, 1000) . '; REINDEX TABLE %1$s; ROLLBACK; BEGIN',
);
my %rows;
# Above the threshold files are synced at commit, below it they are logged page by page then.
for my $threshold ('0', '1GB')
{
	my $tab = $threshold eq '0' ? 'synced' : 'logged_late';
	for my $name (qw(built filled truncated truncated_twice rewritten undone))
	{
		$minimal->safe_psql('postgres', "DROP TABLE IF EXISTS $tab") if $name eq 'filled';
		my $sql = $transaction{$name} =~ s/%%/%/gr =~ s/%1\$s/$tab/gr;
		$minimal->safe_psql('postgres', "SET wal_skip_threshold = '$threshold'; CHECKPOINT; BEGIN; $sql; COMMIT");
		my $rows = $minimal->safe_psql('postgres', "SELECT count(*), sum(n) FROM $tab");
		crash($minimal);
		is($minimal->safe_psql('postgres', "SELECT count(*), sum(n) FROM $tab"), $rows, "$tab, $name: no row lost");
		indexes_ok($minimal, "$tab, $name: crash after commit", 4);
	}
	# From the commit on everything is logged.
	$minimal->safe_psql('postgres', "DELETE FROM $tab WHERE n % 4 = 0; INSERT INTO $tab " . sprintf($fill, 20001, 21000) . ";");
	crash($minimal);
	indexes_ok($minimal, "$tab: crash after later changes", 4);
}
$minimal->stop;

done_testing();

# Where old_snapshot_threshold is set, VACUUM takes rows that an old snapshot still sees. That snapshot gets an error then,
# from an index scan as well: never fewer rows.
# STEADY_LONG=1: the setting counts minutes.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

plan skip_all => 'long' if !is_long();
my $node = new_node('main', "old_snapshot_threshold = 1min\nautovacuum = off");
plan skip_all => 'servers from 17 on have no old_snapshot_threshold' if $node->pg_version >= 17;
$node->start;
prepare($node);
$node->safe_psql('postgres', 'CREATE TABLE other (i int); INSERT INTO other VALUES (1)');

my %scan = (
	'index scan' => [ 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off', 'count(pad)' ],
	'index-only scan' => [ 'SET enable_seqscan = off; SET enable_bitmapscan = off', 'count(id)' ],
	'bitmap scan' => [ 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off', 'count(pad)' ]);
my @where = ('id > 0', 'id BETWEEN 100 AND 200', 'id BETWEEN 5000 AND 5010', 'id > 7000');

for my $method (qw(btree steady))
{
	my ($errors, $right) = (0, 0);
	$node->safe_psql('postgres', <<"SQL");
DROP TABLE IF EXISTS t;
CREATE TABLE t (id int, pad text);
CREATE INDEX t_i ON t USING $method (id);
INSERT INTO t SELECT i, 'p' FROM generate_series(1, 8000) i;
VACUUM t;
SQL
	my $old = $node->background_psql('postgres', on_error_stop => 0);
	$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other');
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 6000');
	my $by_table = 'SAVEPOINT s; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SELECT count(pad) FROM t; ROLLBACK TO s';
	wait_for('VACUUM to take what the old snapshot sees', sub {
		$node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(pad) FROM t WHERE id > 0') for 1, 2;
		$node->safe_psql('postgres', 'INSERT INTO other VALUES (2)');
		$node->safe_psql('postgres', 'VACUUM t');
		$old->{stderr} = '';
		$old->query($by_table);
		return $old->{stderr} =~ /snapshot too old/;
	});
	for my $kind (sort keys %scan)
	{
		my ($settings, $what) = @{ $scan{$kind} };
		for my $where (@where)
		{
			$old->{stderr} = '';
			my $rows = $old->query("SAVEPOINT s; $settings; SELECT $what FROM t WHERE $where; ROLLBACK TO s");
			if ($old->{stderr} =~ /snapshot too old/)
			{
				$errors++;
				next;
			}
			my $expected = $where =~ /BETWEEN (\d+) AND (\d+)/ ? $2 - $1 + 1 : 8000 - ($where =~ /(\d+)/)[0];
			is($rows, $expected, "$method, $kind, $where");
			$right++;
		}
	}
	$old->quit;
	cmp_ok($errors, '>=', 6, "$method: the snapshot is too old for scans of what is gone");
	note "$method: $errors errors, $right answers";
}
$node->stop;
done_testing();

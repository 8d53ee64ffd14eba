# pg_upgrade takes indexes along to the next major version of the server.
#
# STEADY_OLD_BINDIR names the programs of an older server that has the extension, too.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $old_bindir = $ENV{STEADY_OLD_BINDIR};
plan skip_all => 'STEADY_OLD_BINDIR names no older server to upgrade from' unless $old_bindir;
my $new = new_node('new', '', no_data_checksums => 1);
my $new_bindir = $new->config_data('--bindir');
my ($old_version, $new_version) = map { scalar(`"$_/postgres" --version`) =~ /(\d+)/ } $old_bindir, $new_bindir;
plan skip_all => "server $old_version in STEADY_OLD_BINDIR is not older than $new_version" unless $old_version < $new_version;

my $old = PostgreSQL::Test::Cluster->new('old', install_path => dirname($old_bindir));
$old->init;
$old->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\njit = off\nmax_parallel_workers_per_gather = 0");
$old->start;
prepare($old);
# All kinds of pages: deleted ones, posting lists, many levels, what was built and what was filled
run_change($old, $_) for @changes;
$old->safe_psql('postgres', 'DELETE FROM w WHERE id % 3 = 0; DELETE FROM wide WHERE n % 2 = 0; VACUUM wide');
load_setup($old);
indexes_ok($old, 'before', 12);
my @tables = qw(w wide queue load);
my $rows = join ';', map { "SELECT count(*), sum(hashtextextended($_\::text, 0)) FROM $_" } @tables;
my $before = $old->safe_psql('postgres', $rows);
# A later minor release of the old version keeps something with each column that an earlier one of the new version doesn't
# know, whatever the indexes: then pg_upgrade fails.
$old->safe_psql('postgres', q{SET allow_system_table_mods = on;
	UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text ~ 'pg_attver'});
$old->stop;

command_ok([ 'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $old_bindir, '-B', $new_bindir,
		'-s', $new->host, '-p', $old->port, '-P', $new->port ], "pg_upgrade from $old_version to $new_version");
$new->start;
is($new->safe_psql('postgres', $rows), $before, 'the rows are the same');
indexes_ok($new, 'after', 12);
$new->safe_psql('postgres', 'VACUUM w, wide, queue, load;
	SELECT add_w(array_agg(i ORDER BY hashint8(i))) FROM generate_series(5000, 6000) i; SELECT add_wide(1000, 1100), add_queue(7000, 8000)');
my $load = load_start($new, seed(), 2);
load_until($new, q{SELECT last_value > 4500 FROM load_id});
load_stop($new, $load);
indexes_ok($new, 'after, and written to', 12);

# What is dumped comes back: operator classes and indexes, without their pages.
$new->safe_psql('postgres', 'DROP TABLE st_before');  # it names indexes, which come later in a dump
my $dump = $new->basedir . '/dump.sql';
command_ok([ 'pg_dump', '-f', $dump, $new->connstr('postgres') ], 'pg_dump');
$new->safe_psql('postgres', 'CREATE DATABASE restored');
command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $new->connstr('restored') ], 'restored');
is($new->safe_psql('restored', 'SELECT count(*), count(steady_verify(index, true)) FROM st.index'),
	$new->safe_psql('postgres', 'SELECT count(*), count(*) FROM st.index'), 'the dump has all indexes, and they are right');
$new->stop;
done_testing();

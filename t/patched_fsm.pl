# Leases of pages on a server with the patches: many clients, exits, time-outs, whatever removes pages, standby and promotion.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $seed = seed();
my $node = new_node('main', <<'CONF', allows_streaming => 1);
shared_preload_libraries = 'steady'
steady.fsm = on
max_connections = 60
shared_buffers = 64MB
allow_in_place_tablespaces = on
CONF
$node->start;
need_fsm_hook($node);
my ($status, $out, $err);
$node->safe_psql('postgres', 'CREATE EXTENSION pg_freespacemap');

sub query { return $node->safe_psql('postgres', $_[0]) }

# Clients that insert all at the same time, and end.
sub insert_by
{
	my ($clients, $times, $sql) = @_;
	my $file = $node->basedir . '/insert.pgbench';
	unlink $file;
	append_to_file($file, $sql);
	run_log([ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $times, "--random-seed=$seed", '-f', $file, '-h', $node->host, '-p',
		$node->port, 'postgres' ]) or die 'pgbench failed';
}

sub session
{
	my ($database) = @_;
	return $node->background_psql($database // 'postgres', on_error_stop => 1);
}

# What changed in the view since this was called the last time.
my %before = map { $_ => 0 } qw(lease map extension last_page target_block adopted_idle refused extensions new_pages);
sub counted
{
	my %now;
	@now{ sort keys %before } = split /\|/, query('SELECT ' . join(', ', sort keys %before) . ' FROM steady_fsm_stats');
	my %change = map { $_ => $now{$_} - $before{$_} } keys %now;
	%before = %now;
	return \%change;
}

sub leases { return query("SELECT count(*) FROM steady_fsm_leases WHERE relation = '$_[0]'::regclass" . ($_[1] ? " AND $_[1]" : '')) }
sub pages { return query("SELECT pg_relation_size('$_[0]') / 8192") }

# ---- many clients

query('CREATE TABLE many (client int, n bigint GENERATED ALWAYS AS IDENTITY, pad text)');
counted();
insert_by(8, 1000, "INSERT INTO many (client, pad) SELECT :client_id, repeat('p', 700) FROM generate_series(1, 10);\n");
is(query('SELECT count(*), count(DISTINCT n) FROM many'), '80000|80000', 'every row is there');
my $c = counted();
note explain $c;
my $sum = $c->{lease} + $c->{map} + $c->{extension} + $c->{last_page} + $c->{target_block};
cmp_ok($c->{lease} / $sum, '>=', 0.9, "of $sum pages, nine in ten are from leases");
cmp_ok($sum, '>=', pages('many') * 0.95, 'nearly every page was handed out through the module');
my $mixed = query('SELECT count(*) FROM (SELECT FROM many GROUP BY (ctid::text::point)[0] HAVING count(DISTINCT client) > 1) m');
cmp_ok($mixed, '<=', pages('many') / 50, "$mixed pages have rows of several clients");
cmp_ok($c->{new_pages} - pages('many'), '<=', 0, 'each new page was counted');
is(query(q{SELECT pg_relation_size('many', 'fsm')}), '0', 'no map was made to hold that pages are full');
query(q{CREATE TABLE alone (pad text); INSERT INTO alone SELECT repeat('p', 700) FROM generate_series(1, 6600)});
is(pages('alone'), '600', 'a table with one client grows page by page');

# ---- exits

# pgbench knows of no reply to its good-bye.
sub clients_left { $node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'}) or die }
clients_left();
my @short = map { session() } 1 .. 3;
$_->query_safe(q{INSERT INTO many (client, pad) VALUES (50, 'one')}) for @short;
is(leases('many', 'pid IS NOT NULL'), '3', 'three backends, three leases');
$_->quit for @short;
clients_left();
is(leases('many', 'pid IS NOT NULL'), '0', 'leases of backends that are gone are nobody\'s');
my $free = leases('many');
cmp_ok($free, '>=', 3, '... and not lost');
my $size = pages('many');
my $a = session();
$a->query_safe('INSERT INTO many (client, pad) SELECT 100, repeat(\'p\', 700) FROM generate_series(1, 15)');
is(pages('many'), $size, 'another backend goes on in them');
is(leases('many', 'pid = ' . $a->query_safe('SELECT pg_backend_pid()')), '1', '... in one of them');

# ---- VACUUM makes them the map's

query('VACUUM many');
is(leases('many', 'pid IS NULL'), '0', 'VACUUM leaves nobody\'s leases to the map');
cmp_ok(query(q{SELECT count(*) FROM pg_freespace('many') WHERE avail > 8000}), '>', 0, '... where their pages are free');
is(query(q{SELECT count(*) FROM pg_freespace('many') f JOIN steady_fsm_leases l
	ON l.relation = 'many'::regclass AND f.blkno BETWEEN l.first_block AND l.first_block + 31 AND l.pages = 32 WHERE avail > 0}), '0',
	'what is leased is not in the map');
my $b = session();
$b->query_safe('INSERT INTO many (client, pad) SELECT 101, repeat(\'p\', 700) FROM generate_series(1, 15)');
is(pages('many'), $size, 'a backend without a lease finds them in the map');
cmp_ok(leases('many', 'pid = ' . $b->query_safe('SELECT pg_backend_pid()')), '>=', 1, '... and leases them');

# ---- time-out

query('CREATE TABLE idle (client int, pad text); ALTER TABLE idle ALTER pad SET STORAGE PLAIN');
query(q{INSERT INTO idle SELECT 0, repeat('p', 7000) FROM generate_series(1, 2000)});
query(q{DELETE FROM idle WHERE (ctid::text::point)[0] BETWEEN 1000 AND 1099; VACUUM idle});
$a->query_safe(q{INSERT INTO idle SELECT 1, repeat('p', 7000) FROM generate_series(1, 32)});
my $held = query(q{SELECT pid, first_block FROM steady_fsm_leases WHERE relation = 'idle'::regclass AND pages > 10 AND pid IS NOT NULL});
like($held, qr/^\d+\|\d+$/, 'a backend leases many pages, and goes idle') or BAIL_OUT('no lease to wait for');
my ($first) = $held =~ /\|(\d+)/;
counted();
$b->query_safe(q{INSERT INTO idle SELECT 2, repeat('p', 7000) FROM generate_series(1, 100)});
is(counted()->{adopted_idle}, 0, 'they are its own for a while');
query(q{ALTER SYSTEM SET steady.fsm_timeout = 1});
$node->reload;
$node->poll_query_until('postgres', q{SELECT idle_seconds > 2 FROM steady_fsm_leases WHERE relation = 'idle'::regclass AND first_block = } . $first) or die;
wait_for('the other lease to be used up', sub {
	$b->query_safe(q{INSERT INTO idle SELECT 2, repeat('p', 7000) FROM generate_series(1, 10)});
	return query("SELECT count(*) FROM steady_fsm_leases WHERE relation = 'idle'::regclass AND first_block = $first AND pid <> " . ($held =~ s/\|.*//r)) == 1;
});
cmp_ok(counted()->{adopted_idle}, '>=', 1, 'then another backend takes them over, before the table grows further');
$a->query_safe(q{INSERT INTO idle SELECT 1, repeat('p', 7000) FROM generate_series(1, 10)});
is(query('SELECT count(*) FROM (SELECT FROM idle WHERE client > 0 AND length(pad) > 100 GROUP BY (ctid::text::point)[0] HAVING count(DISTINCT client) > 1) m'),
	'0', '... and the first one stays away from them');
query(q{ALTER SYSTEM RESET steady.fsm_timeout});
$node->reload;

# ---- what removes pages

sub filled
{
	my ($table) = @_;
	query("CREATE TABLE $table (client int, pad text)");
	query("INSERT INTO $table SELECT 0, repeat('p', 700) FROM generate_series(1, 10000)");
	insert_by(4, 20, "INSERT INTO $table SELECT :client_id, repeat('p', 700) FROM generate_series(1, 10);\n");
	clients_left_of($table);
}
sub clients_left_of
{
	my ($table) = @_;
	$node->poll_query_until('postgres', "SELECT count(*) > 0 AND bool_and(pid IS NULL) FROM steady_fsm_leases WHERE relation = '$table'::regclass")
	  or die "no leases of $table";
}
sub stored { return query("SELECT pg_relation_filenode('$_[0]')") }
sub leases_of_file { return query("SELECT count(*) FROM steady_fsm_runs() WHERE relfilenode = $_[0]") }

filled('gone');
my $file = stored('gone');
cmp_ok(leases_of_file($file), '>', 0, 'a table has leases');
query('DROP TABLE gone');
is(leases_of_file($file), '0', 'DROP TABLE');

filled('moved');
$file = stored('moved');
query(q{CREATE TABLESPACE other LOCATION ''});
query('ALTER TABLE moved SET TABLESPACE other');
is(leases_of_file($file), '0', 'ALTER TABLE SET TABLESPACE');
$a->query_safe(q{INSERT INTO moved SELECT 1, repeat('p', 700) FROM generate_series(1, 100)});
is(query('SELECT count(*) FROM moved'), '10900', '... and on with inserts');
cmp_ok(leases('moved'), '>', 0, '... and leases, where it is now');

$file = stored('moved');
query('TRUNCATE moved');
is(leases_of_file($file), '0', 'TRUNCATE');
query('BEGIN; CREATE TABLE never (i int); INSERT INTO never VALUES (1); ROLLBACK');

filled('short');
$size = pages('short');
query(q{DELETE FROM short WHERE (ctid::text::point)[0] >= 200});
$a->query_safe(q{INSERT INTO short VALUES (1, 'one')});
query(q{DELETE FROM short WHERE (ctid::text::point)[0] >= 200});
query('VACUUM short');
cmp_ok(pages('short'), '<', $size, 'VACUUM truncates a table');
is(query(q{SELECT count(*) FROM steady_fsm_leases WHERE relation = 'short'::regclass AND first_block >= } . pages('short')), '0',
	'... and no lease is beyond its end');
my $rows = query('SELECT count(*) FROM short');
$a->query_safe(q{INSERT INTO short SELECT 1, repeat('p', 700) FROM generate_series(1, 1000)});
insert_by(4, 20, "INSERT INTO short SELECT :client_id, repeat('p', 700) FROM generate_series(1, 10);\n");
is(query('SELECT count(*) FROM short'), $rows + 1800, '... and on with inserts');

query('CREATE DATABASE other');
my $there = session('other');
$there->query_safe(q{CREATE TABLE t AS SELECT repeat('p', 700) FROM generate_series(1, 10000)});
$there->query_safe(q{INSERT INTO t SELECT repeat('p', 700) FROM generate_series(1, 100)});
$there->quit;
my $database = query(q{SELECT oid FROM pg_database WHERE datname = 'other'});
my $in_database = "SELECT count(*) FROM steady_fsm_runs() WHERE database = $database";
cmp_ok(query($in_database), '>', 0, 'a database has leases');
query('ALTER DATABASE other SET TABLESPACE other');
is(query($in_database), '0', 'ALTER DATABASE SET TABLESPACE');
$there = session('other');
$there->query_safe(q{INSERT INTO t SELECT repeat('p', 700) FROM generate_series(1, 100)});
is($there->query_safe('SELECT count(*) FROM t'), '10200', '... and on with inserts');
$there->quit;
cmp_ok(query($in_database), '>', 0, '... and leases');
query('DROP DATABASE other');
is(query($in_database), '0', 'DROP DATABASE');

# ---- rows of any width, pages that close and open again

query(q{CREATE TABLE wide (client int, pad text); ALTER TABLE wide ALTER pad SET STORAGE PLAIN});
query(q{CREATE TABLE loose (LIKE wide INCLUDING STORAGE) WITH (fillfactor = 40)});
insert_by(6, 300, <<'SQL');
\set width random_exponential(1, 7900, 5)
INSERT INTO wide SELECT :client_id, repeat('w', (:width * i) % 7900) FROM generate_series(1, 5) i;
INSERT INTO loose SELECT :client_id, repeat('w', (:width * i) % 7900) FROM generate_series(1, 5) i;
\if :width % 7 = 0
DELETE FROM wide WHERE ctid IN (SELECT ctid FROM wide WHERE client = :client_id LIMIT 3);
UPDATE loose SET pad = repeat('x', :width) WHERE ctid IN (SELECT ctid FROM loose WHERE client = :client_id LIMIT 2);
\endif
SQL
is(query('SELECT count(*) FROM loose'), '9000', 'rows of all widths find a page');
query('VACUUM wide, loose');

query(q{CREATE TABLE closed (i int, pad text); INSERT INTO closed SELECT i, repeat('p', 800) FROM generate_series(1, 9000) i});
query(q{DELETE FROM closed WHERE i % 9 = 0; VACUUM closed});
is(query(q{SELECT count(*) FROM pg_freespace('closed') WHERE avail > 0 AND blkno < 900}), '0', 'pages with a little space stay closed');
query(q{ALTER SYSTEM SET steady.fsm_reopen = 5});
$node->reload;
$node->poll_query_until('postgres', q{SELECT setting = '5' FROM pg_settings WHERE name = 'steady.fsm_reopen'}) or die;
query(q{VACUUM (DISABLE_PAGE_SKIPPING) closed});
cmp_ok(query(q{SELECT count(*) FROM pg_freespace('closed') WHERE avail > 0 AND blkno < 900}), '>', 800, '... until so much counts as open');
query(q{ALTER SYSTEM RESET steady.fsm_reopen});
$node->reload;

query(q{SELECT steady_fsm_reopen('closed', 5)});
query(q{DELETE FROM closed WHERE i % 9 = 1; VACUUM closed});
cmp_ok(query(q{SELECT count(*) FROM pg_freespace('closed') WHERE avail > 0 AND blkno < 900}), '>', 800, '... or counts for this table');
like($node->safe_psql('postgres', q{SELECT provider, label FROM pg_seclabels WHERE objoid = 'closed'::regclass}), qr/^steady\|fsm_reopen=5$/, '... by a label');
query(q{SELECT steady_fsm_reopen('closed', NULL); DELETE FROM closed WHERE i % 9 = 2; VACUUM (DISABLE_PAGE_SKIPPING) closed});
cmp_ok(query(q{SELECT count(*) FROM pg_freespace('closed') WHERE avail > 0 AND avail < 2048 AND blkno < 900}), '==', 0, '... and for it no more');
(undef, undef, $err) = $node->psql('postgres', q{SELECT steady_fsm_reopen('closed', 101)});
like($err, qr/101 is not between 0 and 100 per cent/, 'what is no percentage');
(undef, undef, $err) = $node->psql('postgres', q{SET steady.fsm_labels = on; SECURITY LABEL FOR steady ON TABLE closed IS 'fsm_reopen=1x'});
like($err, qr/invalid label of "steady": "fsm_reopen=1x"/, '... neither as a label');
(undef, undef, $err) = $node->psql('postgres', q{CREATE ROLE nobody; SET ROLE nobody; SELECT steady_fsm_reopen('closed', 10)});
like($err, qr/must be owner of table closed/, '... nor by somebody else');

# ---- off, and on again

query(q{ALTER SYSTEM SET steady.fsm = off});
$node->reload;
$node->poll_query_until('postgres', q{SELECT setting = 'off' FROM pg_settings WHERE name = 'steady.fsm'}) or die;
counted();
query('CREATE TABLE core (client int, pad text)');
insert_by(4, 50, "INSERT INTO core SELECT :client_id, repeat('p', 700) FROM generate_series(1, 10);\n");
is_deeply({ %{ counted() } }, { map { $_ => 0 } keys %before }, 'off: no page comes from the module');
is(query(q{SELECT count(*) FROM steady_fsm_leases WHERE relation = 'core'::regclass}), '0', '... nor is one leased');
cmp_ok(query(q{SELECT pg_relation_size('core', 'fsm')}), '>', 0, '... and the map is made as the server makes it');
query('DELETE FROM many WHERE n % 2 = 0; VACUUM many');
query(q{ALTER SYSTEM SET steady.fsm = on});
$node->reload;
$node->poll_query_until('postgres', q{SELECT setting = 'on' FROM pg_settings WHERE name = 'steady.fsm'}) or die;
$size = pages('many');
insert_by(4, 50, "INSERT INTO many (client, pad) SELECT 200, repeat('p', 700) FROM generate_series(1, 10);\n");
is(query('SELECT count(*) FROM many WHERE client = 200'), '2000', 'on again: inserts go on');
cmp_ok(pages('many') - $size, '<', 20, '... in the space that VACUUM found meanwhile');

# ---- standby and promotion

my $standby = start_standby($node, 'standby');
insert_by(4, 100, "INSERT INTO many (client, pad) SELECT 300, repeat('p', 700) FROM generate_series(1, 10);\n");
query(q{DELETE FROM many WHERE client = 200; VACUUM many; DROP TABLE closed; TRUNCATE loose});
replayed($node, $standby);
is($standby->safe_psql('postgres', 'SELECT count(*) FROM many WHERE client = 300'), '4000', 'a standby follows');
is($standby->safe_psql('postgres', 'SELECT runs FROM steady_fsm_stats'), '0', '... without leases');
$_->quit for $a, $b;
$node->stop;
$standby->promote;
$standby->safe_psql('postgres', q{INSERT INTO many (client, pad) SELECT 400, repeat('p', 700) FROM generate_series(1, 3000)});
is($standby->safe_psql('postgres', 'SELECT count(*) FROM many WHERE client >= 300'), '7000', 'promoted, it takes rows');
cmp_ok($standby->safe_psql('postgres', 'SELECT lease + extension FROM steady_fsm_stats'), '>', 50, '... through the module');
$standby->safe_psql('postgres', 'VACUUM many');
$standby->stop;

# ---- not preloaded

$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
my $offset = -s $node->logfile;
$node->start;
($status, $out, $err) = $node->psql('postgres', q{LOAD 'steady'; SHOW steady.fsm});
is($out, 'off', 'not preloaded: off');
my $needs = qr/"steady.fsm" needs shared memory, which this library does not have/;
like($err, qr/WARNING:  $needs/, '... with a warning');
($status, $out, $err) = $node->psql('postgres', q{LOAD 'steady'; ALTER SYSTEM SET steady.fsm = on});
like($err, qr/ERROR:  $needs\nHINT:  Add "steady" to "shared_preload_libraries", and restart the server\./, '... and an error when asked for');
($status, $out, $err) = $node->psql('postgres', 'SELECT * FROM steady_fsm_stats');
like($err, qr/there are no leases, since this library has no shared memory/, '... as is its view');
is($node->safe_psql('postgres', q{INSERT INTO wide VALUES (1000, 'p'); SELECT count(*) FROM wide WHERE client = 1000}), '1', '... while inserts go on');
$node->stop;

is(join("\n", map { log_lines($_, qr/PANIC|TRAP|could not read block|beyond/) } $node, $standby), '', 'no complaints in the logs');
done_testing();

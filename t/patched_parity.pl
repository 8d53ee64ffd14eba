# What a server with the parity patch lets a steady index be: the index of a constraint, of a foreign key, of ON CONFLICT;
# what a dump makes of it; and a schema whose btree indexes are all replaced.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $node = new_node('main');
$node->start;
prepare($node);
my ($status) = $node->psql('postgres', q{LOAD 'steady'; SET steady.replace_btree = on});
plan skip_all => 'this server lacks the patches' if $status != 0;

my $methods = q{SELECT string_agg(a.amname || ' ' || c.relname, ', ' ORDER BY c.relname COLLATE "C") FROM pg_index i
	JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam WHERE i.indrelid = '%s'::regclass};

sub methods_are
{
	my ($table, $expected, $what, $database) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql($database // 'postgres', sprintf($methods, $table)), $expected, $what);
}

sub fails
{
	my ($sql, $expected, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($status, undef, $err) = $node->psql('postgres', $sql);
	isnt($status, 0, $what);
	like($err, $expected, "... with a reason");
}

# ---- constraints

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE parent (id int PRIMARY KEY WITH (access_method = steady), code text UNIQUE WITH (access_method = steady, fillfactor = 80), n int);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE, code text REFERENCES parent (code) ON UPDATE CASCADE);
INSERT INTO parent SELECT i, 'c' || i, i % 10 FROM generate_series(1, 1000) i;
INSERT INTO child SELECT i, i, 'c' || i FROM generate_series(1, 500) i;
SQL
methods_are('parent', 'steady parent_code_key, steady parent_pkey', 'constraints name a method');
fails('INSERT INTO parent VALUES (1)', qr/duplicate key value violates unique constraint "parent_pkey"/, 'a second row');
fails('INSERT INTO parent VALUES (NULL)', qr/null value in column "id"/, 'a primary key is not null');
fails(q{INSERT INTO child VALUES (501, 5000)}, qr/violates foreign key constraint/, 'a foreign key');
fails(q{INSERT INTO child VALUES (501, 1, 'none')}, qr/violates foreign key constraint/, 'a foreign key to a unique constraint');
$node->safe_psql('postgres', q{DELETE FROM parent WHERE id = 7; UPDATE parent SET code = 'eight' WHERE id = 8});
is($node->safe_psql('postgres', q{SELECT count(*) || ' ' || min(code) FILTER (WHERE id = 8) FROM child WHERE id IN (7, 8)}), '1 eight', 'foreign keys cascade');

is($node->safe_psql('postgres', q{INSERT INTO parent VALUES (1, 'x', 0), (2000, 'new', 1) ON CONFLICT DO NOTHING RETURNING id}), '2000', 'ON CONFLICT DO NOTHING');
is($node->safe_psql('postgres', q{INSERT INTO parent VALUES (2, 'x', 77) ON CONFLICT (id) DO UPDATE SET n = excluded.n RETURNING code, n}), 'c2|77', '... (column) DO UPDATE');
is($node->safe_psql('postgres', q{INSERT INTO parent VALUES (3000, 'c3', 78) ON CONFLICT ON CONSTRAINT parent_code_key DO UPDATE SET n = excluded.n RETURNING id, n}), '3|78', '... ON CONSTRAINT');
$node->safe_psql('postgres', q{CREATE TABLE pattern (t text COLLATE "C"); CREATE UNIQUE INDEX ON pattern USING steady (t text_pattern_ops); INSERT INTO pattern VALUES ('x')});
is($node->safe_psql('postgres', q{INSERT INTO pattern VALUES ('x'), ('y') ON CONFLICT (t text_pattern_ops) DO NOTHING RETURNING t}), 'y', '... (column operator class): btree\'s names it');
fails(q{INSERT INTO pattern VALUES ('x') ON CONFLICT (t text_ops) DO NOTHING}, qr/no unique or exclusion constraint matching/, '... another one');
is($node->safe_psql('postgres', q{SELECT count(*) FROM (SELECT id, code FROM parent GROUP BY id) s}), '1000', 'a primary key is what GROUP BY takes it for');

fails('CREATE TABLE bad (id int PRIMARY KEY WITH (access_method = none))', qr/access method "none" does not exist/, 'no such method');
fails('CREATE TABLE bad (id int PRIMARY KEY WITH (access_method = hash))', qr/access method "hash" does not support unique indexes/, 'one that is not unique');
fails('CREATE TABLE bad (id point PRIMARY KEY WITH (access_method = steady))', qr/has no default operator class for access method "steady"/, 'a type without an order');
fails('CREATE INDEX ON child USING steady (id) WITH (access_method = btree)', qr/invalid value for option "access_method": "btree"/, 'an index of another method than it says');
fails('CREATE INDEX ON child USING btree (id) WITH (access_method = steady)', qr/unrecognized parameter "access_method"/, '... or of btree');

# ---- USING INDEX

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE u (a int NOT NULL, b int NOT NULL, c text);
INSERT INTO u SELECT i, -i, 'u' FROM generate_series(1, 1000) i;
CREATE UNIQUE INDEX u_a ON u USING steady (a) WITH (fillfactor = 70);
CREATE UNIQUE INDEX u_b ON u USING steady (b);
CREATE UNIQUE INDEX u_plain ON u (a, b);
CREATE UNIQUE INDEX u_desc ON u USING steady (a DESC);
ALTER TABLE u ADD PRIMARY KEY USING INDEX u_a, ADD CONSTRAINT u_unique UNIQUE USING INDEX u_b DEFERRABLE INITIALLY DEFERRED, ADD UNIQUE USING INDEX u_plain;
SQL
methods_are('u', 'steady u_a, steady u_desc, btree u_plain, steady u_unique', 'indexes are taken over');
is($node->safe_psql('postgres', q{SELECT string_agg(relname || coalesce(reloptions::text, ''), ' ' ORDER BY relname COLLATE "C") FROM pg_class WHERE relname ~ '^u_'}),
	'u_a{fillfactor=70,access_method=steady} u_desc u_plain u_unique{access_method=steady}', '... and tell their method');
fails('ALTER TABLE u ADD UNIQUE USING INDEX u_desc', qr/does not have default sorting behavior/, 'but not one in another order');
$node->safe_psql('postgres', 'DROP INDEX u_desc');
# Renamed by the constraint, in a command that does nothing else.
$node->safe_psql('postgres', 'CREATE UNIQUE INDEX u_c ON u USING steady (a, b); ALTER TABLE u ADD CONSTRAINT u_both UNIQUE USING INDEX u_c');
methods_are('u', 'steady u_a, steady u_both, btree u_plain, steady u_unique', '... under their constraints\' names');
$node->safe_psql('postgres', 'ALTER TABLE u DROP CONSTRAINT u_both');
fails('BEGIN; INSERT INTO u VALUES (2000, -1); INSERT INTO u VALUES (2001, -2); COMMIT', qr/violates unique constraint "u_unique"/, 'deferred');
$node->safe_psql('postgres', 'BEGIN; INSERT INTO u VALUES (2000, -1); UPDATE u SET b = -2000 WHERE a = 1; COMMIT');

# ---- partitions, LIKE, types, materialized views

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE part (k int, v int, PRIMARY KEY (k, v) WITH (access_method = steady)) PARTITION BY RANGE (k);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (100);
CREATE TABLE part2 (k int NOT NULL, v int NOT NULL);
ALTER TABLE part ATTACH PARTITION part2 FOR VALUES FROM (100) TO (200);
CREATE TABLE same (LIKE parent INCLUDING ALL);
CREATE TABLE refers (k int, v int, FOREIGN KEY (k, v) REFERENCES part);
INSERT INTO part SELECT i, i FROM generate_series(0, 199) i;
ALTER TABLE same ALTER id TYPE bigint, ALTER code TYPE varchar(50);
CREATE MATERIALIZED VIEW m AS SELECT id, n FROM parent;
CREATE UNIQUE INDEX m_id ON m USING steady (id);
REFRESH MATERIALIZED VIEW CONCURRENTLY m;
SQL
methods_are('part1', 'steady part1_pkey', 'a partition');
methods_are('part2', 'steady part2_pkey', 'one that is attached');
methods_are('same', 'steady same_code_key, steady same_pkey', 'LIKE, and a type that changes');
fails('INSERT INTO part VALUES (150, 150)', qr/violates unique constraint "part2_pkey"/, 'unique over partitions');
is($node->safe_psql('postgres', 'SELECT count(*) FROM m'), '1000', 'REFRESH MATERIALIZED VIEW CONCURRENTLY');

# ---- the planner

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE w (a int, b int, c int);
INSERT INTO w SELECT i % 100, i, i FROM generate_series(1, 20000) i;
CREATE INDEX w_ab ON w USING steady (a, b);
CREATE UNIQUE INDEX w_c ON w USING steady (c);
VACUUM ANALYZE w;
SQL
my $query = 'SELECT a, b FROM w WHERE (a, b) > (50, 10000) AND (a, b) <= (60, 100) ORDER BY a, b';
my $plan = $node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN (COSTS OFF) $query");
like($plan, qr/Index Cond: \(\(ROW\(a, b\) > ROW\(50, 10000\)\) AND \(ROW\(a, b\) <= ROW\(60, 100\)\)\)/, 'row comparisons are index conditions');
is($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT md5(string_agg(a || ' ' || b, ',')) FROM ($query) q"),
	$node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SELECT md5(string_agg(a || ' ' || b, ',')) FROM ($query) q"),
	'... with the same rows');
like($node->safe_psql('postgres', 'EXPLAIN (COSTS OFF) SELECT x.a FROM w x LEFT JOIN w y ON y.c = x.b'), qr/^Seq Scan on w x$/, 'uniqueness proves that a join changes nothing');
# The histogram ends at 20000, so nothing seems to be behind; the index knows better, and its last hundredth reaches far.
$node->safe_psql('postgres', 'INSERT INTO w SELECT 1, i, i FROM generate_series(20001, 40000) i');
my ($rows) = $node->safe_psql('postgres', 'EXPLAIN SELECT * FROM w WHERE c > 20000') =~ /rows=(\d+)/;
cmp_ok($rows, '>', 100, q{the planner looks at the index's end});

# ---- dump and reload

my $dump = $node->basedir . '/dump.sql';
$node->run_log([ 'pg_dump', '--no-sync', '-f', $dump, '-d', $node->connstr('postgres') ]) or die 'pg_dump';
$node->safe_psql('postgres', 'CREATE DATABASE again');
command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('again') ], 'a dump is read back');
for my $table (qw(parent child u part1 part2 same))
{
	methods_are($table, $node->safe_psql('postgres', sprintf($methods, $table)), "$table: the same indexes", 'again');
}
is($node->safe_psql('again', q{SELECT count(*) FROM pg_constraint WHERE conindid <> 0}), $node->safe_psql('postgres', q{SELECT count(*) FROM pg_constraint WHERE conindid <> 0}), 'and constraints');

# ---- all of a schema

$node->safe_psql('postgres', <<'SQL');
LOAD 'steady';
SET steady.replace_btree = on;
CREATE SCHEMA app;
SET search_path = app;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b int);
CREATE TABLE customer (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL, m mood, p positive, pairs pair, tags text[], UNIQUE (name, m));
CREATE INDEX customer_m ON customer (m);
CREATE INDEX customer_lower ON customer (lower(name) text_pattern_ops DESC NULLS LAST) INCLUDE (p) WITH (fillfactor = 50) WHERE p > 5;
CREATE INDEX customer_p ON customer USING btree (p, pairs, tags pg_catalog.array_ops);
CREATE INDEX customer_hash ON customer USING hash (name);
CREATE TABLE orders (id int PRIMARY KEY, customer int REFERENCES customer, during int4range) PARTITION BY RANGE (id);
CREATE TABLE orders1 PARTITION OF orders FOR VALUES FROM (0) TO (1000);
CREATE TABLE slot (s int, EXCLUDE USING btree (s WITH =));
CREATE OPERATOR CLASS odd FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int);
CREATE INDEX customer_odd ON customer (id odd);
SQL
pass('a schema of btree indexes');
methods_are('app.customer', 'hash customer_hash, steady customer_lower, steady customer_m, steady customer_name_m_key, btree customer_odd, steady customer_p, steady customer_pkey', '... is one of steady indexes');
methods_are('app.orders1', 'steady orders1_pkey', '... in partitions, too');
methods_are('app.slot', 'steady slot_s_excl', '... for exclusion constraints');
is(scalar(() = log_lines($node, qr/index on table "customer" stays btree's/)), 1, 'the log says what stays, and why');
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE app.old (id int PRIMARY KEY, v varchar(10)) PARTITION BY RANGE (id);
CREATE TABLE app.wide (id int PRIMARY KEY, v varchar(10) UNIQUE);
SQL
my (undef, undef, $said) = $node->psql('postgres', <<'SQL');
LOAD 'steady';
SET steady.replace_btree = on;
SET client_min_messages = log;
CREATE TABLE app.old1 PARTITION OF app.old FOR VALUES FROM (0) TO (1000);
ALTER TABLE app.wide ALTER v TYPE varchar(20);
CREATE INDEX ON app.customer (id app.odd);
SQL
unlike($said, qr/btree\'s/, '... and not the session');
methods_are('app.old1', 'btree old1_pkey', 'a partition has what its parent has');
like(join('', log_lines($node, qr/index on table "(old1|wide)" stays|DETAIL:  Here/)), qr/"old1" stays.*the index of the partitioned table is btree's.*"wide" stays.*its storage is kept/s, '... and the log says so, and of storage that is kept');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid < 16384 AND amname = 'steady'}), '0', 'catalogs are left alone');
$node->safe_psql('postgres', 'INSERT INTO app.customer (name, m) SELECT i::text, m FROM generate_series(1, 100) i, unnest(enum_range(NULL::app.mood)) m');
fails(q{INSERT INTO app.customer (name, m) VALUES ('5', 'ok')}, qr/violates unique constraint "customer_name_m_key"/, 'they hold');
fails(q{INSERT INTO app.slot VALUES (1), (1)}, qr/conflicting key value violates exclusion constraint "slot_s_excl"/, '... also those of exclusion');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM (SELECT steady_verify(c.oid::regclass, heapallindexed => true)
	FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE amname = 'steady' AND relkind = 'i') v}), '>=', 15, 'all indexes are right');
$node->stop;
done_testing();

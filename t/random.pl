# Random tables, indexes, changes by several sessions, and queries: what a steady index finds is what a btree and what a
# sequential scan find under the same snapshot, in the order of its keys, and what an old snapshot sees never changes.
#
# STEADY_SEED=N repeats the schemas, the queries and each session's changes (not how they meet); STEADY_LONG=1 goes on for
# many more rounds.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $seed = seed();
my $schemas = is_long() ? 250 : 6;
my $queries = is_long() ? 40 : 12;  # of each phase
my $sessions = 3;

sub pick { return $_[ rand @_ ] }
sub chance { return rand() < $_[0] }

my $node = new_node('main', "max_parallel_workers_per_gather = 2\nmin_parallel_index_scan_size = 0\nmin_parallel_table_scan_size = 1GB");
$node->start;
prepare($node);

# A table in two copies, steady_t with a steady index and btree_t with the same one of btree's: each change is made to
# both, by sessions that don't touch one another's rows. The functions get by with what both have: `id`, make_row() and
# the predicate that is the index's.
$node->safe_psql('postgres', <<'SQL');
CREATE SCHEMA r;
CREATE SEQUENCE r.ids;
-- A value's number, from which it is made: few different ones, and NULLs
CREATE FUNCTION r.number(id bigint, version int, col int, domain int) RETURNS int LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN h % 13 = 5 THEN NULL ELSE h % domain END
	FROM (SELECT (hashint8extended(id * 64 + version % 64, col) & 2147483647)::int AS h) s
$$;
CREATE FUNCTION r.attempt(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 'done';
EXCEPTION WHEN unique_violation THEN
	RETURN sqlstate;
END $$;
-- One session's change. The sequence numbers batches of ten ids for each session.
CREATE FUNCTION r.change(session int, sessions int, random int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	kind int := random % 20;
	batch bigint := CASE WHEN kind < 9 THEN nextval('r.ids') ELSE greatest(0, (SELECT last_value FROM r.ids) - (random / 20) % 80) END;
	many int := CASE kind WHEN 14 THEN 20 WHEN 18 THEN 1000 WHEN 19 THEN 5 ELSE 4 END;
	low bigint := CASE WHEN kind = 18 THEN 0 ELSE batch * 10 * sessions END;
	high bigint := CASE WHEN kind = 18 THEN batch - 60 ELSE batch + many END * 10 * sessions;
	mine text := format('id %% %s = %s AND id >= %s AND id < %s', sessions, session, low, high);
	col text := r.some_column(random / 7);
	command text; outcome text; other text;
BEGIN
	command := CASE
		WHEN kind < 9 THEN format('INSERT INTO {} SELECT (r.make_row(i * %s + %s, 0)).* FROM generate_series(%s, %s) i', sessions, session,
			batch * 10, batch * 10 + kind)
		WHEN kind < 14 THEN format('UPDATE {} t SET %1$s = (SELECT m.%1$s FROM r.make_row(t.id, %2$s) m) WHERE %3$s', col, random % 64, mine)
		WHEN kind = 14 THEN 'UPDATE {} SET n = n + 1 WHERE ' || mine
		WHEN kind < 19 THEN 'DELETE FROM {} WHERE ' || mine
		-- a row that is there already, perhaps
		ELSE format('INSERT INTO {} SELECT (r.make_row(id, 1)).* FROM {} WHERE %s ORDER BY id LIMIT 1', mine) END;
	outcome := r.attempt(replace(command, '{}', 'steady_t'));
	other := r.attempt(replace(command, '{}', 'btree_t'));
	IF outcome <> other THEN
		RAISE 'steady: %, btree: % for %', outcome, other, command;
	END IF;
END $$;

CREATE FUNCTION r.method(method text) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_' || m, CASE WHEN m = method THEN 'on' ELSE 'off' END, true)
	FROM unnest(ARRAY['seqscan', 'indexscan', 'indexonlyscan', 'bitmapscan', 'mergejoin']) m;
	SELECT set_config('enable_indexscan', 'on', true) WHERE method IN ('mergejoin', 'parallel');
	SELECT set_config('enable_nestloop', CASE WHEN method = 'nestloop' THEN 'on' ELSE 'off' END, true);
	SELECT set_config('enable_indexscan', 'on', true) WHERE method = 'nestloop';
	SELECT set_config('enable_hashjoin', CASE WHEN method = 'seqscan' THEN 'on' ELSE 'off' END, true);
	SELECT set_config('enable_sort', CASE WHEN method = 'seqscan' THEN 'on' ELSE 'off' END, true);
	SELECT set_config('parallel_setup_cost', CASE WHEN method = 'parallel' THEN '0' ELSE '1e9' END, true);
	SELECT set_config('parallel_tuple_cost', '0', true);
$$;
-- Number of rows, and a sum over them
CREATE FUNCTION r.digest(query text, method text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text; line text; plan text := '';
BEGIN
	PERFORM r.method(method);
	EXECUTE format('SELECT concat_ws('' '', count(*), sum(hashtextextended(q::text, 0))) FROM (%s) q', query) INTO result;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := plan || line;
	END LOOP;
	IF method <> 'seqscan' THEN
		PERFORM set_config('r.by_index', current_setting('r.by_index', true)
			|| CASE WHEN plan ~ 'Index.* (_i|steady_i|btree_i)' THEN '1' ELSE '0' END, false);
	END IF;
	RETURN result;
END $$;
-- The rows that an index scan finds, in its order. (Not by their ids: several rows may have the same.)
CREATE FUNCTION r.found(condition text, keys text, more text) RETURNS tid[] LANGUAGE plpgsql AS $$
DECLARE
	result tid[];
BEGIN
	PERFORM r.method('indexscan');
	EXECUTE format('SELECT array_agg(ctid) FROM (SELECT ctid FROM steady_t WHERE %s ORDER BY %s %s) q', condition, keys, more) INTO result;
	RETURN coalesce(result, '{}');
END $$;
-- A scrollable cursor that wanders about over the same rows; an error if it is ever at another one.
CREATE FUNCTION r.wander(condition text, keys text, rows tid[], steps int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	c refcursor; at int := 0; n int := cardinality(rows); here tid; hop int; expected tid;
BEGIN
	PERFORM r.method('indexscan');
	OPEN c SCROLL FOR EXECUTE format('SELECT ctid FROM steady_t WHERE %s ORDER BY %s', condition, keys);
	FOR i IN 1 .. steps LOOP
		hop := CASE WHEN random() < 0.5 THEN 1 ELSE 1 + (random() * random() * 400)::int END * CASE WHEN random() < 0.6 THEN 1 ELSE -1 END;
		FETCH RELATIVE hop FROM c INTO here;
		at := greatest(0, least(n + 1, at + hop));
		expected := rows[at];
		IF here IS DISTINCT FROM expected THEN
			RAISE 'cursor is at % where % was expected, after a step by % to %', here, expected, hop, at;
		END IF;
	END LOOP;
	CLOSE c;
END $$;

-- What is wrong with the answers to one query
CREATE FUNCTION r.check_query(condition text, forward text, backward text, columns text, first text, lim int)
RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	query text := 'SELECT * FROM %s WHERE ' || replace(condition, '%', '%%');
	expected text; got text; keys text; rows tid[]; ranks bigint[]; got_rows tid[]; method text;
BEGIN
	-- rows
	expected := r.digest(format(query, 'steady_t'), 'seqscan');
	FOREACH method IN ARRAY ARRAY['indexscan', 'bitmapscan', 'parallel'] LOOP
		got := r.digest(format(query, 'steady_t'), method);
		IF got <> expected THEN
			RETURN NEXT format('%s: %s, not %s', method, got, expected);
		END IF;
	END LOOP;
	got := r.digest(format(query, 'btree_t'), 'indexscan');
	IF got <> expected THEN
		RETURN NEXT format('btree: %s, not %s', got, expected);
	END IF;
	query := format('SELECT %s FROM steady_t WHERE %s', columns, condition);
	expected := r.digest(query, 'seqscan');
	got := r.digest(query, 'indexonlyscan');
	IF got <> expected THEN
		RETURN NEXT format('index-only: %s, not %s', got, expected);
	END IF;

	-- order
	FOREACH keys IN ARRAY ARRAY[forward, backward] LOOP
		PERFORM r.method('seqscan');
		EXECUTE format('SELECT array_agg(ctid ORDER BY rank), array_agg(rank ORDER BY rank)
			FROM (SELECT ctid, dense_rank() OVER (ORDER BY %s) AS rank FROM steady_t WHERE %s) s', keys, condition) INTO rows, ranks;
		FOREACH method IN ARRAY ARRAY['all', 'limit'] LOOP
			got_rows := r.found(condition, keys, CASE method WHEN 'limit' THEN 'LIMIT ' || lim ELSE '' END);
			IF (SELECT array_agg(ranks[array_position(rows, f)] ORDER BY n) FROM unnest(got_rows) WITH ORDINALITY u (f, n))
				IS DISTINCT FROM (CASE method WHEN 'limit' THEN ranks[:lim] ELSE ranks END) THEN
				RETURN NEXT format('order by %s, %s', keys, method);
			END IF;
			IF method = 'all' THEN
				PERFORM r.wander(condition, keys, got_rows, 30);
			END IF;
		END LOOP;
	END LOOP;

	-- joins: marks and restores, and look-ups
	query := format('SELECT a.id, b.id AS other FROM steady_t a JOIN steady_t b ON a.%1$s = b.%1$s
		WHERE a.id %% 8 = 0 AND b.id %% 8 < 3', first);
	expected := r.digest(query, 'seqscan');
	FOREACH method IN ARRAY ARRAY['mergejoin', 'nestloop'] LOOP
		got := r.digest(query, method);
		IF got <> expected THEN
			RETURN NEXT format('%s: %s, not %s', method, got, expected);
		END IF;
	END LOOP;
END $$;
SQL

# ---- random schemas

# A type: its name, how a value is made of a number %s, and other types that its family compares it with.
my @types = (
	[ 'int2', '(%s - 50)::int2', 'int4', 'int8' ],
	[ 'int4', '(%s * 20011 - 500000)', 'int2', 'int8' ],
	[ 'int8', '(%s::int8 * 10000000019 - 5000000000000)', 'int4', 'int2' ],
	[ 'text', q{(CASE %1$s %% 7 WHEN 0 THEN '' ELSE repeat(chr(97 + %1$s %% 5), %1$s %% 9) || %1$s END)} ],
	[ 'text COLLATE "C"', q{(chr(65 + %1$s %% 50) || repeat('-', %1$s %% 300))} ],
	[ 'varchar(400)', q{(repeat(md5((%1$s / 4)::text), %1$s %% 12))} ],
	[ 'numeric', q{(CASE %1$s %% 20 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' ELSE round((%1$s / 3)::numeric / 8, %1$s %% 5) END)} ],
	[ 'timestamptz', q{(CASE %1$s %% 30 WHEN 0 THEN '-infinity' ELSE timestamptz '2000-01-01 UTC' + %1$s * interval '7 hours' END)}, 'date' ],
	[ 'date', q{(date '1999-12-01' + %s)}, 'timestamp' ],
	[ 'uuid', 'md5(%s::text)::uuid' ],
	[ 'bool', '(%s %% 3 = 0)' ],
	[ 'float8', q{(CASE %1$s %% 20 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '0' ELSE (%1$s / 7.0) - 5 END)::float8}, 'float4' ],
	[ 'interval', q{(CASE %1$s %% 3 WHEN 0 THEN make_interval(days => %1$s / 3) ELSE make_interval(hours => 24 * (%1$s / 3)) END)} ],
	[ 'bytea', q{decode(md5(%s::text), 'hex')} ],
	[ '"char"', 'chr(40 + %s %% 80)::"char"' ],
	[ 'name', q{('n' || %s)::name} ],
	[ 'inet', q{('10.0.0.0'::inet + %s)} ],
	[ 'oid', '(%s + 1000)::oid' ],
);

sub value { my ($type, $number) = @_; return sprintf($type->[1] =~ s/%s/%1\$s/r, $number) }

sub make_schema
{
	# Every other time only what leaves may pack
	my @some = chance(0.5) ? (grep { $_->[0] =~ /^(int\d|date|timestamptz|uuid|bool|"char"|oid)/ } @types) : @types;
	my @columns = map { { name => "c$_", type => pick(@some), domain => pick(5, 30, 300, 100000) } } 1 .. 1 + int(rand(4));
	$_->{domain} = 100 for grep { $_->{type}[0] eq 'int2' } @columns;
	my @keys = map { { %$_, desc => chance(0.4), first => chance(0.5) } } grep { $_->{name} eq 'c1' || chance(0.75) } @columns;
	push @keys, { %{ $columns[0] }, desc => 0, first => 0 } if chance(0.05);  # the same column twice
	my %included = map { $_->{name} => 1 } grep { @some == @types && chance(0.3) } @columns;
	my $unique = chance(0.4);
	my $id = { name => 'id', type => [ 'int8', '%s::int8' ], domain => 50000, desc => chance(0.5), first => 0 };
	splice @keys, ($unique && chance(0.3) ? 0 : @keys), 0, $id if $unique;
	my $predicate = chance(0.25) ? pick('c1 IS NOT NULL', 'id % 3 <> 1', 'n = 0') : 'true';
	return { columns => \@columns, keys => \@keys, included => [ sort keys %included ], unique => $unique, predicate => $predicate };
}

sub order
{
	my ($schema, $back) = @_;
	return join ', ', map {
		"$_->{name} " . (($_->{desc} xor $back) ? 'DESC' : 'ASC') . ' NULLS ' . (($_->{first} xor $back) ? 'FIRST' : 'LAST')
	} @{ $schema->{keys} };
}

sub create_sql
{
	my ($schema) = @_;
	my @columns = @{ $schema->{columns} };
	my $number = 0;
	my $definition = join ', ', 'id bigint NOT NULL', 'n int DEFAULT 0', map { "$_->{name} $_->{type}[0]" } @columns;
	my $row = join ', ', 'id', '0', map { $number++; value($_->{type}, "r.number(id, version, $number, $_->{domain})") } @columns;
	my $index = sub {
		my ($method) = @_;
		return 'CREATE ' . ($schema->{unique} ? 'UNIQUE ' : '') . "INDEX ${method}_i ON ${method}_t USING $method (" . order($schema) . ')'
		  . (@{ $schema->{included} } ? ' INCLUDE (' . join(', ', @{ $schema->{included} }) . ')' : '')
		  . ($schema->{with} ? " WITH ($schema->{with})" : '')
		  . ($schema->{predicate} eq 'true' ? '' : " WHERE $schema->{predicate}");
	};
	my $names = join ', ', map { "'$_->{name}'" } @columns;
	return <<"SQL", $index->('steady'), $index->('btree');
DROP TABLE IF EXISTS steady_t, btree_t CASCADE;
SELECT setval('r.ids', 1);
CREATE TABLE steady_t ($definition);
CREATE TABLE btree_t ($definition);
CREATE OR REPLACE FUNCTION r.make_row(id bigint, version int) RETURNS steady_t LANGUAGE sql IMMUTABLE AS \$\$
	SELECT ($row)::steady_t
\$\$;
CREATE OR REPLACE FUNCTION r.some_column(random int) RETURNS text LANGUAGE sql IMMUTABLE AS \$\$
	SELECT (ARRAY[$names])[1 + random % @{[ scalar @columns ]}]
\$\$;
SQL
}

# ---- random queries

sub condition
{
	my ($schema) = @_;
	my @conditions;
	for my $key (@{ $schema->{keys} })
	{
		next unless chance(0.6);
		my $number = sub { return int(rand($key->{domain} * 1.05)) };
		my $cast = @{ $key->{type} } > 2 && chance(0.2) ? '::' . pick(@{ $key->{type} }[ 2 .. $#{ $key->{type} } ]) : '';
		my $constant = sub { return value($key->{type}, $number->()) . ($cast && $key->{type}[0] eq 'int8' && $cast =~ /int/ ? '' : $cast) };
		# int8 values don't fit into smaller types, nor int4's into int2
		$constant = sub { return pick('(-32768)', '(-1)', 0, 7, 100, 32767) . $cast } if $cast =~ /int/;
		push @conditions, pick(
			sub { "$key->{name} = " . $constant->() },
			sub { "$key->{name} " . pick('<', '<=', '>', '>=') . ' ' . $constant->() },
			sub { "$key->{name} BETWEEN " . $constant->() . ' AND ' . $constant->() },
			sub { "$key->{name} IS NULL" },
			sub { "$key->{name} IS NOT NULL" },
			sub { "$key->{name} = ANY (ARRAY[" . join(', ', map { $constant->() } 1 .. 1 + int(rand(6))) . "])" },
			sub { "$key->{name} " . pick('<', '>=') . ' ANY (ARRAY[' . $constant->() . ', NULL, ' . $constant->() . '])' })->();
	}
	push @conditions, $schema->{predicate} if $schema->{predicate} ne 'true';
	return join(' AND ', @conditions) || 'true';
}

sub check_queries
{
	my ($schema, $count) = @_;
	my %seen;
	my $columns = join ', ', grep { !$seen{$_}++ } map { $_->{name} } @{ $schema->{keys} };
	my @faults;
	my $sql = "SELECT set_config('r.by_index', '', false) IS NULL; SELECT setseed(" . rand() . ") IS NULL;\n";
	my @asked;
	for my $n (0 .. $count - 1)
	{
		my $condition = condition($schema);
		my $limit = 1 + int(rand(20));
		push @asked, $condition;
		# Data changes all the time: one snapshot for all answers.
		$sql .= "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT $n || ' ' || f FROM r.check_query(\$q\$$condition\$q\$, \$q\$"
		  . order($schema) . "\$q\$, \$q\$" . order($schema, 1) . "\$q\$, '$columns', '$schema->{keys}[0]{name}', $limit) f;\nCOMMIT;\n";
	}
	$sql .= "SELECT 'plans ' || current_setting('r.by_index');\n";
	my ($status, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 0);
	my ($plans) = $out =~ /^plans ([01]*)$/m;
	push @faults, map { /^(\d+) (.*)/ ? "$asked[$1]: $2" : () } split /\n/, $out;
	push @faults, grep { /ERROR|FATAL|PANIC|lost/ } split /\n/, $err;
	return (\@faults, $plans // '');
}

# ---- the test

my ($by_index, $all_plans) = (0, 0);
for my $round (1 .. $schemas)
{
	my $schema = make_schema();
	$schema->{with} = pick(undef, undef, 'fillfactor = ' . (30 + int(rand(71))), 'deduplicate_items = off');
	my ($tables, @indexes) = create_sql($schema);
	my $late = chance(0.4);  # indexes of filled tables
	my $describe = $indexes[0] =~ s/ON steady_t USING steady //r;
	my $fill = join '', map {
		"INSERT INTO $_ SELECT (r.make_row(i, 0)).* FROM generate_series(1, 1500) i ORDER BY hashint8(i);\n"
	} qw(steady_t btree_t);
	$node->safe_psql('postgres', "SET client_min_messages = error; $tables" . join(";\n", $late ? ($fill, @indexes) : (@indexes, $fill)) . ';');
	$node->safe_psql('postgres', "SELECT setval('r.ids', 1500 / (10 * $sessions) + 1); ANALYZE steady_t, btree_t");

	my @start = check_queries($schema, $queries / 4);
	is(join("\n", @{ $start[0] }), '', "$round: $describe" . ($late ? ', built' : ', filled'));

	# An old snapshot looks on while others write.
	my $old = $node->background_psql('postgres', on_error_stop => 0);
	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	my @old = map {
		my $condition = condition($schema);
		"SELECT r.digest(\$q\$SELECT * FROM steady_t WHERE $condition\$q\$, '%s')"
	} 1 .. 6;
	my @seen = map { $old->query_safe(sprintf $_, 'seqscan') } @old;

	my $load = load_start($node, $seed + $round, $sessions, (map { ("$_" => undef) } qw(insert@10 update@6 move@4 head@4 range@1 abort@1)),
		'change@30' => qq{
\\set random random(0, 2000000000)
SELECT r.change(:client_id, $sessions, :random);
}, 'vacuum@1' => q{
SELECT pg_try_advisory_lock(1) AS mine \gset
\if :mine
VACUUM steady_t, btree_t;
SELECT pg_advisory_unlock(1);
\endif
});
	my $from = $node->safe_psql('postgres', 'SELECT last_value FROM r.ids');
	for my $phase (1 .. 2)
	{
		load_until($node, "SELECT last_value > $from + 60 * $phase FROM r.ids");
		my @middle = check_queries($schema, $queries);
		is(join("\n", @{ $middle[0] }), '', "$round: while others write ($phase)");
		my @now = map { scalar $old->query(sprintf $_, pick(qw(indexscan indexscan bitmapscan parallel))) } @old;
		is_deeply(\@now, \@seen, "$round: what an old snapshot sees ($phase)") or diag join "\n", @old;
		$all_plans += length $middle[1];
		$by_index += $middle[1] =~ tr/1//;
	}
	load_stop($node, $load);
	is(join("\n", grep { /ERROR|FATAL|PANIC|steady:/ } split /\n/, slurp_file($node->basedir . '/load.log')), '', "$round: sessions saw no errors");
	my @end = check_queries($schema, $queries / 2);
	is(join("\n", @{ $end[0] }), '', "$round: with an old snapshot");
	is_deeply([ map { scalar $old->query(sprintf $_, 'indexscan') } @old ], \@seen, "$round: what an old snapshot sees");
	$old->query('COMMIT');
	$old->quit;
	$node->safe_psql('postgres', q{SELECT steady_verify('steady_i', true)});
	$node->safe_psql('postgres', q{VACUUM steady_t, btree_t; SELECT steady_verify('steady_i', true)});
	@end = check_queries($schema, $queries / 4);
	is(join("\n", @{ $end[0] }), '', "$round: after VACUUM");
}
cmp_ok($by_index, '>', $all_plans / 2, "$by_index of $all_plans plans used the index");
$node->stop;
done_testing();

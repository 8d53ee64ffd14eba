# What the TAP tests share: servers, the checks that end each of them, and a workload of all kinds of changes.
package Steady::Test;

use strict;
use warnings;
use Exporter 'import';
use List::Util 'min';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(is_long seed new_node prepare indexes_ok log_lines wait_for start_standby replayed pages_equal @changes run_change load_setup load_start load_until load_stop psql_start kill_server need_fsm_hook);

# STEADY_LONG=1 asks for the long form of random tests and loops.
sub is_long { return $ENV{STEADY_LONG} ? 1 : 0 }

# Every random choice comes from one seed, which repeats a failure.
sub seed
{
	my $seed = $ENV{STEADY_SEED} || 1 + int(rand(2**31 - 1));
	srand($seed);
	note "STEADY_SEED=$seed repeats this run";
	return $seed;
}

# A server that does nothing by itself. $settings: more lines for its configuration.
sub new_node
{
	my ($name, $settings, %init) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(%init);
	$node->append_conf('postgresql.conf', <<"CONF");
autovacuum = off
fsync = off
jit = off
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
log_min_messages = warning
@{[ $settings // '' ]}
CONF
	return $node;
}

# The extension, and functions in schema st that compare what scans of steady indexes find with a sequential scan.
sub prepare
{
	my ($node) = @_;
	$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION steady;
CREATE SCHEMA st;
CREATE VIEW st.index AS
	SELECT i.indexrelid::regclass AS index, c.relname AS name, i.indrelid::regclass AS tab, i.indexprs IS NOT NULL AS computed,
		coalesce(pg_get_expr(i.indpred, i.indrelid), 'true') AS predicate, pg_get_indexdef(i.indexrelid, 1, false) AS first
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
	WHERE a.amname = 'steady' AND c.relkind = 'i' AND i.indisvalid AND i.indislive
		AND (c.relpersistence <> 't' OR pg_my_temp_schema() = c.relnamespace);

-- The key columns of an index; with what makes them an order that the index gives, or its reverse
CREATE FUNCTION st.keys(index regclass, direction text DEFAULT NULL) RETURNS text LANGUAGE sql STABLE AS $$
	SELECT string_agg(format('(%s)', pg_get_indexdef(i.indexrelid, n, false)) ||
		CASE WHEN direction IS NULL THEN '' ELSE
			coalesce((SELECT format(' COLLATE %I.%I', nspname, collname) FROM pg_collation l
				JOIN pg_namespace s ON s.oid = l.collnamespace WHERE l.oid = i.indcollation[n - 1]), '') ||
			CASE WHEN (i.indoption[n - 1] & 1 <> 0) = (direction = 'backward') THEN ' ASC' ELSE ' DESC' END ||
			CASE WHEN (i.indoption[n - 1] & 2 <> 0) = (direction = 'backward') THEN ' NULLS LAST' ELSE ' NULLS FIRST' END
		END, ', ' ORDER BY n)
	FROM pg_index i, generate_series(1, i.indnkeyatts) n WHERE i.indexrelid = index
$$;
-- The rows that a query yields: their number, a sum over them, and the order in which their keys came. An error if the
-- plan is not the one that is asked for.
CREATE FUNCTION st.rows(query text, method text, name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	node text := CASE method WHEN 'seqscan' THEN 'Seq Scan on ' WHEN 'indexscan' THEN 'Index Scan( Backward)? using %s '
		WHEN 'indexonlyscan' THEN 'Index Only Scan( Backward)? using %s ' ELSE 'Bitmap Index Scan on ' END;  -- any: another one with that column may be cheaper
	line text; plan text := ''; rows text;
BEGIN
	PERFORM set_config('enable_' || m, CASE WHEN m = method THEN 'on' ELSE 'off' END, true)
	FROM unnest(ARRAY['seqscan', 'indexscan', 'indexonlyscan', 'bitmapscan']) m;
	PERFORM set_config('enable_sort', CASE WHEN method = 'seqscan' THEN 'on' ELSE 'off' END, true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := plan || line || E'\n';
	END LOOP;
	IF plan !~ format(node, name) THEN
		RAISE 'no % in %', format(node, name), plan;
	END IF;
	EXECUTE query INTO rows;
	RETURN rows;
END $$;
-- What scans of one index find and a sequential scan doesn't, or the other way round
CREATE FUNCTION st.differences(i st.index) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	all_rows text := 'SELECT concat_ws('' '', count(*), sum(st_h), md5(string_agg(st_k, '',''))) FROM (SELECT %s AS st_h, ROW(%s)::text AS st_k'
		' FROM %s t WHERE %s ORDER BY %s) o';
	hash text := 'hashtextextended(t::text, 0)';
	query text; expected text; method text;
BEGIN
	FOREACH method IN ARRAY ARRAY['forward', 'backward'] LOOP
		query := format(all_rows, hash, st.keys(i.index), i.tab, i.predicate, st.keys(i.index, method));
		expected := st.rows(query, 'seqscan', i.name);
		IF st.rows(query, 'indexscan', i.name) IS DISTINCT FROM expected THEN
			RETURN NEXT format('%s: %s scan', i.index, method);
		END IF;
		query := format(all_rows, '1', st.keys(i.index), i.tab, i.predicate, st.keys(i.index, method));
		CONTINUE WHEN i.computed OR pg_is_in_recovery();
		expected := st.rows(query, 'seqscan', i.name);
		IF st.rows(query, 'indexonlyscan', i.name) IS DISTINCT FROM expected THEN
			RETURN NEXT format('%s: %s index-only scan', i.index, method);
		END IF;
	END LOOP;
	query := format('SELECT concat_ws('' '', count(*), sum(%s)) FROM %s t WHERE (%s) IS NOT NULL AND %s', hash, i.tab, i.first,
		i.predicate);
	expected := st.rows(query, 'seqscan', i.name);
	IF st.rows(query, 'bitmapscan', i.name) IS DISTINCT FROM expected THEN
		RETURN NEXT format('%s: bitmap scan', i.index);
	END IF;
END $$;
CREATE FUNCTION st.faults() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	i st.index;
BEGIN
	FOR i IN SELECT * FROM st.index ORDER BY name LOOP
		CONTINUE WHEN pg_is_in_recovery() AND (SELECT relpersistence = 'u' FROM pg_class WHERE oid = i.index);
		BEGIN
			RETURN QUERY SELECT st.differences(i);
			PERFORM steady_verify(i.index, true);
		EXCEPTION WHEN index_corrupted OR data_corrupted THEN
			RETURN NEXT format('%s: %s', i.index, sqlerrm);
		END;
		PERFORM set_config('st.checked', (coalesce(nullif(current_setting('st.checked', true), ''), '0')::int + 1)::text, false);
	END LOOP;
END $$;
CREATE EXTENSION pageinspect;
CREATE FUNCTION st.page_digests() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s:%s=%s', i.name, block, md5(
		overlay(overlay(page PLACING '\x0000' FROM 9 FOR 2)
			PLACING decode(repeat('00', upper - lower), 'hex') FROM lower + 1 FOR upper - lower)))
	FROM st.index i, generate_series(0, pg_relation_size(i.index) / current_setting('block_size')::int - 1) block,
		get_raw_page(i.name, block::int) page, page_header(page)
	ORDER BY i.name, block
$$;
SQL
}

# One test: the verifier finds no fault with any of $count (or more) steady indexes, and their scans find what a
# sequential scan finds.
sub indexes_ok
{
	my ($node, $what, $count) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($status, $out, $err) = $node->psql('postgres', <<'SQL');
SELECT st.faults();
SELECT 'checked ' || coalesce(current_setting('st.checked', true), '0');
SQL
	my $checked = $out =~ s/^checked (\d+)$//m ? $1 : -1;
	return ok($status == 0 && $out =~ /^\s*$/ && $checked >= ($count // 1), "$what: steady indexes are right")
	  || diag "status $status, $checked indexes were checked\n$out\n$err";
}

# The end of the test where the server has no hook for the free space map; makes the extension.
sub need_fsm_hook
{
	my ($node) = @_;
	my ($status, $out, $err) = $node->psql('postgres', 'CREATE EXTENSION steady; SELECT * FROM steady_fsm_stats');
	return if $err !~ /has no hook/;
	$node->stop;
	plan skip_all => 'this server has no hook for the free space map (contrib_patches)';
}

# The lines of a server's log that say something, from $offset on.
sub log_lines
{
	my ($node, $regex, $offset) = @_;
	my @found = slurp_file($node->logfile, $offset // 0) =~ /^(.*$regex.*)$/mg;
	return @found;
}

# A streaming standby of $node.
sub start_standby
{
	my ($node, $name, $settings) = @_;
	$node->backup("for_$name");
	my $standby = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($node, "for_$name", has_streaming => 1);
	$standby->append_conf('postgresql.conf', $settings) if defined $settings;
	$standby->start;
	return $standby;
}

# Waits until the standby has replayed all that was logged so far.
sub replayed
{
	my ($node, $standby) = @_;
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
}

# One test: the pages of all steady indexes are the same on both, byte by byte but for checksum and hole.
sub pages_equal
{
	my ($node, $standby, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($here, $there) = map {
		{ map { split /=/ } split /\n/, $_->safe_psql('postgres', 'SELECT st.page_digests()') }
	} ($node, $standby);
	my @different = grep { ($here->{$_} // 'none') ne ($there->{$_} // 'none') } sort keys %{ { %$here, %$there } };
	return ok(%$here && !@different, "$what: pages are the same") || diag "pages that differ: @different[0 .. min(20, $#different)]";
}

# Waits until a condition that is no query becomes true.
sub wait_for
{
	my ($what, $true) = @_;
	my $deadline = time() + $PostgreSQL::Test::Utils::timeout_default;
	until ($true->())
	{
		die "timed out waiting for $what" if time() > $deadline;
		select(undef, undef, undef, 0.05);
	}
}

# ---- a workload of all kinds of changes

# In order: a name, the SQL that makes the change, and a query that tells whether it was one.
our @changes = (
	[ 'indexes of empty tables', <<'SQL', q{SELECT levels IS NULL OR levels <= 1 FROM steady_stats('w_id')} ],
CREATE TABLE w (id int, r int, d int, t text COLLATE "C", x int, pad text);
CREATE TABLE wide (n int, k text COLLATE "C");
CREATE TABLE queue (id bigint, run_at timestamptz);
CREATE UNIQUE INDEX w_id ON w USING steady (id) INCLUDE (r);
CREATE INDEX w_r ON w USING steady (r DESC NULLS LAST);
CREATE INDEX w_d ON w USING steady (d) WITH (codec = tuple);
CREATE INDEX w_t ON w USING steady (t, d DESC);
CREATE INDEX w_x ON w USING steady (x, r);
CREATE INDEX w_part ON w USING steady ((r % 100), t NULLS FIRST) WHERE x % 2 = 0;
CREATE INDEX wide_k ON wide USING steady (k);
CREATE UNIQUE INDEX queue_i ON queue USING steady (run_at, id);
CREATE FUNCTION add_w(ids int8[], d int DEFAULT NULL) RETURNS void LANGUAGE sql AS $$
	INSERT INTO w SELECT i, nullif(h % 10000, 7), coalesce(add_w.d, i % 7),
		CASE WHEN i % 10 = 0 THEN 'same' WHEN i % 11 > 0 THEN 't' || h % 3000 || repeat('-', i % 40) END, i % 1000, repeat('p', i % 80)
	FROM unnest(ids) WITH ORDINALITY u (i8, n), LATERAL (SELECT i8::int AS i, abs(hashint4(i8::int)) AS h) c ORDER BY n
$$;
CREATE FUNCTION add_wide(low int, high int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO wide SELECT i, (SELECT string_agg(md5(i::text || j), '') FROM generate_series(1, 20 + i % 20) j)
	FROM generate_series(low, high) i
$$;
CREATE FUNCTION add_queue(low int, high int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO queue SELECT i, timestamptz '2030-01-01 UTC' + i * interval '1 second' FROM generate_series(low, high) i
$$;
SQL
	[ 'first entries', <<'SQL', q{SELECT entries = 1 FROM steady_stats('w_id')} ],
SELECT add_w('{1}'), add_wide(1, 1), add_queue(1, 1);
SQL
	[ 'random order', <<'SQL', q{SELECT levels = 2 FROM steady_stats('w_id')} ],
SELECT add_w(array_agg(i ORDER BY hashint8(i))) FROM generate_series(2, 2500) i;
SQL
	[ 'ascending and descending order', <<'SQL', q{SELECT leaf_pages > 5 FROM steady_stats('queue_i')} ],
SELECT add_w(array_agg(i ORDER BY i)) FROM generate_series(2501, 4000) i;
SELECT add_w(array_agg(i ORDER BY i DESC)) FROM generate_series(-1000, 0) i;
SELECT add_queue(2, 4000);
SQL
	[ 'equal keys', <<'SQL', q{SELECT posting_lists > 0 FROM steady_stats('w_d')} ],
SELECT add_w(array_agg(i ORDER BY i), 3) FROM generate_series(4001, 6000) i;
SQL
	[ 'wide keys', <<'SQL', q{SELECT levels > 3 FROM steady_stats('wide_k')} ],
SELECT add_wide(2, 600);
SQL
	[ 'rolled back', <<'SQL', q{SELECT count(*) = 0 FROM w WHERE id > 6000} ],
BEGIN;
SELECT add_w(array_agg(i)) FROM generate_series(6001, 6500) i;
SAVEPOINT s;
DELETE FROM w WHERE id % 5 = 0;
ROLLBACK TO s;
SELECT add_wide(601, 650);
ROLLBACK;
SQL
	[ 'old versions of rows', <<'SQL', q{SELECT (steady_stats('w_id')).blocks > 0} ],
DO $$
BEGIN
	FOR i IN 1..12 LOOP
		UPDATE w SET x = x + 1 WHERE id BETWEEN 1000 AND 1400;
		COMMIT;
	END LOOP;
END $$;
SQL
	[ 'killed entries', <<'SQL', q{SELECT killed = 0 FROM steady_stats('w_r')} ],
DELETE FROM w WHERE r BETWEEN 2000 AND 4000 AND id % 3 = 1;
DELETE FROM queue WHERE id <= 1500;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(pad) FROM w WHERE r BETWEEN 1900 AND 4100;
SELECT count(*) FROM (SELECT * FROM queue ORDER BY run_at, id LIMIT 10) q;
DO $$
BEGIN
	ASSERT (SELECT killed > 0 FROM steady_stats('w_r'));
	ASSERT (SELECT entries < 3000 AND deleted_pages > 0 FROM steady_stats('queue_i'));  -- mostly dead pages go at once
END $$;
UPDATE w SET r = 2000 + id % 2000 WHERE id BETWEEN 2000 AND 4000 AND id % 2 = 0;
SELECT count(pad) FROM w WHERE r BETWEEN 1900 AND 4100;
INSERT INTO w SELECT i, 2000 + i % 2000, i % 7, 'again', i, 'p' FROM generate_series(10001, 10600) i;
VACUUM w;
SQL
	[ 'rows that VACUUM takes', <<'SQL', q{SELECT count(*) = 0 FROM w WHERE id % 3 = 0} ],
DELETE FROM w WHERE id % 3 = 0;
DELETE FROM wide WHERE n % 2 = 0;
VACUUM w, wide;
SQL
	[ 'equal keys in between', <<'SQL', q{SELECT entries > 2000 FROM steady_stats('w_d')} ],
SELECT add_w(array_agg(i ORDER BY hashint8(i)), 3) FROM generate_series(20001, 20800) i;
SQL
	[ 'unlinked pages', <<'SQL', q{SELECT bool_and(deleted_pages > 5) FROM unnest('{w_id,w_t,wide_k,queue_i}'::regclass[]) i, steady_stats(i)} ],
DELETE FROM w WHERE id BETWEEN 0 AND 3000 OR t < 't2';
DELETE FROM wide WHERE k BETWEEN '3' AND 'd';
DELETE FROM queue WHERE id < 3000;
VACUUM w, wide, queue;
SQL
	[ 'pages used again', <<'SQL', q{SELECT bool_and(s.blocks = b.blocks AND s.deleted_pages < b.deleted_pages) FROM st_before b, steady_stats(b.index) s} ],
-- The free space map is not logged: VACUUM finds the pages again after a crash.
DELETE FROM w WHERE id IN (SELECT max(id) FROM w);
DELETE FROM wide WHERE n IN (SELECT max(n) FROM wide);
DELETE FROM queue WHERE id IN (SELECT max(id) FROM queue);
VACUUM w, wide, queue;
CREATE TABLE st_before AS SELECT i AS index, s.blocks, s.deleted_pages
	FROM unnest('{wide_k,queue_i}'::regclass[]) i, steady_stats(i) s;
SELECT add_w(array_agg(i ORDER BY hashint8(i))) FROM generate_series(30001, 30600) i;
SELECT add_wide(700, 760), add_queue(5001, 6000);
SQL
	[ 'everything deleted', <<'SQL', q{SELECT levels > 0 AND entries = 0 FROM steady_stats('w_id')} ],
DELETE FROM w;
DELETE FROM wide;
DELETE FROM queue;
VACUUM w, wide, queue;
VACUUM w, wide, queue;
SQL
	[ 'filled again', <<'SQL', q{SELECT entries > 2000 FROM steady_stats('w_id')} ],
SELECT add_w(array_agg(i ORDER BY hashint8(i))) FROM generate_series(1, 2500) i;
SELECT add_wide(1, 300), add_queue(1, 1500);
SQL
	[ 'REINDEX', <<'SQL', q{SELECT deleted_pages = 0 FROM steady_stats('w_t')} ],
REINDEX INDEX w_t;
REINDEX TABLE CONCURRENTLY wide;
SQL
	[ 'indexes of filled tables', <<'SQL', q{SELECT count(*) = 11 FROM st.index} ],
CREATE UNIQUE INDEX w_built ON w USING steady (t, id DESC, r);
CREATE INDEX CONCURRENTLY w_concurrent ON w USING steady (pad, x) WITH (fillfactor = 50);
CREATE INDEX wide_n ON wide USING steady (n) INCLUDE (k) WITH (deduplicate_items = off);
SQL
	[ 'tables written anew', <<'SQL', q{SELECT count(*) = 900 FROM w} ],
CLUSTER w USING w_r;
VACUUM FULL queue;
ALTER TABLE wide ALTER n TYPE bigint;
BEGIN;
TRUNCATE w;
SELECT add_w(array_agg(i ORDER BY hashint8(i))) FROM generate_series(1, 900) i;
COMMIT;
SQL
	[ 'an undone TRUNCATE', <<'SQL', q{SELECT count(*) = 900 FROM w} ],
BEGIN;
TRUNCATE w;
SELECT add_w(array_agg(i)) FROM generate_series(1, 1000) i;
CREATE INDEX w_gone ON w USING steady (id, x);
ROLLBACK;
SQL
);

# Makes one of the changes, and tests that it was what it is meant to be.
sub run_change
{
	my ($node, $change) = @_;
	my ($name, $sql, $proof) = @$change;
	$node->safe_psql('postgres', $sql);
	is($node->safe_psql('postgres', $proof), 't', "$name: changed") if defined $proof;
}

# ---- a load by several sessions

sub load_setup
{
	my ($node) = @_;
	$node->safe_psql('postgres', <<'SQL');
CREATE SEQUENCE load_id;
CREATE TABLE load (id bigint DEFAULT nextval('load_id'), k int, few int, t text, n int DEFAULT 0);
CREATE UNIQUE INDEX load_i ON load USING steady (id);
CREATE INDEX load_k ON load USING steady (k);
CREATE INDEX load_few ON load USING steady (few) WITH (codec = tuple);
CREATE INDEX load_t ON load USING steady (t, k DESC) INCLUDE (n);
INSERT INTO load (k, few, t) SELECT hashint4(i) & 16383, i % 5, repeat(md5(i::text), i % 8) FROM generate_series(1, 3000) i;
SQL
}

# pgbench in the background, for ever or until its server is gone: a handle for finish(). @more: scripts that replace,
# drop (undef) or add to its own, 'name@weight' => text.
sub load_start
{
	my ($node, $seed, $clients, @more) = @_;
	my %script = (
		'insert@10' => q{
\set k random(0, 16383)
INSERT INTO load (k, few, t) SELECT :k + i, i % 5, repeat(md5((:k + i)::text), (:k + i) % 8) FROM generate_series(0, 7) i;
},
		'update@6' => q{
\set k random(0, 16383)
UPDATE load SET n = n + 1 WHERE k BETWEEN :k AND :k + 30;
},
		'move@4' => q{
\set k random(0, 16383)
UPDATE load SET k = (k + 5000) & 16383, few = (few + 1) % 5 WHERE id IN (SELECT id FROM load WHERE k >= :k ORDER BY k LIMIT 5);
},
		'head@4' => q{
DELETE FROM load WHERE id IN (SELECT id FROM load ORDER BY id LIMIT 10 FOR UPDATE SKIP LOCKED);
},
		'range@1' => q{
\set k random(0, 16383)
DELETE FROM load WHERE k BETWEEN :k AND :k + 150;
},
		'abort@1' => q{
\set k random(0, 16383)
BEGIN;
INSERT INTO load (k, few, t) SELECT :k, 1, 'aborted' FROM generate_series(1, 5);
DELETE FROM load WHERE k BETWEEN :k AND :k + 10;
ROLLBACK;
},
		'vacuum@1' => q{
SELECT pg_try_advisory_lock(1) AS mine \gset
\if :mine
VACUUM load;
SELECT pg_advisory_unlock(1);
\endif
}, @more);
	my @files;
	for my $name (grep { defined $script{$_} } sort keys %script)
	{
		my ($file, $weight) = $name =~ /^(.+)(@\d+)$/;
		$file = $node->basedir . "/$file.pgbench";
		unlink $file;
		append_to_file($file, $script{$name});
		push @files, '-f', $file . $weight;
	}
	local $ENV{PGAPPNAME} = 'load';
	return IPC::Run::start(
		[ 'pgbench', '-n', '-T', 100000, '-c', $clients, '-j', 1, "--random-seed=$seed", '--max-tries=1000000', @files, '-h', $node->host,
			'-p', $node->port, 'postgres' ],
		'<', \undef, '>', $node->basedir . '/load.log', '2>&1');
}

# Waits until the load has made a query true.
sub load_until
{
	my ($node, $query) = @_;
	wait_for($query, sub {
		my $log = slurp_file($node->basedir . '/load.log');
		die "the load broke off: $log" if $log =~ /error:/;
		return $node->safe_psql('postgres', $query) eq 't';
	});
}

sub load_stop
{
	my ($node, $load) = @_;
	$load->kill_kill;
	# Clients may be gone before their servers are.
	$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'load'}) or die 'sessions stay';
}

# ---- killing

# psql in the background, for a script that stops at its first error: a handle for finish().
sub psql_start
{
	my ($node, $script, $out) = @_;
	return IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $script, '-d', $node->connstr('postgres') ],
		'<', \undef, '>', $out, '2>', "$out.err");
}

# The postmaster's death leaves backends behind that notice it in their own time; a new one waits for them to be gone.
sub start_again
{
	my ($node) = @_;
	wait_for('the server to start', sub { $node->start(fail_ok => 1) || ($node->stop('fast', fail_ok => 1) && 0) });
}

# Kills a server in one of three ways, waits for what is running on it to end, and has it recover. Returns which way.
sub kill_server
{
	my ($node, $way, @running) = @_;
	if ($way % 3 == 0)
	{
		my @pids = split /\n/, $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY pid});
		kill 'KILL', $pids[ rand @pids ] or die "kill: $!";
		$_->finish for @running;
		$node->poll_query_until('postgres', 'SELECT true') or die 'no restart';
		return 'a backend killed';
	}
	$node->kill9;
	$_->finish for @running;
	if ($way % 3 == 2)
	{
		# ... and once more during recovery
		wait_for('recovery', sub {
			my $offset = -s $node->logfile;
			system_log('pg_ctl', '-W', '-D', $node->data_dir, '-l', $node->logfile, 'start');
			my $log;
			wait_for('a word from the server',
				sub { ($log = slurp_file($node->logfile, $offset)) =~ /redo starts|ready to accept|FATAL: .*(lock|shared memory)/ });
			return $log =~ /redo starts|ready to accept/;
		});
		my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
		kill 'KILL', $postmaster;
	}
	start_again($node);
	return 'the postmaster killed' . ($way % 3 == 2 ? ' twice' : '');
}

1;

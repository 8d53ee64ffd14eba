-- VACUUM: entries and pages go, pages come back, and what is left answers as before. Deletion ahead of VACUUM: the index
-- of a table that is updated all the time stays about as large as btree's.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA vac;
SET search_path = vac, public;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

-- Runs a query by sequential scan and by index scans, forward, backward, index-only; what differs.
CREATE FUNCTION differences(condition text, OUT rows bigint, OUT differ text) LANGUAGE plpgsql AS $$
DECLARE
	query text := 'SELECT count(*), sum(a), md5(string_agg(a || b, '','' ORDER BY a, b)) FROM ';
	expected record;
	got record;
	rel text;
BEGIN
	SET LOCAL enable_bitmapscan = off;
	SET LOCAL enable_indexscan = off;
	SET LOCAL enable_indexonlyscan = off;
	EXECUTE query || 't WHERE ' || condition INTO expected;
	rows := expected.count;
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_sort = off;
	FOREACH rel IN ARRAY ARRAY['(SELECT a, b FROM t ORDER BY a) t', '(SELECT a, b FROM t ORDER BY a DESC) t',
		'(SELECT a, b FROM t ORDER BY b, a) t', '(SELECT a, b FROM t ORDER BY b DESC, a DESC) t'] LOOP
		SET LOCAL enable_indexscan = on;
		SET LOCAL enable_indexonlyscan = on;
		EXECUTE query || rel || ' WHERE ' || condition INTO got;
		IF got IS DISTINCT FROM expected THEN
			differ := concat_ws('; ', differ, rel);
		END IF;
		SET LOCAL enable_indexscan = off;
		SET LOCAL enable_indexonlyscan = off;
		SET LOCAL enable_bitmapscan = on;
		EXECUTE query || 't WHERE a IS NOT NULL AND ' || condition INTO got;
		IF got IS DISTINCT FROM expected THEN
			differ := concat_ws('; ', differ, 'bitmap');
		END IF;
		SET LOCAL enable_bitmapscan = off;
	END LOOP;
END $$;
-- A table with ascending keys, long ones that make a high tree, and few that share posting lists
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO t SELECT i, md5(i::text) || repeat(chr(97 + i % 26), 150), i % 7 FROM generate_series(first, last) i;
END $$;
CREATE FUNCTION fresh() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS t;
	CREATE TABLE t (a int, b text, c int) WITH (autovacuum_enabled = off);
	PERFORM fill(1, 20000);
	CREATE INDEX t_a ON t USING steady (a);
	CREATE INDEX t_b ON t USING steady (b, a);
	CREATE INDEX t_c ON t USING steady (c) WITH (codec = tuple);
END $$;
CREATE FUNCTION verified() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM steady_verify('t_a', true), steady_verify('t_b', true), steady_verify('t_c', true);
	RETURN 'sound';
END $$;
-- Whether the indexes have exactly the entries of the rows, and empty leaves but those that are the last of their parent
CREATE FUNCTION state(OUT index text, OUT exact bool, OUT few_empty bool, OUT leaf_pages bigint, OUT deleted_pages bigint)
RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY SELECT i, s.entries = (SELECT count(*) FROM t), s.empty_leaf_pages <= s.inner_pages, s.leaf_pages, s.deleted_pages
		FROM unnest('{t_a,t_b,t_c}'::text[]) i, steady_stats(i::regclass) s;
END $$;

-- An index without an entry, and one whose entries all go
CREATE TABLE t (a int, b text, c int);
CREATE INDEX t_a ON t USING steady (a);
CREATE INDEX t_b ON t USING steady (b, a);
CREATE INDEX t_c ON t USING steady (c);
VACUUM t;
VACUUM (FREEZE, ANALYZE) t;
INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 1);
DELETE FROM t;
VACUUM t;
VACUUM t;
SELECT index, exact, leaf_pages FROM state();
SELECT verified();
INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 1);
SELECT * FROM differences('a < 9');

-- Nothing to delete, the head, the tail, the middle, at random, all but one, all
SELECT fresh();
VACUUM t;
SELECT index, exact, few_empty, deleted_pages FROM state();
DELETE FROM t WHERE a <= 6000;
VACUUM t;
SELECT index, exact, few_empty, deleted_pages > 2 AS deleted FROM state();
SELECT * FROM differences('a BETWEEN 100 AND 7000');
DELETE FROM t WHERE a > 18000;
VACUUM t;
SELECT index, exact, few_empty FROM state();
SELECT * FROM differences('a > 10000');
DELETE FROM t WHERE a BETWEEN 9000 AND 12000;
VACUUM (PARALLEL 0) t;
SELECT index, exact, few_empty FROM state();
SELECT * FROM differences('true');
DELETE FROM t WHERE a * 7919 % 10007 < 5000;
VACUUM (PARALLEL 2) t;
SELECT index, exact, few_empty FROM state();
SELECT * FROM differences('true');
SELECT verified();
DELETE FROM t WHERE b < 'e' OR b > 'f';
VACUUM t;
SELECT index, exact, few_empty FROM state();
SELECT * FROM differences('true');
DELETE FROM t WHERE a <> (SELECT max(a) FROM t);
VACUUM t;
SELECT index, exact, few_empty, leaf_pages FROM state();
SELECT * FROM differences('true');
SELECT verified();
DELETE FROM t;
VACUUM (INDEX_CLEANUP on) t;	-- for one row it would not care
SELECT index, exact, leaf_pages FROM state();
SELECT verified();
SELECT fill(1, 20000);
SELECT * FROM differences('a % 3 = 0');
SELECT verified();

-- Statistics in pg_class, and VACUUM's own
DELETE FROM t WHERE a % 2 = 0;
VACUUM t;
SELECT relname, reltuples, relpages = pg_relation_size(oid) / current_setting('block_size')::int AS pages FROM pg_class WHERE relname ~ '^t_.$' ORDER BY 1;
VACUUM t;
SELECT relname, reltuples FROM pg_class WHERE relname ~ '^t_.$' ORDER BY 1;

-- INDEX_CLEANUP off leaves entries to rows that are no more; they wait for the next one.
DELETE FROM t WHERE a <= 5000;
VACUUM (INDEX_CLEANUP off) t;
SELECT index, exact FROM state();
SELECT * FROM differences('a < 6000');
VACUUM (INDEX_CLEANUP on) t;
SELECT index, exact, few_empty FROM state();
SELECT * FROM differences('a < 6000');
SELECT verified();

-- Pages are used again: rounds of the same change leave the size as it is. The first ones still wait for their safe xid.
SELECT fresh();
CREATE PROCEDURE rounds(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		DELETE FROM t WHERE a <= (SELECT min(a) + 9999 FROM t);
		PERFORM fill((SELECT max(a) + 1 FROM t), (SELECT max(a) + 10000 FROM t));
		COMMIT;
	END LOOP;
END $$;
CALL rounds(1);
VACUUM t;
CALL rounds(1);
VACUUM t;
CALL rounds(1);
VACUUM t;
CREATE TEMP TABLE sizes AS SELECT i, pg_relation_size(i::regclass) AS size FROM unnest('{t_a,t_b,t_c}'::text[]) i;
CALL rounds(1);
VACUUM t;
CALL rounds(1);
VACUUM t;
CALL rounds(1);
VACUUM t;
CALL rounds(1);
VACUUM t;
SELECT i, pg_relation_size(i::regclass) <= size * 1.2 AS stable FROM sizes;
SELECT index, exact, few_empty FROM state();
SELECT * FROM differences('true');
SELECT verified();

-- Inner pages that lose their last child but one go, too: drained from the left, a high tree keeps to its right edge.
CREATE FUNCTION long_key(i int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT lpad(i::text, 8, '0') || string_agg(md5(i::text || '-' || g), '') FROM generate_series(1, 30) g
$$;
CREATE TABLE high (a int, k text COLLATE "C") WITH (autovacuum_enabled = off);
INSERT INTO high SELECT i, long_key(i / 2) FROM generate_series(1, 6000) i;
CREATE INDEX high_k ON high USING steady (k, a);
SELECT levels > 4 AS high, inner_pages > 100 AS inner FROM steady_stats('high_k');
DELETE FROM high WHERE a < 3000;
VACUUM high;
SELECT s.empty_leaf_pages <= s.inner_pages AS few_empty, s.deleted_pages > 300 AS deleted FROM steady_stats('high_k') s;
SELECT steady_verify('high_k', true);
DELETE FROM high WHERE a < 5990;
VACUUM high;
SELECT leaf_pages < 20 AS leaves, inner_pages < 20 AS inner FROM steady_stats('high_k');
SELECT steady_verify('high_k', true);
INSERT INTO high SELECT i, long_key(i / 2) FROM generate_series(1, 1000) i;
SELECT steady_verify('high_k', true);
DELETE FROM high WHERE a % 3 > 0;
VACUUM high;
SELECT steady_verify('high_k', true);
DROP TABLE high;

-- The same in relations that don't log
CREATE UNLOGGED TABLE u (a int) WITH (autovacuum_enabled = off);
INSERT INTO u SELECT generate_series(1, 10000);
CREATE INDEX u_a ON u USING steady (a);
DELETE FROM u WHERE a BETWEEN 1000 AND 9000;
VACUUM u;
SELECT entries, leaf_pages < 10 AS leaves FROM steady_stats('u_a');
SELECT steady_verify('u_a', true);
CREATE TEMP TABLE tt (a int);
INSERT INTO tt SELECT generate_series(1, 10000);
CREATE INDEX tt_a ON tt USING steady (a);
DELETE FROM tt WHERE a BETWEEN 1000 AND 9000;
VACUUM tt;
SELECT entries, leaf_pages < 10 AS leaves FROM steady_stats('tt_a');
SELECT steady_verify('tt_a', true);

-- Updates that HOT can't take, without any VACUUM: of a column with an index of its own. btree beside it.
CREATE PROCEDURE churn(t regclass, n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		EXECUTE format('UPDATE %s SET v = v + 1 WHERE id BETWEEN %s AND %s', t, i * 7919 % 5000, i * 7919 % 5000 + 19);
		COMMIT;
	END LOOP;
END $$;
CREATE TABLE s (id int, k text, v int) WITH (autovacuum_enabled = off);
CREATE TABLE b (LIKE s) WITH (autovacuum_enabled = off);
INSERT INTO s SELECT i, md5(i::text), 0 FROM generate_series(1, 5000) i;
INSERT INTO b TABLE s;
SET client_min_messages = error;	-- of ON CONFLICT
CREATE UNIQUE INDEX s_id ON s USING steady (id);
SET client_min_messages = warning;
CREATE INDEX s_k ON s USING steady (k);
CREATE INDEX s_v ON s USING steady (v);
CREATE UNIQUE INDEX b_id ON b (id);
CREATE INDEX b_k ON b (k);
CREATE INDEX b_v ON b (v);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CALL churn('s', 2500);
CALL churn('b', 2500);
SELECT c, pg_relation_size(('s_' || c)::regclass) <= 1.5 * pg_relation_size(('b_' || c)::regclass) AS small
	FROM unnest('{id,k,v}'::text[]) c;
SELECT entries < 20000 AS swept FROM steady_stats('s_k');
SELECT steady_verify('s_id', true), steady_verify('s_k', true), steady_verify('s_v', true);
SELECT count(*), sum(v) FROM s WHERE id > 0;
SELECT count(*), sum(v) FROM b WHERE id > 0;
SELECT count(*) FROM s JOIN b USING (id, k, v);
VACUUM s;
SELECT i, entries FROM unnest('{s_id,s_k,s_v}'::text[]) i, steady_stats(i::regclass);
SELECT count(*) FROM s JOIN b USING (id, k, v);
RESET enable_seqscan;
RESET enable_bitmapscan;

-- An index on an expression, of a part of the table
CREATE INDEX t_part ON t USING steady ((a % 100)) WHERE a > 100;
DELETE FROM t WHERE a % 100 < 50;
VACUUM t;
SELECT count(*) > 5000 AS many FROM t;
SELECT entries = (SELECT count(*) FROM t WHERE a > 100) AS exact FROM steady_stats('t_part');
SELECT steady_verify('t_part', true);

-- Entries that always come to the same place, where gaps among the slots are made again and again: there are never more
-- slots than VACUUM's set of what is to go has room for.
CREATE TABLE edge (a int) WITH (autovacuum_enabled = off);
CREATE INDEX edge_a ON edge USING steady (a DESC) WITH (codec = tuple);
CREATE INDEX edge_w ON edge USING steady (a DESC);
INSERT INTO edge SELECT i FROM generate_series(1, 200) i;
DO $$
BEGIN
	FOR i IN 1 .. 40 LOOP
		INSERT INTO edge SELECT i * 100 + j FROM generate_series(200, 240) j;
		DELETE FROM edge WHERE a BETWEEN i * 100 + 205 AND i * 100 + 235;
	END LOOP;
END $$;
SELECT bool_and(h.gaps <= h.entries / 4) AS few_gaps
	FROM generate_series(1, pg_relation_size('edge_a') / 8192 - 1) b, steady_page_header('edge_a', b) h WHERE h.kind = 'leaf';
VACUUM edge;
SELECT steady_verify('edge_a', true), steady_verify('edge_w', true);
SET enable_seqscan = off;
SELECT count(*), sum(a) FROM edge WHERE a > 0;
RESET enable_seqscan;
SELECT count(*), sum(a) FROM (SELECT * FROM edge OFFSET 0) e;
DROP TABLE edge;

SET client_min_messages = error;
DROP SCHEMA vac CASCADE;

-- Index-only scans: INCLUDE columns, tables vacuumed and not, and values that are equal but not identical, which must
-- come back as the table has them. The same queries by sequential scan and through btree.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA ios;
SET search_path = ios, public;
SET jit = off;
SET timezone = 'UTC';
SET intervalstyle = 'postgres';
SET enable_bitmapscan = off;
CREATE COLLATION ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);

CREATE TABLE t (id int, n numeric, iv interval, f float8, w text COLLATE ignore_case, c char(6), name name, tz timetz,
	arr numeric[], long text, p point);
ALTER TABLE t SET (autovacuum_enabled = off);
INSERT INTO t SELECT i, CASE WHEN i % 13 > 0 THEN round((i % 50)::numeric, i / 50 % 4) END,
	CASE i % 3 WHEN 0 THEN make_interval(days => i % 20) WHEN 1 THEN make_interval(hours => 24 * (i % 20)) ELSE make_interval(hours => 24 * (i % 20) - 5, mins => 300) END,
	CASE i % 6 WHEN 0 THEN '-0' WHEN 1 THEN 0 WHEN 2 THEN 'NaN' ELSE (i % 10)::float8 END,
	CASE i % 2 WHEN 0 THEN upper('word' || i % 30) ELSE 'word' || i % 30 END,
	'c' || i % 40, 'name' || i % 60, (time '10:00' AT TIME ZONE make_interval(hours => i % 7)),
	ARRAY[round((i % 5)::numeric, i % 3), NULL], repeat('long' || i % 3, 50), point(i, i % 3)
FROM generate_series(1, 1500) i ORDER BY i * 7 % 1511;

CREATE FUNCTION heap_fetches(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT json) ' || query INTO plan;
	IF plan #>> '{0,Plan,Node Type}' <> 'Index Only Scan' THEN
		RAISE EXCEPTION 'no index-only scan: %', plan;
	END IF;
	RETURN plan #>> '{0,Plan,Heap Fetches}';
END $$;

-- Rows of each query, as text, through the index of each access method and by sequential scan: what differs. An index
-- gives equal keys in the order of their rows, so the two indexes must agree on the order also among equals.
CREATE FUNCTION compare(columns text, include text, VARIADIC conditions text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	every text := concat_ws(', ', regexp_replace(columns, ' (DESC|COLLATE "C"|NULLS FIRST)', '', 'g'), nullif(include, ''));
	query text;
	expected text;
	got text;
	line text;
	plain text[];
	method text;
	condition text;
	direction text;
BEGIN
	FOREACH condition IN ARRAY conditions LOOP
		FOREACH direction IN ARRAY ARRAY['', ' DESC'] LOOP
			-- for the order of the index's first column alone, the rest follows the index
			query := format('SELECT %s FROM t WHERE %s ORDER BY %s%s', every, condition, split_part(columns, ',', 1), direction);
			query := replace(query, 'DESC DESC', 'ASC');
			plain := '{}';
			FOREACH method IN ARRAY ARRAY['btree', 'steady'] LOOP
				EXECUTE format('CREATE INDEX t_%s ON t USING %1$s (%s) %s', method, columns, 'INCLUDE (' || nullif(include, '') || ')');
				SET LOCAL enable_seqscan = off;
				SET LOCAL enable_sort = off;
				PERFORM heap_fetches(query);
				EXECUTE format('SELECT array_agg(s::text)::text FROM (%s) s', query) INTO got;
				plain := plain || got;
				EXECUTE 'DROP INDEX t_' || method;
			END LOOP;
			IF plain[1] IS DISTINCT FROM plain[2] THEN
				RETURN NEXT 'btree differs: ' || query;
			END IF;
			SET LOCAL enable_seqscan = on;
			SET LOCAL enable_sort = on;
			EXECUTE format('SELECT array_agg(s::text ORDER BY s::text COLLATE "C")::text FROM (%s) s', query) INTO expected;
			EXECUTE format('SELECT array_agg(s ORDER BY s COLLATE "C")::text FROM unnest($1::text[]) s', query) INTO got USING plain[2];
			IF got IS DISTINCT FROM expected THEN
				RETURN NEXT 'sequential scan differs: ' || query;
			END IF;
			IF got IS NULL THEN
				RETURN NEXT 'nothing to compare: ' || query;
			END IF;
		END LOOP;
	END LOOP;
END $$;

CREATE FUNCTION compare_all() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT r FROM (VALUES
		('n', '', ARRAY['true', 'n = 7', 'n > 30', 'n IS NULL', 'n = ANY (''{1.000,7,49.0}'')']),
		('n DESC, iv', 'id', ARRAY['n < 10', 'iv = ''1 day'' AND n > 3', 'n = 12 AND iv > ''240:00''']),
		('iv', 'n, p', ARRAY['iv = ''1 day''', 'iv BETWEEN ''24:00'' AND ''3 days''']),
		('f', 'id, arr', ARRAY['f = 0', 'f <= 0', 'f = ''NaN''', 'f > 5']),
		('w', 'name', ARRAY['w = ''Word7''', 'w >= ''WORD25''', 'w = ANY (''{word1,WORD2,x}'')']),
		('w COLLATE "C"', 'w', ARRAY['w COLLATE "C" > ''word''', 'w COLLATE "C" < ''word''']),
		('c, name', '', ARRAY['c = ''c7''', 'c < ''c2  ''', 'name = ''name5'' AND c > ''c''']),
		('name', '', ARRAY['name = ''name1''', 'name > ''name4''', 'name < ''name2'' AND name >= ''name11''']),
		('name DESC', 'name, c', ARRAY['name <= ''name33''']),
		('tz', 'id', ARRAY['tz = ''10:00+00''', 'tz > ''10:00+03''']),
		('arr', '', ARRAY['arr = ''{1,NULL}''', 'arr > ''{2.0}''']),
		('long, id', 'n', ARRAY['long > ''long1''', 'id < 100'])
	) v (columns, include, conditions), compare(columns, include, VARIADIC conditions) r
$$;

-- Nothing is all-visible: the rows are fetched
SELECT compare_all();
SET enable_seqscan = off;
CREATE INDEX t_n ON t USING steady (n) INCLUDE (iv);
SELECT heap_fetches('SELECT n, iv FROM t WHERE n = 7') > 0 AS fetched;
-- all is visible: none is
VACUUM t;
SELECT heap_fetches('SELECT n, iv FROM t WHERE n = 7') AS fetched;
EXPLAIN (COSTS OFF) SELECT n, iv FROM t WHERE n = 7;
EXPLAIN (COSTS OFF) SELECT n, f FROM t WHERE n = 7;
EXPLAIN (COSTS OFF) SELECT iv FROM t WHERE n = 7 AND iv > '1 day';
SELECT count(DISTINCT n::text) AS spellings, count(*) FROM t WHERE n = 7;
DROP INDEX t_n;
SELECT compare_all();
-- some pages are not, any more, and some rows are gone
UPDATE t SET f = f + 1 WHERE id % 100 = 1;
DELETE FROM t WHERE id % 90 = 3;
INSERT INTO t SELECT 10000 + id, n, iv, f, w, c, name, tz, arr, long, p FROM t WHERE id % 100 = 5;
SELECT compare_all();
VACUUM t;
SELECT compare_all();

-- A row is of the version that the snapshot sees, whatever the index has
SET enable_seqscan = off;
CREATE INDEX t_n ON t USING steady (n, id);
BEGIN;
DECLARE old SCROLL CURSOR FOR SELECT n, id FROM t WHERE n = 7 AND id < 700 ORDER BY n, id;
FETCH 2 FROM old;
UPDATE t SET n = n + 100 WHERE n = 7;
DELETE FROM t WHERE n = 107 AND id > 300;
SELECT n, id FROM t WHERE n = 7;
SELECT count(*) FROM t WHERE n > 100;
FETCH 2 FROM old;
FETCH PRIOR FROM old;
FETCH LAST FROM old;
COMMIT;
SELECT n, id FROM t WHERE n = 7;
SELECT count(*) FROM t WHERE n > 100;
DROP INDEX t_n;

-- The name type is kept without the bytes behind its end: what comes back must have all 64
CREATE TABLE names (k name, v name);
INSERT INTO names SELECT 'n' || i, repeat('é', 30) || i FROM generate_series(1, 9) i;
CREATE INDEX names_k ON names USING steady (k) INCLUDE (v);
CREATE INDEX names_v ON names USING steady (v DESC, k);
VACUUM names;
EXPLAIN (COSTS OFF) SELECT k, v FROM names WHERE k > 'n3' ORDER BY k;
SELECT k, v, length(k::bytea) AS k_len, pg_column_size(k), pg_column_size(v), k = 'n' || substr(v::text, 31) AS same FROM names WHERE k > 'n3' ORDER BY k;
EXPLAIN (COSTS OFF) SELECT v FROM names WHERE v > 'a' ORDER BY v DESC;
SELECT v, pg_column_size(v) FROM names WHERE v > 'a' ORDER BY v DESC LIMIT 2;

-- Columns that only the table has, whole-row references and expressions need the table
CREATE INDEX names_upper ON names USING steady (upper(k::text)) INCLUDE (k);
EXPLAIN (COSTS OFF) SELECT upper(k::text), k FROM names WHERE upper(k::text) > 'N8';
SELECT upper(k::text), k FROM names WHERE upper(k::text) > 'N8';
EXPLAIN (COSTS OFF) SELECT names FROM names WHERE k = 'n1';
SELECT count(*) FROM names;

-- INCLUDE columns take what no operator class is there for; nothing may be searched by them
CREATE TABLE inc (k int, p point, j json);
INSERT INTO inc SELECT i, point(i, i), to_json(i) FROM generate_series(1, 1000) i;
CREATE INDEX inc_k ON inc USING steady (k) INCLUDE (p, j);
VACUUM inc;
EXPLAIN (COSTS OFF) SELECT k, p, j FROM inc WHERE k > 995 AND p <@ box '(0,0),(998,998)';
SELECT k, p, j FROM inc WHERE k > 995 AND p <@ box '(0,0),(998,998)';
CREATE INDEX ON inc USING steady (k) INCLUDE (abs(k));
CREATE INDEX ON inc USING steady (k) INCLUDE (p DESC);
CREATE INDEX ON inc USING steady (k) INCLUDE (p point_ops);
SELECT steady_verify('inc_k', true), steady_verify('names_k', true), steady_verify('names_v', true);

DROP SCHEMA ios CASCADE;

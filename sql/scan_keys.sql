-- Conditions on any columns, in both directions: every query once by a sequential scan and once by each kind of index
-- scan. The rows must be the same, and so must their order. Only differences are printed, and how much was compared.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA scan_keys;
SET search_path = scan_keys, public;
SET timezone = 'UTC';

-- Each combination of values several times, NULLs among them; long enough for some dozen leaves.
CREATE TABLE sk (id int, a int4, b int8, c text COLLATE "C", d date, e timestamptz);
INSERT INTO sk
SELECT i, nullif(i % 7, 6), nullif(i / 7 % 5, 4), repeat(chr(nullif(i / 35 % 4, 3) + 97), 150),
	'2000-01-01'::date + nullif(i % 5, 4), '2000-01-01'::timestamptz + nullif(i / 5 % 6, 5) * interval '12 hours'
FROM generate_series(0, 559) i ORDER BY i * 347 % 560;
VACUUM (FREEZE, ANALYZE) sk;

-- What a query returns: key columns in order, then which rows.
CREATE FUNCTION sk_result(condition text, ordering text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT array_agg(k)::text || array_agg(id ORDER BY id)::text
		FROM (SELECT ROW(%s)::text AS k, id FROM sk WHERE %s ORDER BY %s) s',
		current_setting('sk.columns'), condition, ordering) INTO result;
	RETURN coalesce(result, 'nothing');
END $$;

-- Is the index what the query goes through?
CREATE FUNCTION sk_uses(kind text, condition text, ordering text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found bool := false;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) SELECT %s, id FROM sk WHERE %s ORDER BY %s',
		current_setting('sk.columns'), condition, ordering)
	LOOP
		found := found OR line LIKE '%' || kind || '%sk_i%';
	END LOOP;
	RETURN found;
END $$;

CREATE FUNCTION sk_plan(seq bool, plain bool, index_only bool, bitmap bool) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('enable_seqscan', seq::text, true), set_config('enable_indexscan', plain::text, true),
		set_config('enable_indexonlyscan', index_only::text, true), set_config('enable_bitmapscan', bitmap::text, true),
		set_config('enable_sort', (seq OR bitmap)::text, true);
END $$;

-- Compares all conditions in one order. `indexable`: the planner can hand something of the condition to any index.
CREATE FUNCTION sk_compare(conditions text[], ordering text, only_keys bool)
RETURNS TABLE (queries bigint, nonempty bigint, difference text) LANGUAGE plpgsql AS $$
DECLARE
	condition text;
	expected text;
	indexable bool;
BEGIN
	queries := 0;
	nonempty := 0;
	FOREACH condition IN ARRAY conditions LOOP
		indexable := condition ~ '[a-e] (=|<|>|<=|>=|IS) ';
		PERFORM sk_plan(true, false, false, false);
		expected := sk_result(condition, ordering);
		queries := queries + 1;
		nonempty := nonempty + (expected <> 'nothing')::int;
		difference := NULL;

		PERFORM sk_plan(false, true, false, false);
		IF NOT sk_uses('Index Scan', condition, ordering) THEN
			difference := 'no index scan: ';
		ELSIF sk_result(condition, ordering) <> expected THEN
			difference := 'index scan: ';
		END IF;
		IF only_keys THEN
			PERFORM sk_plan(false, true, true, false);
			IF NOT sk_uses('Index Only Scan', condition, ordering) THEN
				difference := concat(difference, 'no index-only scan: ');
			ELSIF sk_result(condition, ordering) <> expected THEN
				difference := concat(difference, 'index-only scan: ');
			END IF;
		END IF;
		IF indexable THEN
			PERFORM sk_plan(false, false, false, true);
			IF NOT sk_uses('Bitmap Index Scan on', condition, ordering) THEN
				difference := concat(difference, 'no bitmap scan: ');
			ELSIF sk_result(condition, ordering) <> expected THEN
				difference := concat(difference, 'bitmap scan: ');
			END IF;
		END IF;
		IF difference IS NOT NULL THEN
			difference := difference || condition || ' order by ' || ordering;
			RETURN QUERY SELECT 0::bigint, 0::bigint, difference;
		END IF;
	END LOOP;
	RETURN QUERY SELECT queries, nonempty, NULL;
END $$;

-- Conditions by column; 0 is none.
CREATE TABLE sk_condition (col "char", n int, condition text);
INSERT INTO sk_condition SELECT 'a', row_number() OVER () - 1, x FROM unnest(ARRAY['true',
	'a = 3', 'a = 3::int8', 'a = 3::int2', 'a = (SELECT 4)', 'a = (SELECT NULL::int)',
	'a < 3', 'a <= 3::int8', 'a >= 2', 'a > 2::int2', 'a > 1 AND a <= 4::int8', 'a >= 1::int2 AND a < 4::int8',
	'a > 4 AND a < 2', 'a >= 3 AND a <= 3::int8', 'a > 3 AND a < 4::int8',
	'a IS NULL', 'a IS NOT NULL', 'a IS NULL AND a > (SELECT 1)', 'a IS NOT NULL AND a < 2',
	'a = ANY (''{5,1,1,3,NULL}'')', 'a = ANY (''{4,0}''::int8[])', 'a = ANY (''{}''::int[])', 'a = ANY (''{NULL}''::int[])',
	'a = ANY (''{0,1,2,3,4,5}'') AND a > 1::int8 AND a <= 4::int2',
	'a = ANY (''{1,2,3}'') AND a = ANY (''{3,9,2}''::int8[])', 'a = ANY (''{1,2}'') AND a = (SELECT 3)',
	'a < ANY (''{2,NULL,4}'')', 'a <= ANY (''{1,3}''::int8[])', 'a >= ANY (''{4,2}''::int2[])', 'a > ANY (''{3,NULL,5}'')',
	'a < ANY (''{}''::int[])', 'a = (SELECT 2) AND a = (SELECT 5::int8)', 'a > (SELECT 8)', 'a < -1']) x;
INSERT INTO sk_condition SELECT 'b', row_number() OVER () - 1, x FROM unnest(ARRAY['true',
	'b = 1', 'b = 2::int2', 'b < 2::int4', 'b >= 1', 'b > 0 AND b < 3', 'b IS NULL', 'b IS NOT NULL',
	'b = ANY (''{3,1,9}''::int4[])', 'b = ANY (''{0,NULL,2,2}''::int8[])', 'b <= ANY (''{1,0}''::int2[])',
	'b = ANY (''{}''::int8[])', 'b > 2 AND b < 1::int4']) x;
INSERT INTO sk_condition SELECT 'c', row_number() OVER () - 1, x FROM unnest(ARRAY['true',
	'c = repeat(''b'', 150)', 'c < ''b''', 'c >= ''b''', 'c = ''bb''', 'c IS NULL', 'c IS NOT NULL',
	'c = ANY (ARRAY[repeat(''c'', 150), NULL, ''x'', repeat(''a'', 150)])']) x;

-- All pairs of columns, some triples, and rows.
CREATE VIEW sk_abc AS
SELECT array_agg(concat_ws(' AND ', a.condition, b.condition, c.condition) ORDER BY a.n, b.n, c.n) ||
	ARRAY['(a, b) > (3, 1)', '(a, b) <= (2, 2) AND c < ''b''', '(a, c) >= (3, ''b'')', '(b, c) < (2, ''b'') AND a = 2',
		'(a, b, c) > (1, 2, ''b'') AND (a, b) < (4, 1)', 'a < 5 AND a <> 2', 'b IS DISTINCT FROM 2 AND a = 1'] AS conditions
FROM sk_condition a, sk_condition b, sk_condition c
WHERE a.col = 'a' AND b.col = 'b' AND c.col = 'c' AND
	(a.n = 0 OR b.n = 0 OR c.n = 0 OR (a.n * 5 + b.n * 3 + c.n) % 37 = 0) AND (b.n + c.n + a.n) % 2 = 0;

SELECT cardinality(conditions) AS conditions FROM sk_abc;

-- Ascending.
SET sk.columns = 'a, b, left(c, 1)';
CREATE INDEX sk_i ON sk USING steady (a, b, c) INCLUDE (id);
VACUUM sk;
SELECT r.* FROM sk_abc, sk_compare(conditions, 'a, b, c', true) r;
SELECT r.* FROM sk_abc, sk_compare(conditions, 'a DESC, b DESC, c DESC', true) r;

-- Directions and NULLs mixed.
DROP INDEX sk_i;
CREATE INDEX sk_i ON sk USING steady (a DESC, b, c DESC NULLS LAST);
SELECT r.* FROM sk_abc, sk_compare(conditions, 'a DESC, b, c DESC NULLS LAST', false) r;
SELECT r.* FROM sk_abc, sk_compare(conditions, 'a, b DESC, c NULLS FIRST', false) r;

DROP INDEX sk_i;
CREATE INDEX sk_i ON sk USING steady (c NULLS FIRST, a NULLS FIRST, b DESC NULLS LAST);
SELECT r.* FROM sk_abc, sk_compare(conditions, 'c NULLS FIRST, a NULLS FIRST, b DESC NULLS LAST', false) r;
SELECT r.* FROM sk_abc, sk_compare(conditions, 'c DESC NULLS LAST, a DESC NULLS LAST, b NULLS FIRST', false) r;

-- The same column twice: the planner gives both its conditions.
DROP INDEX sk_i;
CREATE INDEX sk_i ON sk USING steady (b DESC, a, b, a DESC NULLS LAST, c);
SELECT r.* FROM sk_abc, sk_compare(conditions, 'b DESC, a, c', false) r;

-- One column, whose duplicates share posting lists.
DROP INDEX sk_i;
CREATE INDEX sk_i ON sk USING steady (a) WITH (codec = tuple);
SET sk.columns = 'a';
SELECT r.* FROM (SELECT array_agg(condition ORDER BY n) AS conditions FROM sk_condition WHERE col = 'a') s,
	(VALUES ('a'), ('a DESC')) o(ordering), sk_compare(conditions, ordering, false) r;

-- Types that compare with one another.
DROP INDEX sk_i;
CREATE INDEX sk_i ON sk USING steady (d, e DESC) INCLUDE (id);
VACUUM sk;
SET sk.columns = 'd, e';
CREATE TABLE sk_time AS
SELECT array_agg(concat_ws(' AND ', d, e) ORDER BY d, e) AS conditions FROM
	unnest(ARRAY['true', 'd = ''2000-01-02''', 'd = ''2000-01-02 00:00''::timestamp', 'd = ''2000-01-02 00:00''::timestamptz',
		'd > ''2000-01-01 12:00''::timestamp', 'd <= ''2000-01-03 12:00''::timestamptz',
		'd >= ''2000-01-02''::date AND d < ''2000-01-03 12:00''::timestamp AND d < ''2000-01-04''::timestamptz',
		'd = ANY (''{2000-01-03,2000-01-01,2000-01-02 12:00}''::timestamp[])',
		'd = ANY (''{2000-01-03,2000-01-01}''::date[]) AND d = ANY (''{2000-01-03,2000-01-02}''::timestamptz[])',
		'd > ANY (''{2000-01-02 12:00,2000-01-03}''::timestamptz[])', 'd IS NULL',
		'd < ''2000-01-03 12:00''::timestamp AND d <= ''2000-01-02''::date',
		'd > ''2000-01-01''::date AND d > ''2000-01-01 12:00''::timestamptz']) d,
	unnest(ARRAY['true', 'e = ''2000-01-02''::date', 'e > ''2000-01-01''::date AND e < ''2000-01-02 12:00''::timestamp',
		'e = ANY (''{2000-01-01 12:00,2000-01-03}''::timestamp[])', 'e < ANY (''{2000-01-02,2000-01-01}''::date[])',
		'e IS NOT NULL', 'e IS NULL',
		'e < ''2000-01-03''::date AND e < ''2000-01-02 06:00''::timestamp',
		'e >= ''2000-01-01 18:00''::timestamp AND e >= ''2000-01-02''::date']) e;
SELECT r.* FROM sk_time, (VALUES ('d, e DESC'), ('d DESC, e')) o(ordering), sk_compare(conditions, ordering, true) r;

-- An operator family that can't compare int2 with int8: both conditions are kept.
CREATE OPERATOR FAMILY sk_family USING steady;
CREATE OPERATOR CLASS sk_int4_ops FOR TYPE int4 USING steady FAMILY sk_family AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int4, int4);
ALTER OPERATOR FAMILY sk_family USING steady ADD
	OPERATOR 1 < (int4, int8), OPERATOR 2 <= (int4, int8), OPERATOR 3 = (int4, int8), OPERATOR 4 >= (int4, int8),
	OPERATOR 5 > (int4, int8), FUNCTION 1 (int4, int8) btint48cmp(int4, int8),
	OPERATOR 1 < (int4, int2), OPERATOR 2 <= (int4, int2), OPERATOR 3 = (int4, int2), OPERATOR 4 >= (int4, int2),
	OPERATOR 5 > (int4, int2), FUNCTION 1 (int4, int2) btint42cmp(int4, int2),
	FUNCTION 1 (int8, int8) btint8cmp(int8, int8), FUNCTION 1 (int2, int2) btint2cmp(int2, int2);
DROP INDEX sk_i;
CREATE INDEX sk_i ON sk USING steady (a sk_int4_ops DESC, b);
SET sk.columns = 'a, b';
CREATE TABLE sk_partial AS
SELECT array_agg(concat_ws(' AND ', a1, a2, b) ORDER BY a1, a2, b) AS conditions FROM
	unnest(ARRAY['a > 1::int2', 'a <= 4::int2', 'a = 3::int2', 'a = ANY (''{1,3,5}''::int2[])', 'a = ANY (''{4,1}''::int4[])']) a1,
	unnest(ARRAY['a >= 3::int8', 'a < 1::int8', 'a = (SELECT 3::int8)', 'a = ANY (''{0,1,4,5}''::int8[])', 'a IS NOT NULL']) a2,
	unnest(ARRAY['true', 'b = 2', 'b > 2']) b;
SELECT r.* FROM sk_partial, (VALUES ('a, b'), ('a DESC, b')) o(ordering), sk_compare(conditions, ordering, false) r;
-- Or that can do so the other way round only.
ALTER OPERATOR FAMILY sk_family USING steady ADD FUNCTION 1 (int2, int8) btint28cmp(int2, int8);
SELECT r.* FROM sk_partial, (VALUES ('a, b'), ('a DESC, b')) o(ordering), sk_compare(conditions, ordering, false) r;

-- Cursors that turn round between the elements of arrays. (With id for a key, the order of equal keys is settled.)
DROP INDEX sk_i;
CREATE INDEX sk_i ON sk USING steady (a, b DESC, c, id);
CREATE FUNCTION sk_turns(condition text, ordering text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT id FROM sk WHERE %s ORDER BY %s', condition, ordering);
	expected int[];
	walk refcursor;
	steps int;
	place int := 0;
	got int;
	wrong int := 0;
BEGIN
	PERFORM sk_plan(false, true, false, false);
	EXECUTE format('SELECT coalesce(array_agg(id), ''{}'') FROM (%s) s', query) INTO expected;
	OPEN walk SCROLL FOR EXECUTE query;
	FOREACH steps IN ARRAY ARRAY[3, -2, 7, -9, 40, -1, 2, -25, 25, 600, -3, 4, -700, 12, -5, 90, -60, 600, -600, 1] LOOP
		FOR i IN 1 .. abs(steps) LOOP
			IF steps > 0 THEN
				FETCH NEXT FROM walk INTO got;
			ELSE
				FETCH PRIOR FROM walk INTO got;
			END IF;
			place := least(greatest(place + sign(steps), 0), cardinality(expected) + 1);
			wrong := wrong + (got IS DISTINCT FROM expected[place])::int;
		END LOOP;
	END LOOP;
	CLOSE walk;
	RETURN wrong;
END $$;
SELECT count(*) AS cursors, sum(sk_turns(condition, ordering)) AS wrong
FROM unnest(ARRAY['true', 'a = 3', 'b = 1', 'a = ANY (''{0,2,5}'')', 'b = ANY (''{3,0}'')', 'a > 2 AND b < 2',
	'a = ANY (''{1,4}'') AND b = ANY (''{2,0,1}'') AND c IS NULL', 'a < 4 AND b IS NULL', 'a IS NULL AND c < ''c''',
	'b > 0 AND c = ANY (ARRAY[repeat(''a'', 150), repeat(''c'', 150)])', 'a = 9', 'a = ANY (''{8,-1}'')']) condition,
	(VALUES ('a, b DESC, c, id'), ('a DESC, b, c DESC, id DESC')) o(ordering);

-- Joins: the inner scan starts again for each outer row, or returns to a mark.
CREATE FUNCTION sk_join(query text) RETURNS TABLE (pairs bigint, difference text) LANGUAGE plpgsql AS $$
DECLARE
	method text;
	result text;
	counting text := format('SELECT array_agg(p ORDER BY p)::text, count(*) FROM (%s) s(p)', query);
	expected text;
BEGIN
	PERFORM sk_plan(true, false, false, false), set_config('enable_nestloop', 'off', true),
		set_config('enable_mergejoin', 'off', true), set_config('enable_hashjoin', 'on', true),
		set_config('enable_material', 'off', true), set_config('enable_memoize', 'off', true);
	EXECUTE counting INTO expected, pairs;
	PERFORM sk_plan(false, true, true, false), set_config('enable_hashjoin', 'off', true);
	FOREACH method IN ARRAY ARRAY['nestloop', 'mergejoin'] LOOP
		PERFORM set_config('enable_' || method, 'on', true);
		EXECUTE counting INTO result;
		PERFORM set_config('enable_' || method, 'off', true);
		difference := concat(difference, CASE WHEN result IS DISTINCT FROM expected THEN method || ' ' END);
	END LOOP;
	RETURN NEXT;
END $$;
SELECT r.*
FROM unnest(ARRAY[
	'SELECT ROW(x, id) FROM generate_series(-1::int8, 8) x JOIN sk ON a = x',
	'SELECT ROW(x, id) FROM generate_series(-1::int4, 8) x JOIN sk ON a = x AND b = ANY (''{3,1}'')',
	'SELECT ROW(x, y, id) FROM generate_series(0, 3) x CROSS JOIN generate_series(1::int8, 2) y JOIN sk ON b = x AND a = y',
	'SELECT ROW(x.id, y.id) FROM sk x JOIN sk y ON x.a = y.a AND x.b = y.b AND x.c = y.c',
	'SELECT ROW(x.id, y.id) FROM sk x JOIN sk y ON x.a = y.a WHERE y.b = ANY (''{0,2}'') AND x.b > 1',
	'SELECT ROW(x.id, y.id) FROM sk x JOIN sk y ON x.a = y.a AND x.b = y.b WHERE y.a = ANY (''{1,2,5}'') AND y.c IS NULL'
]) query, sk_join(query) r;

-- Arguments that change from row to row, NULL among them.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) AS rows, count(by_heap) AS nonempty, count(*) FILTER (WHERE by_index IS DISTINCT FROM by_heap) AS wrong
FROM (VALUES (1, 3::int8, '{1,2}'::int[]), (NULL, 1, '{0}'), (4, NULL, '{3}'), (0, 2, NULL), (5, 0, '{}'), (2, 2, '{3,NULL,0}'),
	(1, 5, '{2,9}'), (3, 3, '{0,1,2,3}')) v(low, high, list),
	LATERAL (SELECT array_agg(id ORDER BY id) AS by_index FROM sk WHERE a >= low AND a <= high AND b = ANY (list)) i,
	LATERAL (SELECT array_agg(id ORDER BY id) AS by_heap FROM sk WHERE a + 0 >= low AND a + 0 <= high AND b + 0 = ANY (list)) h;

DROP SCHEMA scan_keys CASCADE;

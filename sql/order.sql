-- Order: every mix of directions and places of NULLs, and cursors that go to and fro, while rows are deleted, index
-- entries killed and the table vacuumed under them.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA ord;
SET search_path = ord, public;
SET jit = off;
SET enable_incremental_sort = off;

CREATE TABLE t (a int, b text COLLATE "C", c int, id int, filler text);
ALTER TABLE t SET (autovacuum_enabled = off);
INSERT INTO t SELECT nullif(i % 8, 3), repeat(nullif(chr(97 + i / 8 % 5), 'c'), 60), nullif(i / 40 % 7, 2), i, repeat('x', 100)
	FROM generate_series(1, 1400) i ORDER BY i * 1009 % 1409;

CREATE FUNCTION by_index(yes bool) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', (NOT yes)::text, false), set_config('enable_sort', (NOT yes)::text, false),
		set_config('enable_indexscan', yes::text, false), set_config('enable_indexonlyscan', yes::text, false),
		set_config('enable_bitmapscan', 'off', false)
$$;

-- All 64 indexes on three columns; each answers two orders: its own and the reverse. id settles what is left.
CREATE FUNCTION mixes() RETURNS TABLE (indexes bigint, wrong bigint, sample text) LANGUAGE plpgsql AS $$
DECLARE
	ways text[] := ARRAY['ASC NULLS LAST', 'ASC NULLS FIRST', 'DESC NULLS LAST', 'DESC NULLS FIRST'];
	turned text[] := ARRAY['DESC NULLS FIRST', 'DESC NULLS LAST', 'ASC NULLS FIRST', 'ASC NULLS LAST'];
	clause text;
	query text;
	expected int[];
	got int[];
	plan json;
BEGIN
	indexes := 0;
	wrong := 0;
	FOR i IN 0 .. 63 LOOP
		EXECUTE format('CREATE INDEX t_abc ON t USING steady (a %s, b %s, c %s, id)', ways[1 + i % 4], ways[1 + i / 4 % 4], ways[1 + i / 16]);
		indexes := indexes + 1;
		FOREACH clause IN ARRAY ARRAY[
			format('a %s, b %s, c %s, id', ways[1 + i % 4], ways[1 + i / 4 % 4], ways[1 + i / 16]),
			format('a %s, b %s, c %s, id DESC', turned[1 + i % 4], turned[1 + i / 4 % 4], turned[1 + i / 16])]
		LOOP
			query := 'SELECT id FROM t ORDER BY ' || clause;
			PERFORM by_index(false);
			EXECUTE format('SELECT array_agg(id) FROM (%s) s (id)', query) INTO expected;
			PERFORM by_index(true);
			EXECUTE format('EXPLAIN (FORMAT json) %s', query) INTO plan;
			EXECUTE format('SELECT array_agg(id) FROM (%s) s', query) INTO got;
			IF got <> expected OR plan #>> '{0,Plan,Index Name}' IS DISTINCT FROM 't_abc' THEN
				wrong := wrong + 1;
				sample := clause;
			END IF;
		END LOOP;
		DROP INDEX t_abc;
	END LOOP;
	RETURN NEXT;
END $$;
SELECT * FROM mixes();

-- An index that has the wrong order of NULLs must not be used for it.
SELECT by_index(true) \g /dev/null
CREATE INDEX t_a ON t USING steady (a);
SET enable_sort = on;
EXPLAIN (COSTS OFF) SELECT a FROM t ORDER BY a;
EXPLAIN (COSTS OFF) SELECT a FROM t ORDER BY a DESC;
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT a, filler FROM t ORDER BY a NULLS FIRST;
DROP INDEX t_a;

-- Cursors, step by step beside a copy of the result. Steps: a count to FETCH, or an absolute place.
CREATE FUNCTION walk(query text, steps int, kill text, seed double precision) RETURNS TABLE (fetched int, wrong int) LANGUAGE plpgsql AS $$
DECLARE
	cur refcursor;
	expected int[];
	got int;
	place int := 0;
	step int;
	n int;
	r double precision;
	plan json;
BEGIN
	PERFORM by_index(false);
	EXECUTE format('SELECT array_agg(id) FROM (%s) s (id)', query) INTO expected;
	PERFORM by_index(true), setseed(seed);
	EXECUTE format('EXPLAIN (FORMAT json) %s', query) INTO plan;
	IF plan #>> '{0,Plan,Index Name}' IS DISTINCT FROM 't_abc' OR plan #> '{0,Plan,Plans}' IS NOT NULL THEN
		RAISE EXCEPTION 'another plan: %', plan;
	END IF;
	OPEN cur SCROLL FOR EXECUTE query;
	n := cardinality(expected);
	fetched := 0;
	wrong := 0;
	FOR i IN 1 .. steps LOOP
		r := random();
		IF r < 0.3 THEN	-- on, at times far
			FOR i IN 1 .. (random() ^ 3 * 200)::int LOOP
				FETCH NEXT FROM cur INTO got;
				place := least(place + 1, n + 1);
				wrong := wrong + (got IS DISTINCT FROM expected[place])::int;
				fetched := fetched + 1;
			END LOOP;
		ELSIF r < 0.6 THEN	-- back
			FOR i IN 1 .. (random() ^ 3 * 200)::int LOOP
				FETCH PRIOR FROM cur INTO got;
				place := greatest(place - 1, 0);
				wrong := wrong + (got IS DISTINCT FROM expected[place])::int;
				fetched := fetched + 1;
			END LOOP;
		ELSIF r < 0.7 THEN
			place := 1 + random() * (n + 1);
			FETCH ABSOLUTE place FROM cur INTO got;
		ELSIF r < 0.8 THEN
			place := n + 1 - (1 + (random() * (n - 1))::int);
			FETCH ABSOLUTE place - n - 1 FROM cur INTO got;
		ELSIF r < 0.9 THEN
			step := (random() * 100 - 50)::int;
			FETCH RELATIVE step FROM cur INTO got;
			place := least(greatest(place + step, 0), n + 1);
		ELSIF r < 0.94 THEN
			FETCH FIRST FROM cur INTO got;
			place := 1;
		ELSIF r < 0.97 THEN
			FETCH LAST FROM cur INTO got;
			place := n;
		ELSE
			-- Who looks at dead rows kills their entries. (The cursor's snapshot still sees rows deleted here.)
			EXECUTE kill;
			CONTINUE;
		END IF;
		wrong := wrong + (got IS DISTINCT FROM expected[place])::int;
		fetched := fetched + 1;
	END LOOP;
	CLOSE cur;
	RETURN NEXT;
END $$;

CREATE INDEX t_abc ON t USING steady (a, b DESC, c, id);
CREATE TABLE walked (query text);
INSERT INTO walked VALUES ('SELECT id FROM t ORDER BY a, b DESC, c, id'), ('SELECT id FROM t ORDER BY a DESC, b, c DESC, id DESC'),
	('SELECT id FROM t WHERE a > 1 AND id % 3 > 0 ORDER BY a, b DESC, c, id'), ('SELECT id FROM t WHERE a = ANY (''{0,2,7}'') AND c < 5 ORDER BY a, b DESC, c, id'),
	('SELECT id FROM t WHERE a < 6 ORDER BY a DESC, b, c DESC, id DESC'), ('SELECT a + id FROM t WHERE a = 4 AND filler <> ''y'' ORDER BY a, b DESC, c, id');
SELECT count(*) AS walks, sum(fetched) > 10000 AS many, sum(wrong) AS wrong FROM walked, generate_series(1, 3) i, walk(query, 150, 'SELECT 1', i / 10.0);

-- Inserts and deletes between the steps, by the same transaction: the cursor doesn't see them
BEGIN;
SELECT count(*) AS walks, sum(wrong) AS wrong FROM walked, generate_series(1, 2) i,
	walk(query, 100, 'WITH d AS (DELETE FROM t WHERE id % 50 = (random() * 49)::int RETURNING *) INSERT INTO t SELECT a, b, c, id + 10000, filler FROM d', i / 7.0);
ROLLBACK;
-- Rows that died before, whose entries the cursor itself kills as it goes; pages are split meanwhile
DELETE FROM t WHERE id % 4 = 1;
SELECT count(*) AS walks, sum(wrong) AS wrong FROM walked, generate_series(1, 2) i,
	walk(query, 100, 'INSERT INTO t SELECT (random() * 8)::int, repeat(''b'', 60), 1, 20000 + i FROM generate_series(1, 10) i', i / 9.0);
SELECT killed > 0 AS killed FROM steady_stats('t_abc');
SELECT steady_verify('t_abc', true);

-- A cursor through VACUUMs: they can't run in its transaction, but one that is held has its rows already
DELETE FROM t WHERE id >= 20000;
SELECT by_index(true) \g /dev/null
BEGIN;
DECLARE held SCROLL CURSOR WITH HOLD FOR SELECT id FROM t WHERE a > 2 ORDER BY a, b DESC, c, id;
FETCH 3 FROM held;
COMMIT;
CREATE TABLE copied AS SELECT row_number() OVER (ORDER BY a, b DESC, c, id) AS place, id FROM t WHERE a > 2;
DELETE FROM t WHERE a > 2;
VACUUM t;
SELECT killed, deleted_pages > 0 AS deleted FROM steady_stats('t_abc');
FETCH ABSOLUTE 200 FROM held;
SELECT id FROM copied WHERE place = 200;
FETCH RELATIVE -100 FROM held;
SELECT id FROM copied WHERE place = 100;
FETCH LAST FROM held;
SELECT id FROM copied ORDER BY place DESC LIMIT 1;
CLOSE held;
SELECT steady_verify('t_abc', true);

-- From the end, from before the beginning, and on an empty result and an empty index
BEGIN;
DECLARE s SCROLL CURSOR FOR SELECT id FROM t WHERE a = 0 AND id < 300 ORDER BY a DESC, b, c DESC, id DESC;
FETCH BACKWARD 1 FROM s;
FETCH LAST FROM s;
FETCH NEXT FROM s;
FETCH NEXT FROM s;
FETCH PRIOR FROM s;
FETCH FIRST FROM s;
FETCH PRIOR FROM s;
FETCH PRIOR FROM s;
FETCH NEXT FROM s;
MOVE FORWARD ALL FROM s;
MOVE BACKWARD ALL FROM s;
FETCH FORWARD 2 FROM s;
DECLARE n SCROLL CURSOR FOR SELECT id FROM t WHERE a > 10 AND a < 3 ORDER BY a, b DESC;
FETCH NEXT FROM n;
FETCH PRIOR FROM n;
FETCH LAST FROM n;
FETCH FIRST FROM n;
CREATE TABLE e (k int);
CREATE INDEX e_k ON e USING steady (k);
DECLARE e SCROLL CURSOR FOR SELECT k FROM e ORDER BY k;
FETCH NEXT FROM e;
FETCH PRIOR FROM e;
FETCH LAST FROM e;
COMMIT;

-- First and last by index
EXPLAIN (COSTS OFF) SELECT a FROM t WHERE a IS NOT NULL ORDER BY a DESC LIMIT 1;
SELECT min(a), max(a) FROM t;
SELECT a FROM t ORDER BY a DESC NULLS LAST LIMIT 1;
SELECT max(k), min(k) FROM e;

-- WHERE CURRENT OF a cursor along the index
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE a = 2 ORDER BY a, b DESC, c, id FOR UPDATE;
FETCH 2 FROM c;
UPDATE t SET a = 100 WHERE CURRENT OF c;
FETCH 1 FROM c;
DELETE FROM t WHERE CURRENT OF c;
FETCH 1 FROM c;
CLOSE c;
SELECT count(*) FROM t WHERE a = 100;
COMMIT;
SELECT steady_verify('t_abc', true);

DROP SCHEMA ord CASCADE;

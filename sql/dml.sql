-- Random changes to tables of each persistence: after each round every index must agree with its table and with
-- sequential scans. (The seed is fixed. The random test under t/ takes others.)
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA dml;
SET search_path = dml, public;
SET jit = off;
SELECT setseed(0.618) \g /dev/null

CREATE TABLE kinds (name text);
INSERT INTO kinds VALUES ('logged'), ('unlogged'), ('temp');
CREATE TABLE logged (id int, a int, b text COLLATE "C", c numeric, filler text);
CREATE UNLOGGED TABLE unlogged (LIKE logged);
CREATE TEMPORARY TABLE temp (LIKE logged) ON COMMIT PRESERVE ROWS;
DO $$
DECLARE
	name text;
BEGIN
	FOR name IN SELECT k.name FROM kinds k LOOP
		EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off)', name);
		EXECUTE format('CREATE INDEX %s_a ON %1$I USING steady (a)', name);
		EXECUTE format('CREATE INDEX %s_ba ON %1$I USING steady (b DESC, a) WITH (fillfactor = 60)', name);
		EXECUTE format('CREATE INDEX %s_c ON %1$I USING steady (c) INCLUDE (id, a)', name);
		EXECUTE format('CREATE INDEX %s_part ON %1$I USING steady (a, c) WHERE a %% 3 = 0', name);
		EXECUTE format('CREATE INDEX %s_id ON %1$I USING steady (id) WITH (deduplicate_items = off)', name);
	END LOOP;
END $$;

-- One random statement, over few and over many rows
CREATE FUNCTION statement(name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	spot int := random() * 5000;
	width int := 1 + (random() ^ 4 * 600)::int;
BEGIN
	CASE (random() * 8)::int
		WHEN 0, 1, 2 THEN
			EXECUTE format('INSERT INTO %I SELECT i, i %% 97, repeat(chr(97 + i %% 7), 1 + i %% 80), (i %% 50)::numeric / 4, repeat(''f'', 60) FROM generate_series($1, $2) i', name)
				USING spot, spot + width;
		WHEN 3 THEN	-- ascending
			EXECUTE format('INSERT INTO %I SELECT m + i, m / 10 + i, NULL, m, ''f'' FROM generate_series(1, $1) i, (SELECT coalesce(max(id), 0) AS m FROM %1$I) x', name) USING width;
		WHEN 4 THEN
			EXECUTE format('DELETE FROM %I WHERE id BETWEEN $1 AND $2 AND id %% 3 > 0', name) USING spot, spot + width;
		WHEN 5 THEN	-- by another index
			EXECUTE format('DELETE FROM %I WHERE a = $1 %% 97 AND c < 6', name) USING spot;
		WHEN 6 THEN
			EXECUTE format('UPDATE %I SET a = nullif(a + 1, 90), c = -c WHERE id BETWEEN $1 AND $2', name) USING spot, spot + width;
		WHEN 7 THEN	-- HOT where there is room
			EXECUTE format('UPDATE %I SET filler = filler || ''x'' WHERE id BETWEEN $1 AND $2', name) USING spot, spot + width;
		ELSE	-- finds dead rows
			EXECUTE format('SELECT FROM %I WHERE id BETWEEN $1 AND $2 AND filler > ''a''', name) USING spot, spot + 10 * width;
	END CASE;
END $$;

-- A transaction of statements, some of them undone
CREATE FUNCTION transaction(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 1 + (random() * 5)::int LOOP
		BEGIN
			PERFORM statement(name);
			IF random() < 0.3 THEN
				PERFORM statement(name);
				RAISE EXCEPTION USING ERRCODE = 'division_by_zero';
			END IF;
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		END;
	END LOOP;
END $$;
CREATE PROCEDURE work(transactions int) LANGUAGE plpgsql AS $$
DECLARE
	name text;
BEGIN
	FOR i IN 1 .. transactions LOOP
		FOR name IN SELECT k.name FROM kinds k ORDER BY k.name LOOP
			PERFORM transaction(name);
			IF random() < 0.15 THEN
				ROLLBACK;
			ELSE
				COMMIT;
			END IF;
		END LOOP;
	END LOOP;
END $$;

-- What differs
CREATE FUNCTION differences(verify bool DEFAULT true) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	name text;
	query text;
	expected text;
	got text;
	line text;
	spot int := random() * 4000;
BEGIN
	IF verify THEN
		PERFORM steady_verify(i.indexrelid, true) FROM kinds k, pg_index i WHERE i.indrelid = k.name::regclass;
	END IF;
	FOR name, query IN SELECT k.name, format(q, k.name, spot) FROM kinds k, unnest(ARRAY[
		'SELECT a FROM %I ORDER BY a', 'SELECT a FROM %I ORDER BY a DESC', 'SELECT b, a FROM %I ORDER BY b DESC, a', 'SELECT b, a FROM %I ORDER BY b, a DESC',
		'SELECT c::numeric(8,2) FROM %I ORDER BY c', 'SELECT id, a, c FROM %I WHERE c = 3 ORDER BY id, a, c', 'SELECT a, c FROM %I WHERE a %% 3 = 0 AND a < 50 ORDER BY a, c',
		'SELECT count(*), sum(id), min(a), max(b) FROM %I WHERE id BETWEEN %s AND %2$s + 500',
		'SELECT count(*), sum(id) FROM %I WHERE a = ANY (ARRAY[1, 90, %s %% 97])', 'SELECT count(*), sum(a) FROM %I WHERE b > ''c'' AND a IS NULL']) q
	LOOP
		SET LOCAL enable_seqscan = on;
		SET LOCAL enable_indexscan = off;
		SET LOCAL enable_indexonlyscan = off;
		SET LOCAL enable_bitmapscan = off;
		EXECUTE format('SELECT md5(array_agg(s)::text) FROM (%s) s', query) INTO expected;
		SET LOCAL enable_seqscan = off;
		SET LOCAL enable_indexscan = on;
		SET LOCAL enable_indexonlyscan = on;
		EXECUTE format('SELECT md5(array_agg(s)::text) FROM (%s) s', query) INTO got;
		IF got IS DISTINCT FROM expected THEN
			RETURN NEXT query;
		END IF;
		SET LOCAL enable_indexscan = off;
		SET LOCAL enable_indexonlyscan = off;
		SET LOCAL enable_bitmapscan = on;
		EXECUTE format('SELECT md5(array_agg(s)::text) FROM (%s) s', query) INTO got;
		IF got IS DISTINCT FROM expected THEN
			RETURN NEXT 'bitmap: ' || query;
		END IF;
	END LOOP;
END $$;

CREATE PROCEDURE must_agree(verify bool) LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT differences(verify)) THEN
		RAISE EXCEPTION 'indexes and tables differ';
	END IF;
END $$;

CALL work(15);
SELECT * FROM differences();
VACUUM;
SELECT * FROM differences();
CALL work(15);
SELECT * FROM differences();
SET steady.kill = off;
CALL work(15);
SELECT * FROM differences();
RESET steady.kill;
VACUUM;
CALL work(15);
SELECT * FROM differences();
SELECT count(*) > 500 AS logged, (SELECT count(*) FROM unlogged) > 500 AS unlogged, (SELECT count(*) FROM temp) > 500 AS temp FROM logged;
DELETE FROM logged WHERE id % 20 > 0;
DELETE FROM unlogged WHERE id % 20 > 0;
DELETE FROM temp;
SELECT * FROM differences();
VACUUM;
SELECT * FROM differences();
CALL work(15);
SELECT * FROM differences();

-- Prepared transactions, where the server allows them: they hold rows and horizon, and locks that the verifier
-- would wait for
SELECT current_setting('max_prepared_transactions')::int > 0 AS prepared \gset
\if :prepared
DELETE FROM kinds WHERE name = 'temp';
BEGIN;
SELECT transaction('logged') \g /dev/null
INSERT INTO logged VALUES (1000001, 1000001, 'prepared', 1, 'f');
DELETE FROM logged WHERE a = 7;
PREPARE TRANSACTION 'dml_1';
BEGIN;
INSERT INTO logged VALUES (1000002, 1000002, 'prepared', 1, 'f');
PREPARE TRANSACTION 'dml_2';
CALL must_agree(false);
VACUUM logged;
CALL must_agree(false);
COMMIT PREPARED 'dml_1';
ROLLBACK PREPARED 'dml_2';
CALL must_agree(true);
VACUUM logged;
CALL must_agree(true);
DO $$
BEGIN
	IF (SELECT array_agg(a) FROM logged WHERE a > 1000000 OR a = 7) <> '{1000001}' THEN
		RAISE EXCEPTION 'what was prepared is not as it was left';
	END IF;
END $$;
\endif

-- A temporary table that is emptied at each commit
CREATE TEMPORARY TABLE gone (k int) ON COMMIT DELETE ROWS;
CREATE INDEX gone_k ON gone USING steady (k);
BEGIN;
INSERT INTO gone SELECT generate_series(1, 3000);
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM gone WHERE k > 100;
SELECT steady_verify('gone_k', true);
COMMIT;
SELECT count(*) FROM gone WHERE k > 0;
INSERT INTO gone VALUES (1);
SELECT steady_verify('gone_k', true);
BEGIN;
INSERT INTO gone SELECT generate_series(1, 3000);
ROLLBACK;
BEGIN;
INSERT INTO gone SELECT i % 10 FROM generate_series(1, 2000) i;
SET LOCAL enable_seqscan = off;
SELECT k, count(*) FROM gone WHERE k > 7 GROUP BY k ORDER BY k;
COMMIT;

-- COPY, MERGE, and WITH that changes
CREATE TABLE m (k int, v int);
CREATE INDEX m_k ON m USING steady (k);
COPY m FROM stdin;
1	10
2	20
\N	30
4	40
\.
SET enable_seqscan = off;
MERGE INTO m USING (VALUES (2, 200), (3, 300), (4, NULL)) s (k, v) ON m.k = s.k
	WHEN MATCHED AND s.v IS NULL THEN DELETE
	WHEN MATCHED THEN UPDATE SET v = s.v
	WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v);
SELECT * FROM m WHERE k > 0 ORDER BY k;
WITH d AS (DELETE FROM m WHERE k = 1 RETURNING *), i AS (INSERT INTO m SELECT k + 100, v FROM d RETURNING *)
UPDATE m SET v = m.v + 1 FROM i WHERE m.k < i.k RETURNING m.*;
SELECT * FROM m WHERE k > 0 ORDER BY k;
COPY (SELECT * FROM m WHERE k > 2 ORDER BY k DESC) TO stdout;
SELECT steady_verify('m_k', true);

DROP SCHEMA dml CASCADE;

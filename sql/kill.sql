-- Killed entries: who finds a row dead to all marks its entry, and later scans leave the row alone.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA kill;
SET search_path = kill, public;
SET jit = off;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;

-- Pages that a query's topmost scan touches
CREATE FUNCTION touched(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT json) ' || query INTO plan;
	plan := plan #> '{0,Plan}';
	IF plan ->> 'Index Name' IS DISTINCT FROM 't_k' AND plan #>> '{Plans,0,Index Name}' IS DISTINCT FROM 't_k' THEN
		RAISE EXCEPTION 'another plan: %', plan;
	END IF;
	RETURN (plan ->> 'Shared Hit Blocks')::int + (plan ->> 'Shared Read Blocks')::int + (plan ->> 'Local Hit Blocks')::int + (plan ->> 'Local Read Blocks')::int;
END $$;
CREATE FUNCTION killed() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT killed FROM steady_stats('t_k')); END $$;

-- A table of which rows are deleted: less than half of a page's, so that the scan that finds them leaves it to others to
-- take them away. Scanned again and again
CREATE PROCEDURE fresh(kind text, dead text DEFAULT 'k <= 4500 AND k % 100 < 45') LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS t;
	EXECUTE format('CREATE %s TABLE t (k int, id int, filler text) WITH (autovacuum_enabled = off, fillfactor = 90)', kind);
	INSERT INTO t SELECT i, i, repeat('f', 500) FROM generate_series(1, 5000) i;
	CREATE INDEX t_k ON t USING steady (k) INCLUDE (id);
	COMMIT;
	EXECUTE 'DELETE FROM t WHERE ' || dead;
	COMMIT;
END $$;
-- fewer: another scan after the first leaves out pages whose rows are all dead; off: nobody heeds marks, nobody sets any
CREATE FUNCTION scan_thrice(query text, OUT before bigint, OUT after bigint, OUT fewer bool, OUT off bool) LANGUAGE plpgsql AS $$
DECLARE
	first int;
	second int;
BEGIN
	before := killed();
	SET LOCAL steady.kill = off;
	first := touched(query);
	off := killed() = before;
	SET LOCAL steady.kill = on;
	PERFORM touched(query);
	after := killed();
	second := touched(query);
	fewer := second * 5 < first * 4;
	SET LOCAL steady.kill = off;
	off := off AND touched(query) = first;
END $$;
CALL fresh('');
SELECT * FROM scan_thrice('SELECT filler FROM t WHERE k < 4600');
CALL fresh('');
SELECT * FROM scan_thrice('SELECT filler FROM t WHERE k < 4600 ORDER BY k DESC');
CALL fresh('');
SELECT * FROM scan_thrice('SELECT k, id FROM t WHERE k < 4520');	-- index-only
CALL fresh('');
SELECT * FROM scan_thrice('SELECT filler FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 4500, 3)))');
CALL fresh('UNLOGGED');
SELECT * FROM scan_thrice('SELECT filler FROM t WHERE k < 4600');
CALL fresh('TEMPORARY');
SELECT * FROM scan_thrice('SELECT filler FROM t WHERE k < 4600');
SELECT * FROM scan_thrice('SELECT k, id FROM t WHERE k < 4600 ORDER BY k DESC');
DROP TABLE t;
-- A bitmap scan doesn't know which row was dead, but heeds what others found.
CALL fresh('');
SET enable_bitmapscan = on;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT after - before AS killed FROM scan_thrice('SELECT filler FROM t WHERE k < 4600');
SET enable_indexscan = on;
SELECT * FROM scan_thrice('SELECT filler FROM t WHERE k < 4600 ORDER BY k');
SET enable_indexscan = off;
CREATE TABLE bitmap_touched AS SELECT touched('SELECT filler FROM t WHERE k < 4600') AS heeding;
SET steady.kill = off;
SELECT heeding * 5 < 4 * touched('SELECT filler FROM t WHERE k < 4600') AS heeds FROM bitmap_touched;
RESET steady.kill;
RESET enable_indexscan;
RESET enable_indexonlyscan;
SET enable_bitmapscan = off;

-- Each mark is a row that is gone: the rest is there.
SELECT count(*), sum(k) FROM t WHERE k > 0;
SELECT steady_verify('t_k', true);

-- Removal: who finds the page full takes the killed entries away and does not split.
CALL fresh('');
CREATE TABLE stats AS SELECT * FROM steady_stats('t_k');
SELECT count(filler) FROM t WHERE k < 4600;
INSERT INTO t SELECT i, i, 'new' FROM generate_series(1, 4500) i WHERE i % 100 < 45 ORDER BY i * 7 % 4507;
SELECT n.leaf_pages - s.leaf_pages AS more_pages, n.entries - n.killed AS live, n.killed < 50 AS removed FROM stats s, steady_stats('t_k') n;
SELECT count(*), sum(k) FROM t WHERE k > 0;
SELECT steady_verify('t_k', true);

-- A scan that leaves pages mostly dead takes the entries away itself, and then the pages.
CALL fresh('', 'k <= 4500');
SELECT entries, leaf_pages > 10 AS many FROM steady_stats('t_k');
SELECT count(filler) FROM t WHERE k < 4600;
SELECT entries - killed AS live, killed < 100 AS removed, leaf_pages, deleted_pages > 8 AS unlinked FROM steady_stats('t_k');
SELECT count(*), sum(k) FROM t WHERE k > 0;
SELECT steady_verify('t_k', true);
CALL fresh('TEMPORARY', 'k > 1 AND k < 5000');
SELECT count(filler) FROM (SELECT filler FROM t WHERE k > 0 ORDER BY k DESC) s;
SELECT entries - killed AS live, killed < 600 AS removed, leaf_pages < 3 AS unlinked FROM steady_stats('t_k');
SELECT count(*), sum(k) FROM t WHERE k > 0;
SELECT steady_verify('t_k', true);
DROP TABLE t;

-- What must not be killed: rows of a chain that goes on, rows whose delete was aborted, rows not yet committed away,
-- rows that only this transaction has deleted
CALL fresh('', 'k <= 4500');
UPDATE t SET filler = 'hot' WHERE k BETWEEN 4501 AND 4600;
UPDATE t SET filler = 'hotter' WHERE k BETWEEN 4501 AND 4600;
SELECT count(filler) FROM t WHERE k < 4600;
SELECT count(filler) FROM t WHERE k < 4600;
SELECT entries - killed AS live FROM steady_stats('t_k');
BEGIN;
DELETE FROM t WHERE k BETWEEN 4601 AND 4700;
SELECT count(filler) FROM t WHERE k < 4800;
SELECT entries - killed AS live FROM steady_stats('t_k');
ROLLBACK;
SELECT count(filler) FROM t WHERE k < 4800;
BEGIN;
SAVEPOINT s;
DELETE FROM t WHERE k BETWEEN 4601 AND 4700;
INSERT INTO t SELECT i, i, 'sub' FROM generate_series(4601, 4700) i;
SELECT count(filler) FROM t WHERE k < 4800;
ROLLBACK TO s;
SELECT count(filler) FROM t WHERE k < 4800;
COMMIT;
-- the aborted ones are dead to all
SELECT count(filler) FROM t WHERE k < 4800;
SELECT entries - killed AS live FROM steady_stats('t_k');
SELECT count(*), sum(k) FROM t WHERE k > 0;
SELECT steady_verify('t_k', true);

-- Rows locked, shared by several, updated by a subtransaction of which a part was undone
BEGIN;
SELECT count(*) FROM (SELECT FROM t WHERE k < 4550 FOR UPDATE) s;
SAVEPOINT s;
UPDATE t SET k = k + 10000 WHERE k < 4550;
ROLLBACK TO s;
UPDATE t SET k = k + 20000 WHERE k < 4520;
COMMIT;
SELECT count(filler) FROM t WHERE k < 4550;
SELECT count(filler) FROM t WHERE k < 4550;
SELECT count(filler) FROM t WHERE k > 10000;
SELECT steady_verify('t_k', true);

-- The unique check finds them too: here each insert looks at all the dead versions before, but for the marks
DROP TABLE t;
CREATE TABLE t (k int, v int) WITH (autovacuum_enabled = off);
SET client_min_messages = error;
CREATE UNIQUE INDEX t_k ON t USING steady (k);
SET client_min_messages = warning;
CREATE INDEX t_v ON t USING steady (v);
INSERT INTO t SELECT 1, 1;
DO $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		DELETE FROM t WHERE k = 1;
		INSERT INTO t VALUES (1, i);
		COMMIT;
	END LOOP;
END $$;
SELECT entries < 300 OR killed > 250 AS swept, leaf_pages FROM steady_stats('t_k');
SELECT k, v FROM t WHERE k = 1;

-- A queue: taken from the head, put at the tail. It stays as large as it is.
DROP TABLE t;
CREATE TABLE t (k serial, payload text) WITH (autovacuum_enabled = off);
CREATE INDEX t_k ON t USING steady (k);
INSERT INTO t (payload) SELECT 'job' FROM generate_series(1, 200);
DO $$
BEGIN
	FOR i IN 1 .. 6000 LOOP
		DELETE FROM t WHERE k = (SELECT k FROM t ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED);
		INSERT INTO t (payload) VALUES ('job');
		IF i % 10 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END $$;
SELECT count(*), min(k), max(k) FROM t;
SELECT leaf_pages < 8 AS leaves, blocks < 20 AS blocks FROM steady_stats('t_k');
SELECT touched('SELECT payload FROM t ORDER BY k LIMIT 1') < 30 AS touched;
SELECT steady_verify('t_k', true);

DROP SCHEMA kill CASCADE;

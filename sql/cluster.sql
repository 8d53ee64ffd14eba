-- CLUSTER by a steady index, and other rewrites of a table with one.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA clu;
SET search_path = clu, public;
SET jit = off;
SET enable_bitmapscan = off;

CREATE TABLE t (id int, a int, b text COLLATE "C", filler text);
ALTER TABLE t SET (autovacuum_enabled = off);
INSERT INTO t SELECT i, nullif(i * 7919 % 500, 3), 'b' || i % 7, repeat('f', 100) FROM generate_series(1, 5000) i;
CREATE INDEX t_ab ON t USING steady (a DESC NULLS LAST, b, id);
CREATE INDEX t_id ON t USING steady (id);
CREATE INDEX t_part ON t USING steady (a) WHERE a > 10;
CREATE INDEX t_hash ON t USING hash (id);

-- Is the table in the index's order, and are the indexes those of the table?
CREATE FUNCTION state(OUT rows bigint, OUT checksum bigint, OUT out_of_order bigint) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM steady_verify(i.indexrelid, true) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
	WHERE i.indrelid = 't'::regclass AND m.amname = 'steady';
	SELECT count(*), sum(id), count(*) FILTER (WHERE place <> wanted) INTO rows, checksum, out_of_order FROM (
		SELECT id, row_number() OVER (ORDER BY ctid) AS place, row_number() OVER (ORDER BY a DESC NULLS LAST, b, id) AS wanted FROM t) s;
END $$;

SELECT rows, checksum, out_of_order > 0 AS out_of_order FROM state();
-- by a walk along the index, and by sorting
SET enable_seqscan = off;
SET enable_sort = off;
CLUSTER t USING t_ab;
SELECT * FROM state();
INSERT INTO t SELECT i, i % 100, 'x', 'f' FROM generate_series(5001, 6000) i;
UPDATE t SET b = 'new' WHERE id % 9 = 0;
DELETE FROM t WHERE id % 10 = 0;
SELECT rows, checksum, out_of_order > 0 AS out_of_order FROM state();
SET enable_seqscan = on;
SET enable_sort = on;
SET enable_indexscan = off;
CLUSTER t;	-- by the same index
SELECT * FROM state();
RESET enable_indexscan;
SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 't'::regclass AND indisclustered;

-- Entries that a snapshot could have needed, dead rows with killed entries, rows of this transaction
BEGIN;
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true) \g /dev/null
DELETE FROM t WHERE id % 10 = 1;
SELECT count(*) FROM t WHERE a < 1000;	-- looks at the dead
INSERT INTO t SELECT i, i % 100, 'y', 'f' FROM generate_series(7001, 7500) i;
SAVEPOINT s;
DELETE FROM t WHERE id % 10 = 2;
ROLLBACK TO s;
UPDATE t SET filler = 'hot' WHERE id % 10 = 3;
CLUSTER t USING t_ab;
SELECT * FROM state();
ROLLBACK;
SELECT rows, checksum FROM state();
DELETE FROM t WHERE id % 10 = 1;
SET enable_seqscan = off;
SELECT count(*) FROM t WHERE a < 1000;
SELECT killed > 0 AS killed FROM steady_stats('t_ab');
CLUSTER t USING t_ab;
SELECT * FROM state();

-- What can't be clustered by
CLUSTER t USING t_part;
CLUSTER t USING t_hash;
ALTER TABLE t CLUSTER ON t_id;
CLUSTER t;
SELECT rows, checksum, out_of_order > 0 AS out_of_order FROM state();
SELECT count(*) FILTER (WHERE id < before) AS wrong FROM (SELECT id, lag(id) OVER (ORDER BY ctid) AS before FROM t) s;
ALTER TABLE t SET WITHOUT CLUSTER;
CLUSTER t;

-- Other rewrites: new index files each time, in one transaction too
SELECT rows, checksum FROM state();
VACUUM FULL t;
SELECT rows, checksum FROM state();
ALTER TABLE t ALTER a TYPE bigint;
SELECT rows, checksum FROM state();
ALTER TABLE t ALTER b TYPE varchar(30) COLLATE "C";
SELECT rows, checksum FROM state();
ALTER TABLE t ADD c int DEFAULT (random() * 10)::int;
SELECT rows, checksum FROM state();
ALTER TABLE t SET UNLOGGED;
SELECT rows, checksum FROM state();
ALTER TABLE t SET LOGGED;
SELECT rows, checksum FROM state();
REINDEX TABLE t;
SELECT rows, checksum FROM state();
BEGIN;
TRUNCATE t;
INSERT INTO t SELECT i, i % 10, 'z', 'f', 1 FROM generate_series(1, 1000) i;
SELECT rows, checksum FROM state();
SAVEPOINT s;
TRUNCATE t;
INSERT INTO t VALUES (1, 1, 'z', 'f', 1);
SELECT rows, checksum FROM state();
ROLLBACK TO s;
SELECT rows, checksum FROM state();
CLUSTER t USING t_ab;
SELECT * FROM state();
COMMIT;
SELECT * FROM state();
BEGIN;
CREATE TABLE n (LIKE t INCLUDING INDEXES);
INSERT INTO n SELECT * FROM t;
TRUNCATE n;
INSERT INTO n SELECT * FROM t WHERE id <= 100;
COMMIT;
SELECT indexrelid::regclass, amname, steady_verify(indexrelid, true) FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am m ON m.oid = relam
WHERE indrelid = 'n'::regclass AND amname = 'steady' ORDER BY 1;
SELECT count(*) FROM n WHERE a >= 0;

-- A table without rows
TRUNCATE t;
CLUSTER t USING t_ab;
SELECT * FROM state();

DROP SCHEMA clu CASCADE;

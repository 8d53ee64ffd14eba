-- Partitioned tables: indexes of all partitions, those that are attached, and scans in order across them.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA part;
SET search_path = part, public;
SET jit = off;

CREATE TABLE p (k int, v text, id int) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000);
CREATE TABLE p2 (id int, v text, dropped int, k int);	-- columns in another order
ALTER TABLE p2 DROP dropped;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (1000) TO (2000);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (2000) TO (4000) PARTITION BY LIST (v);
CREATE TABLE p3a PARTITION OF p3 FOR VALUES IN ('a', 'b');
CREATE TABLE p3b PARTITION OF p3 DEFAULT;
CREATE TABLE pd PARTITION OF p DEFAULT;
INSERT INTO p SELECT nullif(i % 4500, 17), chr(97 + i % 5), i FROM generate_series(1, 9000) i;

CREATE INDEX p_k ON p USING steady (k, id);
CREATE INDEX p_v ON p USING steady (v COLLATE "C" DESC, k) WHERE id % 2 = 0;
SELECT relid, level, isleaf FROM pg_partition_tree('p_k') ORDER BY relid::regclass::text;

-- in order without a sort, with pruning, in both directions
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
CREATE FUNCTION nodes(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		found := concat_ws(', ', found, (regexp_match(line, '(Sort$|Merge Append|Append|Index (?:Only )?Scan(?: Backward)? using \w+)'))[1]);
	END LOOP;
	RETURN found;
END $$;
SELECT nodes('SELECT k, id FROM p WHERE k BETWEEN 500 AND 3000 ORDER BY k, id');
SELECT nodes('SELECT v, k FROM p WHERE id % 2 = 0 AND v COLLATE "C" = ''b'' AND k < 2500 ORDER BY v COLLATE "C" DESC, k');
CREATE FUNCTION compare(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	expected text;
	got text;
	collect text := format('SELECT count(*) || '' '' || md5(array_agg(s)::text) FROM (%s) s', query);
BEGIN
	EXECUTE collect INTO got;
	SET LOCAL enable_seqscan = on;
	SET LOCAL enable_sort = on;
	SET LOCAL enable_indexscan = off;
	SET LOCAL enable_indexonlyscan = off;
	EXECUTE collect INTO expected;
	RETURN CASE WHEN expected IS NOT DISTINCT FROM got THEN split_part(got, ' ', 1) || ' rows' ELSE 'DIFFERENT' END;
END $$;
CREATE VIEW compared AS SELECT compare(query) FROM unnest(ARRAY[
	'SELECT k, id FROM p ORDER BY k, id', 'SELECT k, id, v FROM p ORDER BY k DESC, id DESC',
	'SELECT k, id, v FROM p WHERE k BETWEEN 500 AND 3000 ORDER BY k, id', 'SELECT k, id FROM p WHERE k IS NULL ORDER BY k, id',
	'SELECT k, id, v FROM p WHERE k = ANY (''{1,999,1000,1999,2000,3999,4400}'') ORDER BY k, id',
	'SELECT v, k FROM p WHERE id % 2 = 0 AND v COLLATE "C" = ''b'' AND k < 2500 ORDER BY v COLLATE "C" DESC, k',
	'SELECT p.k, p.id, o.id FROM p JOIN p o ON o.k = p.k + 1 AND o.id = p.id + 1 WHERE p.k < 1500 ORDER BY p.k, p.id']) query;
SELECT * FROM compared;

-- rows that move from one partition to another
UPDATE p SET k = k + 1000 WHERE id % 7 = 0;
DELETE FROM p WHERE id % 11 = 0;
SELECT * FROM compared;
VACUUM p;
SELECT * FROM compared;
SELECT count(*) FROM (SELECT steady_verify(relid, true) FROM pg_partition_tree('p_k') WHERE isleaf OFFSET 0) v;
SELECT steady_verify('p_k');

-- a partition with an index that fits, and one whose index is of another access method, and one without
CREATE TABLE n1 (k int, v text, id int);
CREATE INDEX n1_fits ON n1 USING steady (k, id);
CREATE INDEX n1_btree ON n1 USING btree (v COLLATE "C" DESC, k) WHERE id % 2 = 0;
INSERT INTO n1 SELECT 5000 + i, 'n', i FROM generate_series(1, 500) i;
ALTER TABLE p DETACH PARTITION pd;
ALTER TABLE p ATTACH PARTITION n1 FOR VALUES FROM (5000) TO (6000);
SELECT i.inhrelid::regclass, i.inhparent::regclass, m.amname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_am m ON m.oid = c.relam
	JOIN pg_index x ON x.indexrelid = c.oid WHERE x.indrelid = 'n1'::regclass ORDER BY 1;
SELECT * FROM compared;
ALTER TABLE p DETACH PARTITION n1;
SELECT nodes('SELECT k, id FROM n1 ORDER BY k, id');

-- index by index
CREATE INDEX p_id ON ONLY p USING steady (id);
SELECT indisvalid FROM pg_index WHERE indexrelid = 'p_id'::regclass;
CREATE INDEX p1_id ON p1 USING steady (id);
CREATE INDEX p2_id ON p2 USING steady (id);
CREATE INDEX p2_other ON p2 USING btree (id);
CREATE INDEX p3_id ON p3 USING steady (id);
ALTER INDEX p_id ATTACH PARTITION p1_id;
ALTER INDEX p_id ATTACH PARTITION p2_other;
ALTER INDEX p_id ATTACH PARTITION p2_id;
SELECT indisvalid FROM pg_index WHERE indexrelid = 'p_id'::regclass;
ALTER INDEX p_id ATTACH PARTITION p3_id;
SELECT indisvalid FROM pg_index WHERE indexrelid = 'p_id'::regclass;
SELECT compare('SELECT id FROM p WHERE id < 700 ORDER BY id');
DROP INDEX p1_id;
ALTER INDEX p_id SET (fillfactor = 80);
REINDEX INDEX p_id;
REINDEX TABLE p;
SELECT * FROM compared;

-- a foreign key's cascade looks for rows by it
CREATE TABLE ref (id int PRIMARY KEY);
INSERT INTO ref SELECT generate_series(1, 5);
CREATE TABLE q (r int REFERENCES ref ON DELETE CASCADE, k int) PARTITION BY HASH (k);
CREATE TABLE q0 PARTITION OF q FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE q1 PARTITION OF q FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE INDEX q_r ON q USING steady (r);
INSERT INTO q SELECT 1 + i % 5, i FROM generate_series(1, 1000) i;
DELETE FROM ref WHERE id = 3;
SELECT count(*), count(*) FILTER (WHERE r = 3) FROM q;

-- inheritance
CREATE TABLE parent (k int);
CREATE TABLE child () INHERITS (parent);
CREATE INDEX parent_k ON parent USING steady (k);
CREATE INDEX child_k ON child USING steady (k);
INSERT INTO parent SELECT i * 2 FROM generate_series(1, 500) i;
INSERT INTO child SELECT i * 2 + 1 FROM generate_series(1, 500) i;
SELECT nodes('SELECT k FROM parent ORDER BY k');
SELECT compare('SELECT k FROM parent ORDER BY k DESC');
SELECT min(k), max(k) FROM parent;

DROP SCHEMA part CASCADE;

-- What the server keeps for btree, whatever the access method can do. The second expected output is that of servers
-- before 18, which keep more; the third and the fourth are those of 18 and 15 with contrib_patches, which keep less.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
RESET client_min_messages;
CREATE SCHEMA limits;
SET search_path = limits, public;
CREATE TABLE t (k int NOT NULL, v int);

-- A warning where ON CONFLICT can't work
CREATE UNIQUE INDEX t_k ON t USING steady (k);
CREATE INDEX t_v ON t USING steady (v);
REINDEX TABLE t;
TRUNCATE t;
INSERT INTO t VALUES (1, 1), (2, 2);

-- Constraints name no access method, and take no index but btree's.
ALTER TABLE t ADD PRIMARY KEY USING INDEX t_k;
ALTER TABLE t ADD CONSTRAINT t_unique UNIQUE USING INDEX t_k;
ALTER TABLE t ADD CONSTRAINT t_unique UNIQUE USING INDEX t_k DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE t ADD CONSTRAINT t_unique UNIQUE USING steady (k);

-- ON CONFLICT
INSERT INTO t VALUES (1, 10) ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (1, 10), (3, 30) ON CONFLICT (k) DO NOTHING;
INSERT INTO t VALUES (1, 10), (4, 40) ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING *;
INSERT INTO t VALUES (5, 50), (5, 51) ON CONFLICT (k) DO UPDATE SET v = excluded.v;
INSERT INTO t VALUES (1, 10) ON CONFLICT (v) DO NOTHING;
INSERT INTO t SELECT i % 50, i FROM generate_series(1, 1000) i ON CONFLICT DO NOTHING;
BEGIN;
INSERT INTO t SELECT i, -i FROM generate_series(0, 60) i ON CONFLICT (k) DO UPDATE SET v = t.v + 1000, k = t.k + 100 WHERE t.k % 2 = 0;
ROLLBACK;
CREATE TABLE f (k int, state text);
CREATE UNIQUE INDEX f_k ON f USING steady (abs(k), lower(state)) WHERE state <> 'done';
INSERT INTO f VALUES (-1, 'Open'), (1, 'open'), (1, 'done'), (-1, 'done')
	ON CONFLICT (lower(state), abs(k)) WHERE state <> 'done' DO NOTHING;
TABLE f;
SELECT count(*), sum(k), sum(v) FROM t;
SELECT steady_verify('t_k', true), steady_verify('t_v', true);

-- A foreign key needs the index's "=".
CREATE TABLE child (k int REFERENCES t (k));
INSERT INTO child VALUES (1);
INSERT INTO child VALUES (1000);
DELETE FROM t WHERE k = 1;

-- An identity for logical replication
ALTER TABLE t REPLICA IDENTITY USING INDEX t_k;
ALTER TABLE t REPLICA IDENTITY DEFAULT;

-- Unique on a partitioned table
CREATE TABLE p (k int, v int) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200);
CREATE UNIQUE INDEX p_k ON p USING steady (k, v);
INSERT INTO p VALUES (1, 1), (101, 1), (1, 2);
INSERT INTO p VALUES (101, 1);
CREATE UNIQUE INDEX p_v ON p USING steady (v);

-- A materialized view is refreshed concurrently by a unique index.
CREATE MATERIALIZED VIEW m AS SELECT k, v FROM t;
CREATE UNIQUE INDEX m_k ON m USING steady (k);
REFRESH MATERIALIZED VIEW m;
REFRESH MATERIALIZED VIEW CONCURRENTLY m;

-- A comparison of rows is a filter, no condition on the index.
INSERT INTO t SELECT i, i % 10 FROM generate_series(1000, 3000) i;
CREATE INDEX t_vk ON t USING steady (v, k);
VACUUM ANALYZE t;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE (v, k) > (8, 2900) ORDER BY v, k;
SELECT count(*), min(v * 10000 + k) FROM t WHERE (v, k) > (8, 2900) AND k > 1000;

-- A boolean column that is a condition by itself
CREATE TABLE b (flag bool, id int);
INSERT INTO b SELECT i % 10 = 0, i FROM generate_series(1, 1000) i;
CREATE INDEX b_flag ON b USING steady (flag, id);
EXPLAIN (COSTS OFF) SELECT * FROM b WHERE flag AND id > 900;
EXPLAIN (COSTS OFF) SELECT * FROM b WHERE flag IS TRUE AND id > 900;
EXPLAIN (COSTS OFF) SELECT * FROM b WHERE flag >= true AND id > 900;
SELECT count(*) FROM b WHERE flag AND id > 900;
SELECT count(*) FROM b WHERE NOT flag AND id > 900;

-- Prefixes: under the operator classes for patterns the planner turns to btree alone; under collation C to any.
SET enable_seqscan = on;
CREATE TABLE w (t text, n inet);
INSERT INTO w SELECT md5(i::text), inet '10.0.0.0' + i FROM generate_series(1, 1000) i;
CREATE INDEX w_pattern ON w USING steady (t text_pattern_ops);
EXPLAIN (COSTS OFF) SELECT t FROM w WHERE t LIKE 'abc%';
CREATE INDEX w_c ON w USING steady (t COLLATE "C");
EXPLAIN (COSTS OFF) SELECT t FROM w WHERE t LIKE 'ab%';
SELECT t FROM w WHERE t LIKE 'ab%' ORDER BY t COLLATE "C";
EXPLAIN (COSTS OFF) SELECT t FROM w WHERE t ~ '^abc';
EXPLAIN (COSTS OFF) SELECT t FROM w WHERE t ^@ 'abc';
CREATE INDEX w_n ON w USING steady (n);
EXPLAIN (COSTS OFF) SELECT n FROM w WHERE n << inet '10.0.1.0/30';
SELECT n FROM w WHERE n << inet '10.0.1.0/30' ORDER BY n;

-- Proofs from uniqueness: a join that can be left out
RESET enable_seqscan;
DROP INDEX t_vk;
EXPLAIN (COSTS OFF) SELECT a.v FROM t a LEFT JOIN t b ON a.v = b.k;	-- 18: the table itself, once

-- Exclusion constraints work, and ON CONFLICT with them. They can be deferred.
SET client_min_messages = error;
CREATE TABLE x (k int, v int, EXCLUDE USING steady (k WITH =) WHERE (v > 0), CONSTRAINT x_v EXCLUDE USING steady (v WITH =, k WITH =) DEFERRABLE);
INSERT INTO x VALUES (1, 1), (1, 0), (2, 2), (NULL, 1), (NULL, 1);
INSERT INTO x VALUES (1, 5);
INSERT INTO x VALUES (1, 0);
INSERT INTO x VALUES (1, 5), (3, 3) ON CONFLICT DO NOTHING;
INSERT INTO x VALUES (1, 5), (3, 3) ON CONFLICT ON CONSTRAINT x_k_excl DO NOTHING;
UPDATE x SET v = 3 WHERE k = 1 AND v = 0;
BEGIN;
SET CONSTRAINTS x_v DEFERRED;
INSERT INTO x VALUES (1, 0), (4, -1), (4, -1);
DELETE FROM x WHERE ctid IN (SELECT min(ctid) FROM x WHERE v <= 0 GROUP BY k, v HAVING count(*) > 1);
COMMIT;
BEGIN;
SET CONSTRAINTS x_v DEFERRED;
INSERT INTO x VALUES (4, -1);
COMMIT;
SELECT * FROM x ORDER BY k, v;
-- by another operator than "="
CREATE TABLE y (k int, EXCLUDE USING steady (k WITH <));

DROP SCHEMA limits CASCADE;

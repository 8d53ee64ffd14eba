-- An extension whose version the library doesn't serve: indexes can't be built, filled or searched, but the rest goes on.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA version;
SET search_path = version, public;
CREATE TABLE t (id int);
INSERT INTO t SELECT generate_series(1, 1000);
CREATE INDEX t_id ON t USING steady (id);
SELECT extversion AS version FROM pg_extension WHERE extname = 'steady' \gset
UPDATE pg_extension SET extversion = '0.0' WHERE extname = 'steady';
-- A session looks once.
\c -
SET client_min_messages = warning;
SET search_path = version, public;
CREATE INDEX bad ON t USING steady (id);
INSERT INTO t VALUES (0);
SET enable_seqscan = off;
SELECT id FROM t WHERE id = 1;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT id FROM t WHERE id = 1;
SET enable_bitmapscan = off;
SET enable_seqscan = on;
SELECT id FROM t WHERE id = 1;
DELETE FROM t WHERE id = 2;
VACUUM t;
UPDATE pg_extension SET extversion = :'version' WHERE extname = 'steady';
SET enable_seqscan = off;
SET enable_indexscan = on;
SELECT id FROM t WHERE id BETWEEN 1 AND 3;
INSERT INTO t VALUES (0);
SELECT steady_verify('t_id', true);

DROP SCHEMA version CASCADE;

-- The verifier: it finds no fault with sound indexes of many kinds, it finds those that can be made from SQL, and it
-- tells what it can't check. (Damaged pages: t/bad_pages.pl.)
\set VERBOSITY terse
SET client_min_messages = error;	-- 15 warns of ON CONFLICT at each unique index
CREATE EXTENSION IF NOT EXISTS steady;
SET timezone = 'UTC';

-- Verifies all steady indexes of a table; says how many there were.
CREATE FUNCTION verify_all(rel regclass) RETURNS bigint LANGUAGE sql VOLATILE AS $$
	SELECT count(*) FROM (
		SELECT steady_verify(c.oid, heapallindexed => true)
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
		WHERE i.indrelid = rel AND a.amname = 'steady' OFFSET 0) verified
$$;

CREATE TYPE vf_pair AS (a int, b text);
CREATE FUNCTION vf_row(i int) RETURNS TABLE (
	id int, i4 int4, i8 int8, i2 int2, f8 float8, num numeric, t text, c text, nam name, u uuid, d date,
	ts timestamptz, iv interval, arr int[], pair vf_pair, b bool, few int, long text)
LANGUAGE sql AS $$
	SELECT i, nullif(i % 997, 5), i::int8 * 1000003 % 1000007, (i % 300)::int2, (i % 50) / 7.0 - 3, (i % 71)::numeric / 8,
		't' || i % 500, nullif('c' || i % 77, 'c7'), ('n' || i % 900)::name, md5(i::text)::uuid, date '2020-01-01' + i % 99,
		timestamptz '2020-01-01 UTC' + i % 1234 * interval '1 minute', (i % 40) * interval '1 hour',
		ARRAY[i % 9, i % 13], (i % 11, 'p' || i % 17)::vf_pair, i % 3 = 0, i % 4, repeat(md5((i % 10)::text), 40) || i % 25
$$;
CREATE TABLE vf AS SELECT r.* FROM generate_series(1, 1200) i, vf_row(i) r ORDER BY i * 7 % 1201;
ALTER TABLE vf SET (autovacuum_enabled = off);

-- Built over rows
CREATE INDEX ON vf USING steady (i4);
CREATE INDEX ON vf USING steady (i8 DESC) WITH (fillfactor = 10);
CREATE INDEX ON vf USING steady (i2, f8 DESC NULLS LAST);
CREATE INDEX ON vf USING steady (num) INCLUDE (t, id);
CREATE INDEX ON vf USING steady (t);
CREATE INDEX ON vf USING steady (c COLLATE "C" NULLS FIRST, i4);
CREATE INDEX ON vf USING steady (nam);
CREATE INDEX ON vf USING steady (t text_pattern_ops);
CREATE UNIQUE INDEX ON vf USING steady (u);
CREATE UNIQUE INDEX ON vf USING steady (id, long);
CREATE INDEX ON vf USING steady (d, ts);
CREATE INDEX ON vf USING steady (iv);
CREATE INDEX ON vf USING steady (arr);
CREATE INDEX ON vf USING steady (pair);
CREATE INDEX ON vf USING steady (b);
CREATE INDEX vf_few ON vf USING steady (few) WITH (codec = tuple);
CREATE INDEX ON vf USING steady (few);
CREATE INDEX ON vf USING steady (few) WITH (deduplicate_items = off);
CREATE INDEX vf_long ON vf USING steady (long);
CREATE INDEX ON vf USING steady ((i4 % 10), (upper(t)));
CREATE INDEX ON vf USING steady (i8) WHERE i4 < 200;
SELECT verify_all('vf');
SELECT posting_lists > 0 AS posting_lists FROM steady_stats('vf_few');
SELECT levels > 1 AS inner_pages FROM steady_stats('vf_long');

-- Through inserts in other orders, deletes, updates, VACUUM and inserts again
INSERT INTO vf SELECT r.* FROM generate_series(1201, 2000) i, vf_row(i) r ORDER BY i DESC;
SELECT verify_all('vf');
DELETE FROM vf WHERE id % 3 = 0 OR id BETWEEN 500 AND 900;
SELECT verify_all('vf');
UPDATE vf SET t = t || 'x', i4 = i4 + 1 WHERE id % 5 = 1;
SELECT verify_all('vf');
VACUUM vf;
SELECT verify_all('vf');
INSERT INTO vf SELECT r.* FROM generate_series(2001, 2400) i, vf_row(i) r;
UPDATE vf SET f8 = f8 WHERE id % 2 = 0;
SELECT verify_all('vf');

-- What is rolled back, or not yet committed
BEGIN;
DELETE FROM vf WHERE id % 7 = 0;
INSERT INTO vf SELECT r.* FROM generate_series(2401, 2600) i, vf_row(i) r;
SELECT verify_all('vf');
SAVEPOINT s;
INSERT INTO vf SELECT r.* FROM generate_series(2601, 2800) i, vf_row(i) r;
ROLLBACK TO s;
SELECT verify_all('vf');
ROLLBACK;
SELECT verify_all('vf');
DELETE FROM vf;
SELECT verify_all('vf');
VACUUM vf;
SELECT verify_all('vf');

-- Isolation levels: snapshots of their own
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO vf SELECT r.* FROM generate_series(1, 500) i, vf_row(i) r;
SELECT verify_all('vf');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT verify_all('vf');
COMMIT;

-- Other kinds of relations, and empty ones
CREATE TEMP TABLE vf_temp (a int) ON COMMIT DELETE ROWS;
CREATE INDEX ON vf_temp USING steady (a);
SELECT verify_all('vf_temp');
BEGIN;
INSERT INTO vf_temp SELECT generate_series(1, 1000);
SELECT verify_all('vf_temp');
COMMIT;
CREATE UNLOGGED TABLE vf_unlogged (a int);
CREATE INDEX ON vf_unlogged USING steady (a);
SELECT verify_all('vf_unlogged');
INSERT INTO vf_unlogged SELECT generate_series(1, 1000);
SELECT verify_all('vf_unlogged');
CREATE MATERIALIZED VIEW vf_matview AS SELECT a FROM vf_unlogged;
CREATE UNIQUE INDEX ON vf_matview USING steady (a);
SELECT verify_all('vf_matview');

-- Unique indexes: dead rows, NULLs and what is live only once
CREATE TABLE vf_unique (a int, b int, n int);
CREATE UNIQUE INDEX vf_unique_a ON vf_unique USING steady (a);
CREATE UNIQUE INDEX ON vf_unique USING steady (a, b) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX ON vf_unique USING steady (b);
INSERT INTO vf_unique SELECT i FROM generate_series(1, 1000) i;
UPDATE vf_unique SET n = 1, a = -a;
UPDATE vf_unique SET n = 2, a = -a;
UPDATE vf_unique SET n = 3;
SELECT verify_all('vf_unique');

-- Faults: two live rows under one key
CREATE INDEX vf_unique_n ON vf_unique USING steady (n);
SELECT steady_verify('vf_unique_n', true);
SET allow_system_table_mods = on;
UPDATE pg_index SET indisunique = true WHERE indexrelid = 'vf_unique_n'::regclass;
RESET allow_system_table_mods;
DO $$
BEGIN
	PERFORM steady_verify('vf_unique_n');
	RAISE 'no fault found';
EXCEPTION WHEN index_corrupted THEN
	RAISE INFO '%', regexp_replace(sqlerrm, '\([0-9]+,[0-9]+\)|block \d+|slot \d+', '_', 'g');
END $$;
-- ... which NULLs are not
UPDATE vf_unique SET n = NULL;
VACUUM vf_unique;
SELECT steady_verify('vf_unique_n', true);

-- Faults: functions that are not as immutable as they say (and are not inlined)
CREATE FUNCTION vf_f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
CREATE FUNCTION vf_p(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 % 2 = 0; END';
CREATE TABLE vf_lies (a int);
INSERT INTO vf_lies SELECT generate_series(1, 100);
CREATE INDEX vf_expression ON vf_lies USING steady ((vf_f(a)));
CREATE INDEX vf_partial ON vf_lies USING steady (a) WHERE vf_p(a);
SELECT verify_all('vf_lies');
CREATE OR REPLACE FUNCTION vf_f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 + 1000; END';
SELECT steady_verify('vf_expression');
SELECT steady_verify('vf_expression', true);
-- too few entries, then too many
CREATE OR REPLACE FUNCTION vf_p(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 % 2 = 1; END';
SELECT steady_verify('vf_partial', true);
CREATE OR REPLACE FUNCTION vf_p(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 % 4 = 0; END';
SELECT steady_verify('vf_partial', true);
-- an expression of equal keys, but not the same
CREATE FUNCTION vf_n(int) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1::numeric; END';
CREATE INDEX vf_scale ON vf_lies USING steady ((vf_n(a)));
SELECT steady_verify('vf_scale', true);
CREATE OR REPLACE FUNCTION vf_n(int) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1::numeric(10,2); END';
SELECT steady_verify('vf_scale', true);

-- Faults: an order that changed after the index was built
CREATE FUNCTION vf_cmp(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN btint4cmp($1, $2); END';
CREATE OPERATOR CLASS vf_ops FOR TYPE int USING steady AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 vf_cmp(int, int);
CREATE INDEX vf_order ON vf_lies USING steady (a vf_ops);
SELECT steady_verify('vf_order', true);
CREATE OR REPLACE FUNCTION vf_cmp(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN btint4cmp($2, $1); END';
\c -
\set VERBOSITY terse
SET client_min_messages = error;
SELECT steady_verify('vf_order');

-- Functions of an index run as the table's owner, in a restricted operation
CREATE ROLE regress_steady_vf;
CREATE FUNCTION vf_who(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_user <> 'regress_steady_vf' THEN
		RAISE 'runs as %', current_user;
	END IF;
	RETURN $1;
END $$;
GRANT CREATE ON SCHEMA public TO regress_steady_vf;
SET ROLE regress_steady_vf;
CREATE TABLE vf_owned (a int);
INSERT INTO vf_owned VALUES (1);
CREATE INDEX vf_who ON vf_owned USING steady ((public.vf_who(a)));
RESET ROLE;
SELECT steady_verify('vf_who', true);

-- Who may, and what can be verified
CREATE INDEX vf_btree ON vf_lies USING btree (a);
CREATE TABLE vf_parted (a int) PARTITION BY RANGE (a);
CREATE INDEX vf_parted_a ON vf_parted USING steady (a);
CREATE VIEW vf_view AS SELECT 1;
\set VERBOSITY default
SELECT steady_verify('vf_btree');
SELECT steady_verify('vf_lies');
SELECT steady_verify('vf_parted_a');
SELECT steady_verify('vf_view');
SELECT steady_verify(4294967295);
SELECT steady_verify(NULL) IS NULL AS nothing;
INSERT INTO vf_lies VALUES (1);
CREATE UNIQUE INDEX CONCURRENTLY vf_invalid ON vf_lies USING steady (a);
SELECT steady_verify('vf_invalid');
SET ROLE regress_steady_vf;
SELECT steady_verify('vf_unique_a');
SELECT steady_verify('vf_who', true);
RESET ROLE;

\set VERBOSITY terse
DROP TABLE vf, vf_unlogged, vf_unique, vf_lies, vf_owned, vf_parted CASCADE;
DROP VIEW vf_view;
DROP OPERATOR FAMILY vf_ops USING steady;
DROP FUNCTION vf_row, vf_f, vf_p, vf_n, vf_cmp, vf_who, verify_all;
DROP TYPE vf_pair;
REVOKE CREATE ON SCHEMA public FROM regress_steady_vf;
DROP ROLE regress_steady_vf;

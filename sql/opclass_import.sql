-- Operator classes that other extensions bring: imported, used, and gone when their extension goes.
-- In a database of its own, for it drops extensions.
\set home :DBNAME
CREATE DATABASE steady_opclass_import TEMPLATE template0 LOCALE 'C' ENCODING 'UTF8';
\c steady_opclass_import
SET client_min_messages = error;
CREATE EXTENSION steady;
CREATE EXTENSION citext;
CREATE SCHEMA "Else where";
CREATE EXTENSION ltree SCHEMA "Else where";
SET search_path = public, "Else where";

CREATE VIEW mirrored AS
	SELECT n.nspname, c.opcname, c.opcdefault, amvalidate(c.oid) AS valid
	FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod JOIN pg_namespace n ON n.oid = opcnamespace
	WHERE amname = 'steady' AND nspname <> 'pg_catalog' ORDER BY 1, 2;

CREATE TABLE words (id int, c citext, l ltree);
-- Not yet: text's class, which a citext can be read with, would take upper and lower case for different.
CREATE UNIQUE INDEX ON words USING steady (id, c);
SELECT * FROM steady_import_opclasses(only_builtin => true);
SELECT * FROM steady_import_opclasses();
SELECT * FROM steady_import_opclasses();
SELECT * FROM mirrored;
CREATE VIEW member AS
	SELECT amname, opfname, amopopr::int8 AS object, amoplefttype AS l, amoprighttype AS r, amopstrategy AS number
	FROM pg_amop JOIN pg_opfamily f ON f.oid = amopfamily JOIN pg_am a ON a.oid = opfmethod WHERE opfnamespace <> 'pg_catalog'::regnamespace
	UNION ALL
	SELECT amname, opfname, amproc::oid::int8, amproclefttype, amprocrighttype, amprocnum
	FROM pg_amproc JOIN pg_opfamily f ON f.oid = amprocfamily JOIN pg_am a ON a.oid = opfmethod WHERE opfnamespace <> 'pg_catalog'::regnamespace;
SELECT count(*), count(*) FILTER (WHERE methods <> ARRAY['btree', 'steady']) AS differences
FROM (SELECT array_agg(amname::text ORDER BY amname) AS methods FROM member WHERE amname IN ('btree', 'steady')
	  GROUP BY opfname, object, l, r, number) m;

--
-- In use: the same rows in the same order as without an index
--
INSERT INTO words SELECT i, CASE WHEN i % 2 = 0 THEN upper(w) ELSE w END, text2ltree('top.' || w || '.n' || i % 7)
FROM (SELECT i, 'word' || i * 7919 % 1000 AS w FROM generate_series(1, 3000) i) x;
CREATE INDEX words_c ON words USING steady (c);
CREATE INDEX words_pattern ON words USING steady (c citext_pattern_ops);
CREATE INDEX words_l ON words USING steady (l DESC NULLS LAST, id);
CREATE INDEX words_text ON words USING steady (c text_ops);	-- no longer the default, so asked for
ANALYZE words;
CREATE TABLE question (id int, index text, sql text);
INSERT INTO question VALUES
	(1, 'words_c', 'SELECT lower(c::text) FROM words ORDER BY c'),
	(2, 'words_', 'SELECT id FROM words WHERE c = ''Word42'' ORDER BY c, id'),
	(3, 'words_pattern', 'SELECT id FROM words WHERE c ~<~ ''WORD101'' AND c ~>=~ ''word10'' ORDER BY id'),
	(4, 'words_l', 'SELECT id FROM words WHERE l < ''top.word12'' ORDER BY l DESC NULLS LAST, id'),
	(5, 'words_text', 'SELECT id FROM words WHERE c::text = ''WORD42'' ORDER BY id');
CREATE TABLE answer (id int, method text, rows text[], index_used boolean);
CREATE FUNCTION ask(method text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	q question;
	rows text[];
	plan json;
BEGIN
	FOR q IN SELECT * FROM question LOOP
		EXECUTE format('SELECT array_agg(x::text) FROM (%s) x', q.sql) INTO rows;
		EXECUTE 'EXPLAIN (FORMAT json) ' || q.sql INTO plan;
		INSERT INTO answer VALUES (q.id, method, rows, plan::text LIKE '%"Index Name": "' || q.index || '%');
	END LOOP;
END
$$;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_bitmapscan = off;
SELECT ask('seqscan');
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_bitmapscan;
SET enable_seqscan = off;
SET enable_sort = off;
SELECT ask('index');
RESET enable_seqscan;
RESET enable_sort;
SELECT id, i.rows = s.rows AS same, cardinality(i.rows) > 1 AS rows, s.index_used AS in_seqscan, i.index_used AS in_index
FROM answer i JOIN answer s USING (id) WHERE i.method = 'index' AND s.method = 'seqscan' ORDER BY id;
\set VERBOSITY sqlstate
CREATE UNIQUE INDEX ON words USING steady (c);	-- duplicates
DELETE FROM words WHERE id > 1000;
CREATE UNIQUE INDEX words_unique ON words USING steady (c);
INSERT INTO words VALUES (0, 'wOrD42', 'x');	-- another one
\set VERBOSITY default

--
-- The extension goes
--
\set VERBOSITY sqlstate
DROP EXTENSION citext;
\set VERBOSITY default
ALTER TABLE words DROP COLUMN c;
DROP EXTENSION citext;
SELECT * FROM mirrored;
SELECT count(*) FROM pg_opfamily f JOIN pg_am a ON a.oid = opfmethod WHERE opfname LIKE 'citext%';
DROP EXTENSION ltree CASCADE;
SELECT * FROM mirrored;
SELECT attname FROM pg_attribute WHERE attrelid = 'words'::regclass AND attnum > 0 AND NOT attisdropped;
SELECT count(*) FROM pg_index WHERE indrelid = 'words'::regclass;

-- and comes back
CREATE EXTENSION citext SCHEMA "Else where";
SELECT * FROM steady_import_opclasses();
-- A dump keeps the operator classes, but not that they go with the extension. Importing again mends that.
DELETE FROM pg_depend WHERE deptype = 'x';
\set VERBOSITY sqlstate
DROP EXTENSION citext;
\set VERBOSITY default
SELECT * FROM steady_import_opclasses();
DROP EXTENSION citext;
SELECT * FROM mirrored;

-- Moved to another schema: the old mirror still serves as default.
CREATE EXTENSION citext SCHEMA "Else where";
SELECT * FROM steady_import_opclasses();
ALTER EXTENSION citext SET SCHEMA public;
SELECT * FROM steady_import_opclasses();
SELECT * FROM mirrored;

-- steady goes: what uses it stands in the way, what was only imported does not.
CREATE TABLE kept (c citext);
CREATE INDEX kept_c ON kept USING steady (c);
\set VERBOSITY sqlstate
DROP EXTENSION steady;
\set VERBOSITY default
DROP INDEX kept_c;
DROP EXTENSION steady;
SELECT * FROM mirrored;
\c :home
DROP DATABASE steady_opclass_import;

-- Operator classes: the mirror of btree's families, what may be in one, and that it changes no plan.
-- In a database of its own, for it must see plans from before the extension came.
\set home :DBNAME
CREATE DATABASE steady_opclass TEMPLATE template0 LOCALE 'C' ENCODING 'UTF8';
\c steady_opclass
SET client_min_messages = warning;

--
-- Queries that use no steady index: their plans before the extension
--
CREATE TABLE small (i4 int4 PRIMARY KEY, i8 int8, i2 int2, t text, v varchar(20), n name, d date, ts timestamptz, num numeric);
CREATE TABLE big (i8 int8 PRIMARY KEY, i4 int4, t text COLLATE "C", ts timestamp, arr int4[], f4 float4, f8 float8);
INSERT INTO small SELECT i, i, i % 100, 't' || i, 'v' || i, 'n' || i, date '2020-01-01' + i, timestamptz '2020-01-01' + i * interval '1 hour', i
	FROM generate_series(1, 2000) i;
INSERT INTO big SELECT i, i % 5000, 't' || i, timestamp '2020-01-01' + i * interval '1 minute', ARRAY[i, i + 1], i, i
	FROM generate_series(1, 10000) i;
CREATE INDEX ON small (t);
CREATE INDEX ON small (v varchar_pattern_ops);
CREATE INDEX ON small (n);
CREATE INDEX ON small (i2, i8 DESC);
CREATE INDEX ON big (i4);
CREATE INDEX ON big (t text_pattern_ops);
CREATE INDEX ON big (ts);
CREATE INDEX ON big (arr);
CREATE INDEX ON big (f4);
CREATE TABLE part (k int8, d date, t text) PARTITION BY RANGE (k);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (1000);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (1000) TO (2000);
CREATE TABLE part_3 PARTITION OF part FOR VALUES FROM (2000) TO (3000);
CREATE INDEX ON part (k);
CREATE TABLE list (k text, x int4) PARTITION BY LIST (k);
CREATE TABLE list_a PARTITION OF list FOR VALUES IN ('a');
CREATE TABLE list_b PARTITION OF list FOR VALUES IN ('b', 'c');
INSERT INTO part SELECT i, date '2020-01-01' + i, 'p' || i FROM generate_series(0, 2999) i;
INSERT INTO list SELECT 'a', i FROM generate_series(1, 500) i;
VACUUM ANALYZE;

CREATE TABLE query (id int GENERATED ALWAYS AS IDENTITY, sql text);
INSERT INTO query (sql) VALUES
	-- equivalence classes across types: a constant must reach each relation, whichever operator brought it
	('SELECT * FROM small s JOIN big b ON s.i4 = b.i8 WHERE b.i8 = 42'),
	('SELECT * FROM small s JOIN big b ON s.i8 = b.i4 WHERE s.i8 = 42::int4'),
	('SELECT * FROM small s JOIN big b ON s.i4 = b.i8 JOIN part p ON p.k = s.i4 WHERE p.k = 7'),
	('SELECT * FROM small s JOIN big b ON s.i2 = b.i8 JOIN small r ON r.i4 = b.i8 WHERE s.i2 = 5::int8'),
	('SELECT * FROM small s JOIN big b ON s.d = b.ts WHERE b.ts = timestamp ''2020-01-05'''),
	('SELECT * FROM big a JOIN big b ON a.f4 = b.f8 WHERE b.f8 = 1::float8'),
	('SELECT * FROM small s JOIN small r ON s.n = r.t WHERE r.t = ''t5'''),
	('SELECT * FROM small s JOIN small r ON s.t = r.v AND r.v = ''v1'''),
	-- merge joins, outer ones too, and sorts that they save
	('SELECT s.i4 FROM small s JOIN big b ON s.i4 = b.i8 ORDER BY b.i8'),
	('SELECT s.i4 FROM small s LEFT JOIN big b ON s.i4 = b.i4 ORDER BY s.i4'),
	('SELECT * FROM small s FULL JOIN big b ON s.i4 = b.i8'),
	('SELECT s.i4 FROM small s JOIN big b USING (i4) JOIN small r USING (i4) ORDER BY i4 DESC'),
	('SELECT * FROM small s WHERE s.i4 IN (SELECT i8 FROM big) ORDER BY i4'),
	('SELECT * FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE b.i8 = s.i4)'),
	-- order
	('SELECT * FROM small ORDER BY i2, i8 DESC LIMIT 10'),
	('SELECT * FROM small ORDER BY i2 DESC, i8 LIMIT 10'),
	('SELECT * FROM big ORDER BY t USING ~<~ LIMIT 10'),
	('SELECT * FROM big ORDER BY i4 USING > LIMIT 10'),
	('SELECT * FROM small ORDER BY i2, t LIMIT 5'),
	('SELECT * FROM big ORDER BY arr LIMIT 5'),
	('SELECT min(i4), max(i4) FROM big'),
	('SELECT max(t) FROM small'),
	('SELECT DISTINCT i4 FROM big'),
	('SELECT DISTINCT ON (i2) * FROM small ORDER BY i2, i8 DESC'),
	('SELECT i2, count(*) FROM small GROUP BY i2 ORDER BY i2'),
	('SELECT i4 FROM small UNION SELECT i4 FROM big'),
	('SELECT i4 FROM small EXCEPT SELECT i4 FROM big'),
	-- windows: with a run condition, with RANGE offsets
	('SELECT * FROM (SELECT i4, row_number() OVER (ORDER BY i4) AS r FROM small) q WHERE r <= 5'),
	('SELECT i4, sum(i8) OVER (PARTITION BY i2 ORDER BY i8) FROM small'),
	('SELECT ts, count(*) OVER (ORDER BY ts RANGE BETWEEN ''1 day'' PRECEDING AND CURRENT ROW) FROM big'),
	-- patterns, row comparison, arrays of values, ranges of constants that refute each other
	('SELECT * FROM small WHERE v LIKE ''v12%'''),
	('SELECT * FROM big WHERE t LIKE ''t77%'' ORDER BY t'),
	('SELECT * FROM small WHERE (i2, i8) > (50, 100) ORDER BY i2, i8'),
	('SELECT * FROM big WHERE i4 = ANY (ARRAY[1, 5, 9]) ORDER BY i4'),
	('SELECT * FROM small WHERE i4 > 10 AND i4 > 20::int8 AND i8 <> 3'),
	('SELECT * FROM big WHERE arr = ARRAY[1, 2]'),
	('SELECT * FROM small WHERE n = ''n77'''),
	-- partitions
	('SELECT * FROM part WHERE k < 500'),
	('SELECT * FROM part WHERE k >= 1500::int4 AND k < 2500'),
	('SELECT * FROM part WHERE k > 10 ORDER BY k LIMIT 5'),
	('SELECT * FROM list WHERE k = ''b'''),
	('SELECT * FROM list WHERE k IN (''a'', ''c'') AND x < 5');

CREATE TABLE plan (stage text, mode text, id int, line int, text text);
CREATE FUNCTION collect_plans(stage text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	q query;
	mode text;
	plan_line text;
	line int;
BEGIN
	FOREACH mode IN ARRAY ARRAY['as it comes', 'merge'] LOOP
		PERFORM set_config('enable_' || s, (mode <> 'merge')::text, true)
			FROM unnest(ARRAY['hashjoin', 'nestloop', 'hashagg', 'seqscan']) s;
		FOR q IN SELECT * FROM query LOOP
			line := 0;
			FOR plan_line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q.sql LOOP
				line := line + 1;
				INSERT INTO plan VALUES (stage, mode, q.id, line, plan_line);
			END LOOP;
		END LOOP;
	END LOOP;
END
$$;
CREATE FUNCTION changed_plans(stage text) RETURNS TABLE (sql text) LANGUAGE sql
BEGIN ATOMIC
	SELECT q.sql FROM query q
	WHERE EXISTS (SELECT FROM (SELECT mode, line, text FROM plan p WHERE p.stage = 'before' AND p.id = q.id) b
				  FULL JOIN (SELECT mode, line, text FROM plan p WHERE p.stage = changed_plans.stage AND p.id = q.id) a
				  USING (mode, line)
				  WHERE a.text IS DISTINCT FROM b.text)
	ORDER BY q.id;
END;

SELECT collect_plans('before');

-- The set of plans means something: these are in it.
SELECT node, bool_or(p.text LIKE '%' || node || '%') AS planned
FROM unnest(ARRAY['Merge Join', 'Nested Loop', 'Hash%Join', 'Index Only Scan', 'Bitmap Heap Scan', 'Sort', 'Unique',
				  'WindowAgg', 'Append', 'Incremental Sort']) node, plan p
GROUP BY node ORDER BY node;

\set ECHO none
SELECT clock_timestamp() AS start \gset
\set ECHO all
CREATE EXTENSION steady;
SELECT clock_timestamp() - :'start' < '2 s' AS quick;

SELECT collect_plans('after');
SELECT * FROM changed_plans('after');

--
-- The mirror and the original are the same
--
CREATE VIEW family AS
	SELECT amname, f.oid, opfname, opfnamespace FROM pg_opfamily f JOIN pg_am a ON a.oid = opfmethod
	WHERE amname IN ('btree', 'steady');
CREATE VIEW class AS
	SELECT f.amname, f.opfname, f.opfnamespace, c.opcname, c.opcnamespace, c.opcintype, c.opcdefault, c.opckeytype
	FROM pg_opclass c JOIN family f ON f.oid = opcfamily;
CREATE VIEW operator AS
	SELECT f.amname, f.opfname, f.opfnamespace, o.amoplefttype, o.amoprighttype, o.amopstrategy, o.amoppurpose, o.amopopr, o.amopsortfamily
	FROM pg_amop o JOIN family f ON f.oid = amopfamily;
CREATE VIEW function AS
	SELECT f.amname, f.opfname, f.opfnamespace, p.amproclefttype, p.amprocrighttype, p.amprocnum, p.amproc
	FROM pg_amproc p JOIN family f ON f.oid = amprocfamily;
CREATE FUNCTION mirror_differences() RETURNS TABLE (what text, mirrored boolean, missing bigint, surplus bigint) LANGUAGE plpgsql AS $$
BEGIN
	FOREACH what IN ARRAY ARRAY['family', 'class', 'operator', 'function'] LOOP
		RETURN QUERY EXECUTE format($q$
			WITH b AS (SELECT to_jsonb(x) - 'amname' - 'oid' AS j FROM %1$I x WHERE amname = 'btree'),
				s AS (SELECT to_jsonb(x) - 'amname' - 'oid' AS j FROM %1$I x WHERE amname = 'steady')
			SELECT %1$L, (SELECT count(*) FROM s) > 20,
				(SELECT count(*) FROM (SELECT j FROM b EXCEPT ALL SELECT j FROM s) x),
				(SELECT count(*) FROM (SELECT j FROM s EXCEPT ALL SELECT j FROM b) x)$q$, what);
	END LOOP;
END
$$;
SELECT * FROM mirror_differences();

SELECT count(*) > 40 AS many, bool_and(amvalidate(c.oid)) AS valid
FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod WHERE amname = 'steady';

-- Comparison members belong to the class of their type, the others to the family.
SELECT CASE WHEN refclassid = 'pg_opclass'::regclass THEN 'class' ELSE 'family' END AS belongs_to, d.deptype,
	o.amoplefttype = o.amoprighttype AS one_type, count(*) > 10 AS many
FROM pg_depend d JOIN pg_amop o ON (classid, objid) = ('pg_amop'::regclass, o.oid) JOIN family f ON f.oid = amopfamily AND amname = 'steady'
WHERE refclassid IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass)
GROUP BY 1, 2, 3 ORDER BY 1;
SELECT CASE WHEN refclassid = 'pg_opclass'::regclass THEN 'class' ELSE 'family' END AS belongs_to, d.deptype,
	p.amprocnum = 1 AND p.amproclefttype = p.amprocrighttype AS one_type_order, count(*) > 10 AS many
FROM pg_depend d JOIN pg_amproc p ON (classid, objid) = ('pg_amproc'::regclass, p.oid) JOIN family f ON f.oid = amprocfamily AND amname = 'steady'
WHERE refclassid IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass)
GROUP BY 1, 2, 3 ORDER BY 1;

-- Everything is a member of the extension.
SELECT count(*) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod AND amname = 'steady'
WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE (classid, objid, deptype) = ('pg_opclass'::regclass, c.oid, 'e'));
SELECT count(*) FROM family f WHERE amname = 'steady'
	AND NOT EXISTS (SELECT FROM pg_depend d WHERE (classid, objid, deptype) = ('pg_opfamily'::regclass, f.oid, 'e'));

--
-- Nothing left to import; what gets lost is imported again
--
SELECT * FROM steady_import_opclasses();
ALTER OPERATOR FAMILY integer_ops USING steady DROP OPERATOR 3 (int4, int8), FUNCTION 2 (int4, int4);
ALTER EXTENSION steady DROP OPERATOR CLASS varchar_ops USING steady;
DROP OPERATOR CLASS varchar_ops USING steady;
ALTER EXTENSION steady DROP OPERATOR CLASS uuid_ops USING steady;
ALTER EXTENSION steady DROP OPERATOR FAMILY uuid_ops USING steady;
DROP OPERATOR FAMILY uuid_ops USING steady CASCADE;
SELECT what, missing > 0 AS missing, surplus FROM mirror_differences();

-- Such a gap is what splits equivalence classes, on servers that ask every ordered method.
SELECT collect_plans('gap');
SELECT (count(*) > 0) = (current_setting('server_version_num')::int >= 180000) AS as_expected FROM changed_plans('gap');

SELECT opfamily, opclasses > 0 AS opclasses, operators > 0 AS operators, functions > 0 AS functions FROM steady_import_opclasses();
SELECT * FROM mirror_differences();
SELECT * FROM steady_import_opclasses();
SELECT collect_plans('again');
SELECT * FROM changed_plans('again');
SELECT count(*) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod AND amname = 'steady'
WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE (classid, objid, deptype) = ('pg_opclass'::regclass, c.oid, 'e'));

--
-- What a class may be
--
CREATE FUNCTION wrong_compare(int4, int8) RETURNS int4 LANGUAGE sql IMMUTABLE AS 'SELECT 0';
CREATE FUNCTION wrong_equal_image(int4) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE OPERATOR CLASS storage_ops FOR TYPE text USING steady AS OPERATOR 1 <, FUNCTION 1 bttextcmp(text, text), STORAGE int4;
CREATE OPERATOR CLASS same_storage_ops FOR TYPE text USING steady AS OPERATOR 1 <, FUNCTION 1 bttextcmp(text, text), STORAGE text;
CREATE OPERATOR CLASS strategy_ops FOR TYPE int4 USING steady AS OPERATOR 6 <>;
\set VERBOSITY sqlstate
CREATE OPERATOR CLASS support_ops FOR TYPE int4 USING steady AS FUNCTION 7 btint4cmp(int4, int4);
\set VERBOSITY default
CREATE OPERATOR CLASS default_ops DEFAULT FOR TYPE int4 USING steady AS OPERATOR 1 <;
-- steady finds the faults that btree finds
CREATE OPERATOR CLASS incomplete_ops FOR TYPE int4 USING btree AS
	OPERATOR 1 <, OPERATOR 3 = (int4, int8), FUNCTION 1 (int4, int4) wrong_compare(int4, int8), FUNCTION 4 wrong_equal_image(int4);
SELECT opfamily, opclasses, operators, functions FROM steady_import_opclasses();
CREATE OPERATOR CLASS empty_ops FOR TYPE int4 USING steady AS STORAGE int4;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'incomplete_ops' ORDER BY opcmethod;
SELECT opcname, amvalidate(oid) FROM pg_opclass WHERE opcname IN ('same_storage_ops', 'empty_ops') ORDER BY 1;

-- Alone, it can't lose what its type's order needs; once the class is gone all of it goes.
CREATE OPERATOR CLASS own_ops FOR TYPE int4 USING steady AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int4, int4);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'own_ops';
ALTER OPERATOR FAMILY own_ops USING steady DROP OPERATOR 1 (int4, int4);
ALTER OPERATOR FAMILY own_ops USING steady ADD FUNCTION 2 (int4, int4) btint4sortsupport(internal);
ALTER OPERATOR FAMILY own_ops USING steady DROP FUNCTION 2 (int4, int4);
DROP OPERATOR CLASS own_ops USING steady;
SELECT count(*) FROM operator WHERE opfname = 'own_ops';
ALTER OPERATOR FAMILY own_ops USING steady ADD OPERATOR 1 < (int4, int4);
ALTER OPERATOR FAMILY own_ops USING steady DROP OPERATOR 1 (int4, int4);

-- Names are found as btree's are, and no search_path hides them.
CREATE SCHEMA elsewhere;
SET search_path = elsewhere;
SELECT opcname, pg_opclass_is_visible(c.oid) AS visible FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod AND amname = 'steady'
WHERE opcname IN ('int4_ops', 'text_pattern_ops') ORDER BY 1;
RESET search_path;

-- Bytes say nothing of what a nondeterministic collation calls equal: refused as btree's are.
CREATE COLLATION ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE words (t text COLLATE ignore_case, v varchar COLLATE ignore_case, b bpchar COLLATE ignore_case);
CREATE INDEX ON words USING steady (t text_pattern_ops);
CREATE INDEX ON words USING steady (t, v varchar_pattern_ops);
CREATE INDEX CONCURRENTLY ON words USING steady (b bpchar_pattern_ops);
CREATE INDEX ON words USING steady (t COLLATE "C" text_pattern_ops, v varchar_ops, b);
DROP TABLE words;

-- Only for superusers.
CREATE ROLE regress_steady_opclass;
SET ROLE regress_steady_opclass;
SELECT * FROM steady_import_opclasses();
RESET ROLE;
DROP ROLE regress_steady_opclass;

DROP EXTENSION steady;
SELECT count(*) FROM family WHERE amname = 'steady';
\c :home
DROP DATABASE steady_opclass;

-- Storage parameters, and what CREATE INDEX refuses.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA opt;
SET search_path = opt, public;
CREATE TABLE t (k int, v text, p point, x xid);
INSERT INTO t SELECT i, 'v' || i % 5, point(i, i) FROM generate_series(1, 20000) i;

-- fillfactor: 10 to 100
CREATE INDEX bad ON t USING steady (k) WITH (fillfactor = 9);
CREATE INDEX bad ON t USING steady (k) WITH (fillfactor = 101);
CREATE INDEX bad ON t USING steady (k) WITH (fillfactor = half);
CREATE INDEX t_10 ON t USING steady (k) WITH (fillfactor = 10, codec = tuple);
CREATE INDEX t_50 ON t USING steady (k) WITH (fillfactor = 50, codec = tuple);
CREATE INDEX t_def ON t USING steady (k) WITH (codec = tuple);
CREATE INDEX t_100 ON t USING steady (k) WITH (fillfactor = 100, codec = tuple);
CREATE FUNCTION pages(name text) RETURNS bigint LANGUAGE sql AS 'SELECT leaf_pages FROM steady_stats(name::regclass)';
SELECT pages('t_10') > 4 * pages('t_50') AS ten, pages('t_50') > 1.6 * pages('t_def') AS fifty, pages('t_def') > pages('t_100') AS hundred;
CREATE INDEX t_btree ON t USING btree (k) WITH (fillfactor = 100);
SELECT pg_relation_size('t_100') <= pg_relation_size('t_btree') AS no_larger_than_btree;
-- a change is for what is written from now on
ALTER INDEX t_def SET (fillfactor = 50);
SELECT pages('t_def') < pages('t_50') AS as_before;
REINDEX INDEX t_def;
SELECT pages('t_def') = pages('t_50') AS as_asked;
ALTER INDEX t_def RESET (fillfactor);
REINDEX INDEX t_def;
SELECT pages('t_def') < pages('t_50') AS as_before;
ALTER INDEX t_def SET (fillfactor = 5);
SELECT reloptions FROM pg_class WHERE relname IN ('t_10', 't_def') ORDER BY relname;

-- deduplicate_items: equal keys share posting lists, or not
CREATE INDEX t_dup ON t USING steady (v);
CREATE INDEX t_one ON t USING steady (v) WITH (deduplicate_items = off);
SELECT posting_lists > 0 AS posting_lists, entries FROM steady_stats('t_dup');
SELECT posting_lists > 0 AS posting_lists, entries FROM steady_stats('t_one');
SELECT pages('t_one') > 2.5 * pages('t_dup') AS smaller;
ALTER INDEX t_dup SET (deduplicate_items = off);
ALTER INDEX t_one SET (deduplicate_items = on);
REINDEX INDEX t_dup;
REINDEX INDEX t_one;
SELECT pages('t_dup') > 2.5 * pages('t_one') AS smaller;
ALTER INDEX t_dup SET (deduplicate_items = perhaps);
ALTER INDEX t_dup RESET (deduplicate_items);
-- also when filled row by row
CREATE TABLE u (v text);
CREATE INDEX u_dup ON u USING steady (v);
CREATE INDEX u_one ON u USING steady (v) WITH (deduplicate_items = false);
INSERT INTO u SELECT v FROM t;
SELECT pages('u_one') > 2 * pages('u_dup') AS smaller;
SELECT steady_verify('u_dup', true), steady_verify('u_one', true), steady_verify('t_dup', true), steady_verify('t_10', true);
-- not where equal values need not be identical, nor with INCLUDE columns
CREATE TABLE n (n numeric, f float8, t text);
INSERT INTO n SELECT i % 3, i % 3, i % 3 FROM generate_series(1, 2000) i;
CREATE INDEX n_n ON n USING steady (n);
CREATE INDEX n_f ON n USING steady (f);
CREATE INDEX n_inc ON n USING steady (t) INCLUDE (f);
CREATE INDEX n_t ON n USING steady (t);
SELECT i, posting_lists > 0 AS posting_lists FROM unnest(ARRAY['n_n', 'n_f', 'n_inc', 'n_t']) i, steady_stats(i::regclass);

-- Unknown ones, and btree's that are not for us
CREATE INDEX bad ON t USING steady (k) WITH (fastupdate = on);
CREATE INDEX bad ON t USING steady (k) WITH (buffering = auto);
CREATE INDEX bad ON t USING steady (k) WITH (steady.fillfactor = 70);
ALTER INDEX t_def SET (fill = 70);
CREATE INDEX bad ON t USING steady (v text_ops (siglen = 8));

-- Rows too large for a page, in both ways, by what is stored and what is in the key
CREATE TABLE l (id int, t text);
ALTER TABLE l ALTER t SET STORAGE EXTERNAL;	-- not compressed
CREATE INDEX l_t ON l USING steady (t);
INSERT INTO l VALUES (1, repeat('x', 2600));
INSERT INTO l VALUES (2, repeat('y', 9000));
INSERT INTO l VALUES (3, repeat('z', 100000));
UPDATE l SET t = t || t;
DO $$
DECLARE
	hint text;
	state text;
	t text;
	c text;
BEGIN
	INSERT INTO opt.l VALUES (4, repeat('x', 2700));
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT, state = RETURNED_SQLSTATE, t = TABLE_NAME, c = CONSTRAINT_NAME;
	RAISE INFO '% | % | % | %', state, hint, t, c;
END $$;
DROP INDEX l_t;
INSERT INTO l VALUES (5, repeat('x', 3000));
CREATE INDEX l_t ON l USING steady (t);
CREATE INDEX l_t ON l USING steady (id) INCLUDE (t);
DELETE FROM l WHERE id = 5;
CREATE INDEX l_t ON l USING steady (t, id);
INSERT INTO l SELECT i, repeat(chr(97 + i % 26), 2650) || i FROM generate_series(1, 200) i ORDER BY i * 7 % 201;
SELECT steady_verify('l_t', true);
SELECT levels > 1 AS tall FROM steady_stats('l_t');
SET enable_seqscan = off;
SELECT count(*) FROM (SELECT t, lag(t) OVER () AS before FROM (SELECT t FROM l ORDER BY t) s) s WHERE before COLLATE "C" > t COLLATE "C";
RESET enable_seqscan;
-- what compresses well is taken at any length
CREATE TABLE compressed (t text);
CREATE INDEX compressed_t ON compressed USING steady (t);
INSERT INTO compressed SELECT repeat(chr(65 + i), 50000) FROM generate_series(1, 20) i;
SELECT count(*) FROM compressed WHERE t > repeat('H', 60000);
SELECT steady_verify('compressed_t', true);

-- More columns than an index has
SELECT format('CREATE TABLE w (%s); CREATE INDEX w_32 ON w USING steady (%s); CREATE INDEX w_33 ON w USING steady (%s)',
	string_agg(format('c%s int', i), ', '), string_agg('c' || i, ', ') FILTER (WHERE i <= 32), string_agg('c' || i, ', ')) AS command
FROM generate_series(1, 33) i \gset
:command;
INSERT INTO w SELECT 1, 2, 3;
INSERT INTO w (c1, c32) SELECT 1, i FROM generate_series(1, 1000) i;
SELECT steady_verify('w_32', true);

-- Types and operator classes
CREATE INDEX bad ON t USING steady (p);
CREATE INDEX bad ON t USING steady (x);
CREATE INDEX bad ON t USING steady (k text_ops);
CREATE INDEX bad ON t USING steady (k no_ops);
CREATE INDEX bad ON t USING steady (v gin_trgm_ops);
CREATE INDEX bad ON t USING steady (k COLLATE "C");
CREATE INDEX bad ON t USING steady (missing);
CREATE INDEX bad ON t USING steady (k) INCLUDE (missing);

-- Exclusion by operators that are no member of a family
CREATE TABLE bad (p int4range, EXCLUDE USING steady (p WITH &&));

-- The same column several times; an index on a view
CREATE INDEX t_twice ON t USING steady (k, k DESC, v, k) INCLUDE (k, v);
SELECT steady_verify('t_twice', true);
SET enable_seqscan = off;
SELECT k, v FROM t WHERE k > 19998 AND v = 'v4' ORDER BY k;
CREATE VIEW view AS SELECT * FROM t;
CREATE INDEX ON view USING steady (k);

-- A setting
SHOW steady.kill;
SET steady.kill = maybe;
SET steady.unknown = 1;

DROP SCHEMA opt CASCADE;

-- Leaves of words: all types and orders, conditions of every kind, through inserts, deletes and VACUUM. The index answers
-- as a sequential scan does, and its order is ORDER BY's.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA wd;
SET search_path = wd, public;
SET timezone = 'UTC';
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE t (id int, b bool, ch "char", i2 int2, i4 int4, i8 int8, o oid, d date, tm time, ts timestamp, tz timestamptz,
	u uuid, mac macaddr, mo money, lsn pg_lsn, x8 xid8, few int4) WITH (autovacuum_enabled = off);
CREATE FUNCTION fill(low int, high int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO t SELECT i, CASE WHEN i % 11 > 0 THEN i % 2 = 0 END, CASE WHEN i % 13 > 0 THEN chr(1 + h % 120)::"char" END,
		CASE WHEN i % 17 > 0 THEN h % 65536 - 32768 END::int2,
		CASE WHEN i % 19 > 0 THEN CASE i % 40 WHEN 1 THEN -2147483648 WHEN 2 THEN 2147483647 ELSE h - 1000000 END END,
		CASE WHEN i % 23 > 0 THEN CASE i % 50 WHEN 1 THEN -9223372036854775808 WHEN 2 THEN 9223372036854775807 ELSE hashint8extended(i, 1) >> i % 60 END END,
		CASE WHEN i % 29 > 0 THEN (CASE i % 30 WHEN 1 THEN 4294967295 WHEN 2 THEN 0 ELSE h::int8 * 2000 END)::oid END,
		CASE i % 31 WHEN 0 THEN NULL WHEN 1 THEN date 'infinity' WHEN 2 THEN date '-infinity' ELSE date '2000-01-01' + h % 1000 END,
		CASE WHEN i % 37 > 0 THEN time '00:00' + h % 86400 * interval '1 second' END,
		CASE i % 41 WHEN 0 THEN NULL WHEN 1 THEN timestamp 'infinity' WHEN 2 THEN timestamp '-infinity' ELSE timestamp '1999-12-25' + h * interval '1 minute' END,
		CASE WHEN i % 43 > 0 THEN timestamptz '2024-01-01 UTC' + i * interval '37 ms' END,
		CASE WHEN i % 47 > 0 THEN md5((h % 3000)::text)::uuid END,
		CASE WHEN i % 53 > 0 THEN substr(md5(h::text), 1, 12)::macaddr END,
		CASE WHEN i % 59 > 0 THEN ((h - 1000000) / 7.0)::numeric::money END,
		CASE WHEN i % 61 > 0 THEN pg_lsn '0/0' + h::numeric * 123456789 END,
		CASE WHEN i % 67 > 0 THEN (h::int8 * 4000000000)::text::xid8 END,
		CASE WHEN i % 71 > 0 THEN h % 9 END
	FROM generate_series(low, high) i, LATERAL (SELECT abs(hashint4(i) % 2000000) AS h) c
$$;
SELECT fill(1, 4000);

CREATE TABLE cases (n int GENERATED ALWAYS AS IDENTITY, keys text, conditions text[]);
INSERT INTO cases (keys, conditions) VALUES
('b', '{b,"NOT b","b IS NULL",true}'),
('b DESC NULLS LAST, i4', '{"b AND i4 > 500000","b IS NOT NULL AND i4 < -900000","i4 = -2147483648"}'),
('ch DESC', '{"ch = ''A''","ch > ''x''","ch IS NULL"}'),
('i2', '{"i2 = 5","i2 < -32000","i2 > 40000","i2 > -40000::int8","i2 BETWEEN -100 AND 100::int8","i2 IN (1, 70000, -5)"}'),
('i4', '{"i4 = 3000000000","i4 > -3000000000","i4 < 3000000000","i4 >= 2147483647","i4 = ANY (ARRAY[5, -2147483648])","i4 < 100::int2","i4 IS NULL"}'),
('i4 DESC NULLS LAST', '{"i4 = 3000000000","i4 > -3000000000","i4 < 3000000000","i4 <= -2147483648","i4 IS NULL","i4 IS NOT NULL"}'),
('i8', '{"i8 = 0","i8 > 100::int2","i8 < -100","i8 = ANY (''{1,2,3,9223372036854775807}'')","i8 IS NULL","i8 <= -9223372036854775808"}'),
('i8 DESC NULLS FIRST', '{"i8 > 100::int2","i8 < -100","i8 IS NULL","true"}'),
('o', '{"o > 4000000000","o = 0","o IN (0, 4294967295)"}'),
('d', '{"d = ''infinity''","d > timestamp ''2001-03-01 12:00''","d < timestamptz ''2000-06-01''","d = timestamp ''2001-01-01''","d = ANY (''{2000-02-03,-infinity}'')"}'),
('d DESC, ts NULLS FIRST', '{"d >= timestamp ''2001-03-01 12:00'' AND ts < date ''2001-01-01''","d = ''2000-05-05'' AND ts IS NULL","ts = ''infinity''"}'),
('tm DESC NULLS LAST', '{"tm < ''01:00''","tm = ''12:00:01''"}'),
('ts', '{"ts > date ''2002-01-01''","ts < timestamptz ''2000-01-02''","ts = ''infinity''"}'),
('tz, id', '{"tz < ''2024-01-01 00:01 UTC''","tz > date ''2024-01-01'' AND id < 100","id = 77"}'),
('u', '{"u = ''c4ca4238-a0b9-2382-0dcc-509a6f75849b''","u > ''f0000000-0000-0000-0000-000000000000''","u IS NULL"}'),
('u DESC NULLS LAST', '{"u < ''10000000-0000-0000-0000-000000000000''","u IS NULL","true"}'),
('mac', '{"mac < ''20:00:00:00:00:00''","mac IS NULL"}'),
('mo DESC', '{"mo < ''-$1,000''","mo > ''$100,000''::money"}'),
('lsn', '{"lsn > ''1000/0''","lsn = ''0/0''"}'),
('x8 DESC', '{"x8 > ''1000000000000''","x8 IS NULL"}'),
('few', '{"few = 3","few > 6","few IS NULL","few = ANY (''{1,8,20}'')"}'),
('few, i8', '{"few = 3 AND i8 > 0","few IN (1, 2) AND i8 = 0","i8 = 0","few < 4 AND i8 IS NULL","(few, i8) > (5, 0)"}'),
('few DESC, i4 NULLS FIRST, i2 DESC', '{"few = 3 AND i4 > 0 AND i2 < 0","i2 = 100","few IS NULL AND i4 IS NULL"}'),
('i8, tz DESC', '{"i8 = 0 AND tz > ''2024-01-01 00:01 UTC''","i8 IS NULL AND tz IS NULL"}'),
('id, id DESC', '{"id BETWEEN 10 AND 300","id = ANY (ARRAY(SELECT generate_series(1, 4000, 77)))"}'),
('b, ch, i2, b DESC, few', '{"ch = ''A'' AND few = 2","b AND i2 > 0"}'),
('(i4 % 100), few', '{"i4 % 100 = 7","i4 % 100 > 90 AND few = 1"}');

-- What is wrong: whose rows, or whose order, are not those of a sequential scan
CREATE FUNCTION differences(keys text, condition text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	plain text := regexp_replace(keys, ' (DESC|NULLS (FIRST|LAST))', '', 'g');
	scan text;
	expected text;
	got text;
BEGIN
	PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'on', true);
	EXECUTE format('SELECT md5(string_agg(ctid::text, '','' ORDER BY ctid)) FROM t WHERE %s', condition) INTO expected;
	PERFORM set_config('enable_seqscan', 'off', true);
	FOREACH scan IN ARRAY ARRAY['indexscan', 'bitmapscan'] LOOP
		PERFORM set_config('enable_indexscan', CASE scan WHEN 'indexscan' THEN 'on' ELSE 'off' END, true),
			set_config('enable_bitmapscan', CASE scan WHEN 'bitmapscan' THEN 'on' ELSE 'off' END, true);
		EXECUTE format('SELECT md5(string_agg(ctid::text, '','' ORDER BY ctid)) FROM t WHERE %s', condition) INTO got;
		IF got IS DISTINCT FROM expected THEN
			RETURN NEXT format('%s: rows of %s by %s', keys, condition, scan);
		END IF;
	END LOOP;
	-- In order, and what an index-only scan makes of the words
	PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'on', true);
	EXECUTE format('SELECT md5(string_agg(v::text, '','' ORDER BY n)) FROM (SELECT row_number() OVER () AS n, v FROM (SELECT (%1$s) AS v FROM t WHERE %2$s ORDER BY %3$s) s) o', 'ROW(' || plain || ')', condition, keys) INTO expected;
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true), set_config('enable_sort', 'off', true);
	EXECUTE format('SELECT md5(string_agg(v::text, '','' ORDER BY n)) FROM (SELECT row_number() OVER () AS n, v FROM (SELECT (%1$s) AS v FROM t WHERE %2$s ORDER BY %3$s) s) o', 'ROW(' || plain || ')', condition, keys) INTO got;
	PERFORM set_config('enable_sort', 'on', true);
	IF got IS DISTINCT FROM expected THEN
		RETURN NEXT format('%s: order of %s', keys, condition);
	END IF;
END $$;
CREATE FUNCTION check_all(options text DEFAULT '') RETURNS TABLE (keys text, codec text, differences text) LANGUAGE plpgsql AS $$
DECLARE
	c record;
BEGIN
	FOR c IN SELECT * FROM cases ORDER BY n LOOP
		EXECUTE format('CREATE INDEX i ON t USING steady (%s) %s', c.keys, options);
		PERFORM fill(4001, 5500);
		DELETE FROM t WHERE id % 5 = 0 AND id > 3000;
		PERFORM steady_verify('i', true);
		keys := c.keys;
		codec := (SELECT s.codec FROM steady_stats('i') s);
		differences := (SELECT string_agg(d, '; ') FROM unnest(c.conditions) condition, differences(c.keys, condition) d);
		RETURN NEXT;
		DROP INDEX i;
		DELETE FROM t WHERE id > 3000;
		PERFORM fill(3001, 4000);
	END LOOP;
END $$;
VACUUM ANALYZE t;
SELECT * FROM check_all();

-- One index each for VACUUM, which removes a third, and inserts into the gaps
CREATE INDEX t_i8 ON t USING steady (i8);
CREATE INDEX t_u ON t USING steady (u, few);
CREATE INDEX t_few ON t USING steady (few) WITH (fillfactor = 70);
DELETE FROM t WHERE id % 3 = 1;
VACUUM t;
SELECT gaps > 0 AS gaps, steady_verify('t_i8', true), steady_verify('t_u', true), steady_verify('t_few', true) FROM steady_stats('t_i8');
SELECT fill(5000, 9000);
SELECT steady_verify('t_i8', true), steady_verify('t_u', true), steady_verify('t_few', true);
SELECT * FROM differences('i8', 'i8 > 0') UNION ALL SELECT * FROM differences('u, few', 'few = 2') UNION ALL SELECT * FROM differences('few', 'few > 3');

-- A small index beside btree's
CREATE TABLE s (k int8, few int4);
INSERT INTO s SELECT i, i % 300 FROM generate_series(1, 100000) i;
CREATE INDEX s_bk ON s USING btree (k);
CREATE INDEX s_k ON s USING steady (k);
CREATE INDEX s_bf ON s USING btree (few);
CREATE INDEX s_f ON s USING steady (few);
SELECT pg_relation_size('s_k') < 0.4 * pg_relation_size('s_bk') AS unique_keys, pg_relation_size('s_f') < pg_relation_size('s_bf') AS few_keys;

-- What a page shows
CREATE TABLE p (k int8, t timestamptz);
CREATE INDEX p_k ON p USING steady (k DESC, t);
INSERT INTO p VALUES (5, '2024-01-01 UTC'), (NULL, NULL), (-9223372036854775808, 'infinity'), (5, NULL);
SELECT slot, kind, columns, key, tid FROM steady_page_items('p_k', 1);
SELECT codec, levels, entries, posting_lists FROM steady_stats('p_k');

-- A build chooses the codec: as suits the keys, or as it is asked to
CREATE TABLE c (k int, v text);
INSERT INTO c SELECT i, 'v' || i % 5 FROM generate_series(1, 20000) i;
CREATE FUNCTION codec(name text) RETURNS text LANGUAGE sql AS 'SELECT codec FROM steady_stats(name::regclass)';
CREATE INDEX c_word ON c USING steady (k DESC NULLS LAST, k);
CREATE INDEX c_text ON c USING steady (k, v);
CREATE INDEX c_with ON c USING steady (k) INCLUDE (v);
CREATE INDEX c_tuple ON c USING steady (k) WITH (codec = tuple);
CREATE INDEX bad ON c USING steady (k) WITH (codec = word);
SELECT codec('c_word'), codec('c_text') AS text, codec('c_with') AS include, codec('c_tuple') AS asked;
ALTER INDEX c_word SET (codec = tuple);
INSERT INTO c SELECT i FROM generate_series(20001, 21000) i;
SELECT codec('c_word') AS as_before;
REINDEX INDEX c_word;
SELECT codec('c_word') AS as_asked;
ALTER INDEX c_word RESET (codec);
REINDEX INDEX c_word;
SELECT codec('c_word') AS again, steady_verify('c_word', true);
DROP SCHEMA wd CASCADE;

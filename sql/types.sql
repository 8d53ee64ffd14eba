-- Every type that btree orders, steady orders the same: by sorting, by a walk along the index in both directions, by
-- ranges and equality, in an index that was built and in one that was filled row by row.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA types;
SET search_path = types, public;
SET timezone = 'UTC';
SET jit = off;	-- which the costs of plans without sequential scan would start

CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad');
ALTER TYPE mood ADD VALUE 'so-so' BEFORE 'ok';
ALTER TYPE mood ADD VALUE 'good' AFTER 'ok';
CREATE TYPE pair AS (n numeric, t text COLLATE "C");
CREATE DOMAIN small AS int CHECK (VALUE < 100000);
CREATE COLLATION ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION numbers (provider = icu, locale = 'en-u-kn-true');

-- Values of each type, made from a number; many of them several times. (An operator class or a collation may follow.)
CREATE TABLE spec (no int GENERATED ALWAYS AS IDENTITY, type text, value text, class text DEFAULT '', coll text DEFAULT '');
INSERT INTO spec (type, value) VALUES
	('bool', 'i % 2 = 0'),
	('"char"', '(i % 256 - 128)::int::"char"'),
	('int2', 'i % 700 - 350'),
	('int4', 'i * 7919 % 1000 - 500'),
	('int8', '(i % 600)::int8 * 1000000007 * (-1) ^ (i % 2)'),
	('small', 'i % 300'),
	('oid', 'i::int8 * 2147483 % 4294967296'),
	('float4', 'CASE i % 50 WHEN 1 THEN ''NaN'' WHEN 2 THEN ''-0'' WHEN 3 THEN 0 WHEN 4 THEN ''-infinity'' WHEN 5 THEN ''infinity'' ELSE (i % 300 - 150) / 7.0 END'),
	('float8', 'CASE i % 50 WHEN 1 THEN ''NaN'' WHEN 2 THEN ''-0'' WHEN 3 THEN 0 WHEN 4 THEN ''-infinity'' WHEN 5 THEN ''infinity'' ELSE sin(i % 300) * 10 ^ (i % 30) END'),
	('numeric', 'CASE i % 50 WHEN 1 THEN ''NaN'' WHEN 2 THEN ''-Infinity'' WHEN 3 THEN ''Infinity'' WHEN 4 THEN round((i % 3)::numeric, i % 9) ELSE (i % 300 - 150) * 1.1 ^ (i % 70) END'),
	('money', '(i % 300 - 150)::money'),
	('date', 'CASE i % 90 WHEN 1 THEN ''infinity'' WHEN 2 THEN ''-infinity'' ELSE date ''2000-01-01'' + (i % 500 - 250) END'),
	('time', 'time ''00:00'' + i % 1000 * interval ''91.5 s'''),
	('timetz', '(time ''00:00'' + i % 50 * interval ''15 min'' + (i % 7 - 3) * interval ''1 h'') AT TIME ZONE make_interval(hours => i % 7)'),
	('timestamp', 'CASE i % 90 WHEN 1 THEN ''infinity'' WHEN 2 THEN ''-infinity'' ELSE timestamp ''2000-01-01'' + (i % 500 - 250) * interval ''1000.1 s'' END'),
	('timestamptz', 'timestamptz ''2000-01-01'' + (i % 500 - 250) * interval ''1 day 1 us'''),
	('interval', 'CASE i % 3 WHEN 0 THEN make_interval(days => i % 60) WHEN 1 THEN make_interval(hours => 24 * (i % 60)) ELSE make_interval(months => i % 5 - 2, hours => i % 9) END'),
	('text', 'repeat(md5((i % 500)::text), 1 + i % 3)'),
	('varchar(20)', 'left(md5((i % 500)::text), i % 20)'),
	('char(9)', 'left(md5((i % 500)::text), i % 9) || repeat('' '', i % 3)'),
	('name', 'left(md5((i % 300)::text), i % 33)::name'),
	('bytea', 'decode(substr(md5((i % 500)::text), 1, 2 * (i % 9)), ''hex'')'),
	('uuid', 'md5((i % 500)::text)::uuid'),
	('inet', 'CASE i % 5 WHEN 0 THEN (''2001:db8::'' || to_hex(i % 300))::inet ELSE set_masklen(inet ''10.0.0.0'' + i * 997 % 100000, 8 + i % 25) END'),
	('cidr', 'network(set_masklen(inet ''10.0.0.0'' + i * 997 % 100000, 8 + i % 25))::cidr'),
	('macaddr', '(''08:00:2b:'' || to_char(i % 90, ''FM00'') || '':'' || to_char(i % 7, ''FM00'') || '':'' || to_char(i % 70, ''FM00''))::macaddr'),
	('macaddr8', '(''08:00:2b:01:'' || to_char(i % 90, ''FM00'') || '':'' || to_char(i % 7, ''FM00'') || '':'' || to_char(i % 70, ''FM00'') || '':ff'')::macaddr8'),
	('bit(9)', '(i % 512)::bit(9)'),
	('bit varying', 'left((i % 512)::bit(9)::text, i % 10)::bit varying'),
	('pg_lsn', '''0/0''::pg_lsn + (i % 500)::numeric * 10000000019'),
	('xid8', '((i % 500)::int8 * 40000000003)::text::xid8'),
	('tid', 'format(''(%s,%s)'', i % 20, i % 30)::tid'),
	('oidvector', 'array_to_string(ARRAY[i % 9, i % 5, i % 3], '' '')::oidvector'),
	('int4[]', 'CASE i % 40 WHEN 1 THEN ''{}'' WHEN 2 THEN ''{{1,2},{3,4}}'' WHEN 3 THEN ''[2:3]={1,2}'' ELSE ARRAY[i % 5, nullif(i % 7, 3), i % 3] END'),
	('text[]', 'ARRAY[md5((i % 50)::text), nullif((i % 3)::text, ''1'')]'),
	('numeric[]', 'ARRAY[round((i % 4)::numeric, i % 5), i % 7]'),
	('mood', '(enum_range(NULL::mood))[1 + i % 5]'),
	('mood[]', 'ARRAY[(enum_range(NULL::mood))[1 + i % 5], (enum_range(NULL::mood))[1 + i % 4]]'),
	('int4range', 'CASE i % 60 WHEN 1 THEN ''empty'' WHEN 2 THEN ''(,)'' WHEN 3 THEN int4range(NULL, i % 9) WHEN 4 THEN int4range(i % 9, NULL) ELSE int4range(i % 50, i % 50 + i % 7) END'),
	('numrange', 'numrange(i % 50, i % 50 + round((i % 7)::numeric, i % 3), (ARRAY[''[]'', ''[)'', ''(]'', ''()''])[1 + i % 4])'),
	('tstzrange', 'tstzrange(timestamptz ''2000-01-01'' + i % 50 * interval ''1 h'', NULL)'),
	('int4multirange', 'int4multirange(int4range(i % 20, i % 20 + 3), int4range(i % 31, i % 31 + i % 7))'),
	('pair', 'ROW(CASE WHEN i % 9 > 0 THEN round((i % 30)::numeric, i % 4) END, nullif(md5((i % 5)::text), md5(''2'')))::pair'),
	('pair[]', 'ARRAY[ROW(i % 30, ''x'')::pair, NULL]'),
	('jsonb', 'CASE i % 6 WHEN 0 THEN to_jsonb(round((i % 30)::numeric, i % 3)) WHEN 1 THEN to_jsonb(md5((i % 30)::text)) WHEN 2 THEN jsonb_build_array(i % 9, NULL) WHEN 3 THEN jsonb_build_object(''a'', i % 9, ''b'', i % 2 = 0) WHEN 4 THEN ''null'' ELSE ''{"a": {"b": []}}'' END'),
	('tsvector', 'to_tsvector(''simple'', concat_ws('' '', ''w'' || i % 9, ''w'' || i % 7, ''x''))'),
	('tsquery', 'to_tsquery(''simple'', concat_ws('' & '', ''w'' || i % 9, ''!w'' || i % 7))');
INSERT INTO spec (type, value, class, coll) VALUES
	('text', 'left(md5((i % 500)::text), 9)', 'text_pattern_ops', ''),
	('varchar', 'left(md5((i % 500)::text), 9)', 'varchar_pattern_ops', ''),
	('char(12)', 'left(md5((i % 500)::text), 9)', 'bpchar_pattern_ops', ''),
	('text', 'CASE i % 2 WHEN 0 THEN upper(md5((i % 300)::text)) ELSE md5((i % 300)::text) END', '', 'ignore_case'),
	('text', '''v'' || i % 300', '', 'numbers'),
	('text', 'chr(192 + i % 300) || md5((i % 9)::text)', '', 'numbers'),
	('text', 'chr(192 + i % 300) || md5((i % 9)::text)', '', '"C"'),
	('varchar', 'CASE i % 2 WHEN 0 THEN ''É'' ELSE ''e'' END || i % 200', '', 'ignore_case'),
	('name', 'left(md5((i % 300)::text), i % 33)::name', '', 'ignore_case'),
	-- compared as bytes: heads that are equal, or a whole value; long ones, and long ones compressed; zeroes
	('text', 'repeat(chr(97 + i % 2), i % 40) || nullif(i % 3, 0)', '', '"C"'),
	('text', 'chr(60 + i % 300) || repeat(''x'', i % 7 * 60) || i % 9', '', '"C"'),
	('text', 'repeat(''x'', i % 4 * 900) || i % 40', '', '"C"'),
	('text', 'chr(60 + i % 300) || repeat(''x'', i % 7 * 60) || i % 9', '', ''),
	('text', 'repeat(chr(97 + i % 2), i % 40) || i % 3', 'text_pattern_ops', ''),
	('bytea', 'set_byte(repeat(E''\\000'', 1 + i % 20)::bytea, i % 5 % (1 + i % 20), i * 7 % 256)', '', ''),
	('jsonb', 'to_jsonb(i % 300)', 'jsonb_ops', ''),
	('pair', 'ROW(i % 30, md5((i % 5)::text))::pair', 'record_image_ops', ''),
	('int4[]', 'ARRAY[i % 5, i % 7]', 'array_ops', '');

-- What of btree's default operator classes is not in the list?
SELECT o.opcintype::regtype FROM pg_opclass o JOIN pg_am a ON a.oid = o.opcmethod
WHERE a.amname = 'btree' AND o.opcdefault AND o.oid < 16384
EXCEPT
SELECT CASE WHEN t.typtype = 'e' THEN 'anyenum' WHEN t.typtype = 'r' THEN 'anyrange' WHEN t.typtype = 'm' THEN 'anymultirange'
	WHEN t.typtype = 'c' THEN 'record' WHEN s.type = 'oidvector' THEN s.type WHEN t.typelem <> 0 AND t.typsubscript = 'array_subscript_handler'::regproc THEN 'anyarray'
	WHEN s.type LIKE 'varchar%' THEN 'text' WHEN s.type = 'cidr' THEN 'inet' ELSE format_type(t.oid, NULL) END::regtype
FROM spec s JOIN pg_type t ON t.oid = to_regtype(s.type);

CREATE FUNCTION plan(sort bool, plain bool, index_only bool) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', sort::text, true), set_config('enable_sort', sort::text, true),
		set_config('enable_indexscan', plain::text, true), set_config('enable_indexonlyscan', index_only::text, true),
		set_config('enable_bitmapscan', 'off', true), set_config('enable_incremental_sort', 'off', true)
$$;

-- The query's result; an index scan must use an index of the access method.
CREATE FUNCTION result(query text, index text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found bool := index = '';
	result text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		found := found OR line ~ ('Scan .*using ' || index);
	END LOOP;
	EXECUTE format('SELECT md5(array_agg(s)::text) FROM (%s) s', query) INTO result;
	RETURN CASE WHEN found THEN result ELSE 'no index scan' END;
END $$;

-- All that differs for one type
CREATE FUNCTION check_type(s spec) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	key text := format('k %s %s', 'COLLATE ' || nullif(s.coll, ''), s.class);
	operators text[];
	query text;
	expected text;
	got text;
	method text;
	kind int;
	built bool;
	samples text[];
	sample text;
BEGIN
	EXECUTE format('CREATE TABLE d (k %s %s, id int)', s.type, 'COLLATE ' || nullif(s.coll, ''));
	EXECUTE format('CREATE TABLE f (LIKE d); INSERT INTO f SELECT CASE WHEN i %% 23 > 0 THEN %s END, i FROM generate_series(1, 800) i ORDER BY i * 7 %% 801',
		s.value);
	EXECUTE 'SELECT array_agg(DISTINCT k::text) FROM (SELECT k FROM f WHERE id % 160 = 4 AND k IS NOT NULL) x' INTO samples;
	-- the class's own operators by strategy, the default class's are the usual ones
	operators := CASE WHEN s.class LIKE '%pattern%' THEN '{~<~,~<=~,=,~>=~,~>~}'
		WHEN s.class = 'record_image_ops' THEN '{*<,*<=,*=,*>=,*>}' ELSE '{<,<=,=,>=,>}' END;
	FOREACH built IN ARRAY ARRAY[false, true] LOOP
		TRUNCATE d;
		IF built THEN
			INSERT INTO d SELECT * FROM f;
		END IF;
		EXECUTE format('CREATE INDEX d_steady ON d USING steady (%s) INCLUDE (id)', key);
		EXECUTE format('CREATE INDEX d_steady_desc ON d USING steady (%s DESC NULLS LAST, id)', key);
		IF NOT built THEN
			INSERT INTO d SELECT * FROM f;
		END IF;
		PERFORM steady_verify('d_steady', true), steady_verify('d_steady_desc', true);

		-- ordered: equal keys in an order of their own, so id is in the key
		FOREACH query IN ARRAY ARRAY[
			format('SELECT k, id FROM d ORDER BY k USING %s NULLS LAST, id', operators[5]),
			format('SELECT k, id FROM d ORDER BY k USING %s NULLS FIRST, id DESC', operators[1])]
		LOOP
			PERFORM plan(true, false, false);
			expected := result(query, '');
			FOR kind IN 1 .. 2 LOOP
				PERFORM plan(false, kind = 1, kind = 2);
				got := result(query, 'd_steady_desc');
				IF got <> expected THEN
					RETURN NEXT format('%s: %s %s (built: %s)', s.type, query, got, built);
				END IF;
			END LOOP;
		END LOOP;

		-- ranges, and all at once by a list
		FOR strategy IN 1 .. CASE WHEN s.type LIKE '%[]' THEN 5 ELSE 6 END LOOP
			-- (15 takes "k = true" for "k", which it looks up in its own operator families: see server_limits)
			CONTINUE WHEN s.type = 'bool' AND strategy = 3;
			FOREACH sample IN ARRAY samples LOOP
				query := format('SELECT id FROM d WHERE k %s ORDER BY id', CASE
					WHEN strategy < 6 THEN format('%s %L::%s %s', operators[strategy], sample, s.type, 'COLLATE ' || nullif(s.coll, ''))
					ELSE format('%s ANY (ARRAY[%L, %L, %L]::%s[] %s)', operators[3], sample, samples[1], samples[2], s.type,
						'COLLATE ' || nullif(s.coll, '')) END);
				PERFORM plan(true, false, false);
				expected := result(query, '');
				PERFORM plan(false, true, strategy % 2 = 0), set_config('enable_sort', 'on', true);
				got := result(query, 'd_steady');
				IF got IS DISTINCT FROM expected THEN
					RETURN NEXT format('%s: %s %s (built: %s)', s.type, query, got, built);
				END IF;
			END LOOP;
		END LOOP;

		-- a look-up of each key finds its rows
		PERFORM plan(true, false, false);
		EXECUTE format('SELECT array_agg(x)::text FROM (SELECT a.id AS a, b.id AS b FROM d a JOIN d b ON a.k %s b.k WHERE a.id %% 9 = 1 ORDER BY a, b) x', operators[3]) INTO expected;
		PERFORM plan(false, true, false), set_config('enable_sort', 'on', true), set_config('enable_mergejoin', 'off', true), set_config('enable_hashjoin', 'off', true);
		EXECUTE format('SELECT array_agg(x)::text FROM (SELECT a.id AS a, b.id AS b FROM d a JOIN d b ON a.k %s b.k WHERE a.id %% 9 = 1 ORDER BY a, b) x', operators[3]) INTO got;
		PERFORM set_config('enable_mergejoin', 'on', true), set_config('enable_hashjoin', 'on', true);
		IF got <> expected THEN
			RETURN NEXT format('%s: look-ups (built: %s)', s.type, built);
		END IF;
		DROP INDEX d_steady, d_steady_desc;
	END LOOP;
	DROP TABLE d, f;
END $$;

SELECT count(DISTINCT no) AS types, count(difference) AS differences, min(difference) AS one
FROM spec s LEFT JOIN LATERAL check_type(s) difference ON true;

DROP SCHEMA types CASCADE;

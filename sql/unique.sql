-- Unique indexes refuse what btree's refuse, with the same words. Each statement is run on two tables that differ in the
-- index's access method only; what is printed is the outcome on both, or DIFFERENT.
SET client_min_messages = error;	-- servers before 18: a WARNING about ON CONFLICT, see server_limits
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA uniq;
SET search_path = uniq, public;
SET timezone = 'UTC';

-- Tables t_steady and t_btree; %s stands for the access method's name.
CREATE FUNCTION twins(columns text, VARIADIC indexes text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	method text;
	index text;
BEGIN
	FOREACH method IN ARRAY ARRAY['steady', 'btree'] LOOP
		EXECUTE format('DROP TABLE IF EXISTS t_%s; CREATE TABLE t_%1$s (%s)', method, columns);
		FOREACH index IN ARRAY indexes LOOP
			EXECUTE replace(replace(index, ' ON ', format(' ON t_%s USING %1$s ', method)), 'u_', 'u_' || method || '_');
		END LOOP;
	END LOOP;
END $$;

CREATE FUNCTION attempt(statement text, method text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	state text;
	on_table text;
	on_constraint text;
BEGIN
	EXECUTE format(statement, 't_' || method, method);
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, state = RETURNED_SQLSTATE,
		on_table = TABLE_NAME, on_constraint = CONSTRAINT_NAME;
	RETURN replace(concat_ws('|', state, message, nullif(detail, ''), nullif(on_table, ''), nullif(on_constraint, '')),
		'_' || method, '');
END $$;

-- One line a statement
CREATE FUNCTION try(VARIADIC statements text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	one text;
	other text;
BEGIN
	FOREACH statement IN ARRAY statements LOOP
		one := attempt(statement, 'steady');
		other := attempt(statement, 'btree');
		RETURN NEXT format('%s: %s', statement, CASE WHEN one = other THEN one ELSE concat('DIFFERENT ', one, ' ', other) END);
	END LOOP;
	-- whatever was refused or not: the same rows, and an index that agrees with its table
	WITH one AS (SELECT t::text FROM t_steady t), other AS (SELECT t::text FROM t_btree t)
	SELECT count(*) INTO one FROM ((TABLE one EXCEPT ALL TABLE other) UNION ALL (TABLE other EXCEPT ALL TABLE one)) d;
	IF one <> '0' THEN
		RETURN NEXT 'DIFFERENT rows: ' || one;
	END IF;
	PERFORM steady_verify(indexrelid, true) FROM pg_index
	WHERE indrelid = 't_steady'::regclass AND indisvalid;
END $$;

\pset format unaligned
\pset tuples_only on

-- One column
SELECT twins('k int, v int', 'CREATE UNIQUE INDEX u_k ON (k)');
SELECT try('INSERT INTO %s VALUES (1, 1), (2, 2)',
	'INSERT INTO %s VALUES (1, 3)',
	'INSERT INTO %s VALUES (3, 3), (4, 4), (3, 5)',	-- twice in one statement
	'INSERT INTO %s VALUES (NULL, 1), (NULL, 2), (NULL, 2)',
	'UPDATE %s SET k = 2 WHERE k = 1',
	'UPDATE %s SET k = 1 WHERE k = 1',
	'UPDATE %s SET v = v + 1',
	'UPDATE %s SET k = k + 1 WHERE k IS NOT NULL',	-- succeeds or fails by the order of rows in the table
	'UPDATE %s SET k = k - 1 WHERE k IS NOT NULL',
	'DELETE FROM %s WHERE k = 1',
	'INSERT INTO %s VALUES (1, 9)',
	'WITH d AS (DELETE FROM %s WHERE k = 2 RETURNING *) SELECT count(*) FROM d',
	'INSERT INTO %s VALUES (2, 9)',
	'INSERT INTO %s VALUES (2, 9)',
	'UPDATE %s SET k = NULL',
	'INSERT INTO %s VALUES (2, 9), (0, 9)');

-- A key that comes and goes in one transaction
BEGIN;
SELECT try('INSERT INTO %s VALUES (10, 1)', 'DELETE FROM %s WHERE k = 10', 'INSERT INTO %s VALUES (10, 2)',
	'INSERT INTO %s VALUES (10, 3)');
SAVEPOINT s;
SELECT try('DELETE FROM %s WHERE k = 10', 'INSERT INTO %s VALUES (10, 4)', 'INSERT INTO %s VALUES (11, 4)');
ROLLBACK TO s;
SELECT try('INSERT INTO %s VALUES (10, 5)', 'INSERT INTO %s VALUES (11, 5)');
COMMIT;
BEGIN;
SELECT try('DELETE FROM %s WHERE k = 11');
ROLLBACK;
SELECT try('INSERT INTO %s VALUES (11, 6)', 'INSERT INTO %s VALUES (10, 6)');

-- Many dead versions of one key, of committed and aborted transactions, over several pages: the live one is found
SELECT twins('k int, v int', 'CREATE UNIQUE INDEX u_k ON (k)', 'CREATE INDEX u_v ON (v)');	-- u_v: no HOT updates
ALTER TABLE t_steady SET (autovacuum_enabled = off);
ALTER TABLE t_btree SET (autovacuum_enabled = off);
SELECT try('INSERT INTO %s SELECT i, i FROM generate_series(1, 10) i');
DO $$
BEGIN
	FOR i IN 1 .. 1500 LOOP
		UPDATE t_steady SET v = v + 10 WHERE k = 5;
		UPDATE t_btree SET v = v + 10 WHERE k = 5;
		IF i % 100 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END $$;
SELECT try('INSERT INTO %s VALUES (5, 0)');
BEGIN;
SELECT try('DELETE FROM %s WHERE k = 5', 'INSERT INTO %s VALUES (5, 1)', 'INSERT INTO %s VALUES (5, 2)');
ROLLBACK;
SELECT try('INSERT INTO %s VALUES (5, 0)', 'DELETE FROM %s WHERE k = 5', 'INSERT INTO %s VALUES (5, 3)', 'INSERT INTO %s VALUES (5, 0)');
VACUUM t_steady, t_btree;
SELECT try('INSERT INTO %s VALUES (5, 0)', 'INSERT INTO %s VALUES (11, 0)');

-- Within one transaction nothing of it is dead to all: the versions fill pages
BEGIN;
DO $$
BEGIN
	FOR i IN 1 .. 4000 LOOP
		UPDATE t_steady SET v = v + 10 WHERE k = 7;
		UPDATE t_btree SET v = v + 10 WHERE k = 7;
	END LOOP;
END $$;
SELECT leaf_pages > 2 FROM steady_stats('u_steady_k');
SELECT try('INSERT INTO %s VALUES (7, 0)', 'DELETE FROM %s WHERE k = 7', 'INSERT INTO %s VALUES (7, 1)', 'INSERT INTO %s VALUES (7, 1)');
COMMIT;
SELECT try('INSERT INTO %s VALUES (7, 0)', 'INSERT INTO %s VALUES (6, 0)', 'INSERT INTO %s VALUES (8, 0)');

-- Random keys against a table of many pages
SELECT twins('k int, v int', 'CREATE UNIQUE INDEX u_k ON (k)');
SELECT try('INSERT INTO %s SELECT i * 2, i FROM generate_series(1, 20000) i ORDER BY i * 7919 %% 20011');
DO $$
DECLARE
	message text;
	refused int := 0;
BEGIN
	FOR i IN 1 .. 590 LOOP
		BEGIN
			INSERT INTO t_steady VALUES (i * 67, -i);
			IF i % 2 = 0 THEN
				RAISE EXCEPTION 'no fault with %', i * 67;
			END IF;
		EXCEPTION WHEN unique_violation THEN
			GET STACKED DIAGNOSTICS message = PG_EXCEPTION_DETAIL;
			IF i % 2 = 1 OR message <> format('Key (k)=(%s) already exists.', i * 67) THEN
				RAISE EXCEPTION '% with %', message, i * 67;
			END IF;
			refused := refused + 1;
		END;
	END LOOP;
	RAISE INFO '% refused', refused;
END $$;
SELECT steady_verify('u_steady_k', true);

-- Several columns; INCLUDE columns say nothing about uniqueness, nor does their type need an operator class
SELECT twins('a int, b text, c point', 'CREATE UNIQUE INDEX u_ab ON (a, b DESC) INCLUDE (c)');
SELECT try('INSERT INTO %s VALUES (1, ''x'', ''1,1''), (1, ''y'', ''1,1''), (2, ''x'', NULL)',
	'INSERT INTO %s VALUES (1, ''x'', ''2,2'')',
	'INSERT INTO %s VALUES (1, NULL, ''1,1''), (1, NULL, ''1,1''), (NULL, ''x'', NULL), (NULL, ''x'', NULL), (NULL, NULL, NULL)',
	'UPDATE %s SET b = ''x'' WHERE a = 1 AND b = ''y''',
	'UPDATE %s SET c = ''3,3''');

-- NULLs that are not distinct
SELECT twins('a int, b int', 'CREATE UNIQUE INDEX u_ab ON (a, b NULLS FIRST) NULLS NOT DISTINCT');
SELECT try('INSERT INTO %s VALUES (1, 1), (1, NULL), (NULL, 1), (NULL, NULL)',
	'INSERT INTO %s VALUES (1, NULL)', 'INSERT INTO %s VALUES (NULL, 1)', 'INSERT INTO %s VALUES (NULL, NULL)',
	'UPDATE %s SET a = NULL WHERE a = 1 AND b = 1',
	'DELETE FROM %s WHERE a IS NULL', 'INSERT INTO %s VALUES (NULL, 1)', 'INSERT INTO %s VALUES (NULL, 1)');
SELECT twins('a int', 'CREATE UNIQUE INDEX u_a ON (a DESC) NULLS NOT DISTINCT');
SELECT try('INSERT INTO %s VALUES (NULL)', 'INSERT INTO %s VALUES (NULL)', 'INSERT INTO %s VALUES (1), (NULL)');

-- Partial and of expressions
SELECT twins('k int, state text', 'CREATE UNIQUE INDEX u_k ON (k) WHERE state = ''open''', 'CREATE UNIQUE INDEX u_upper ON (upper(state), (k % 10))');
SELECT try('INSERT INTO %s VALUES (1, ''open''), (1, ''done''), (2, ''open'')',
	'INSERT INTO %s VALUES (2, ''open'')', 'INSERT INTO %s VALUES (11, ''Open'')', 'INSERT INTO %s VALUES (11, ''closed'')',
	'UPDATE %s SET state = ''open'' WHERE state = ''done''', 'UPDATE %s SET k = k + 10',
	'INSERT INTO %s VALUES (1, ''OPEN'')', 'INSERT INTO %s VALUES (-3, ''open'')');

-- Equal is not identical
SELECT twins('k interval', 'CREATE UNIQUE INDEX u_k ON (k)');
SELECT try('INSERT INTO %s VALUES (''1 day'')', 'INSERT INTO %s VALUES (''24:00:00'')', 'INSERT INTO %s VALUES (''1 month'')',
	'INSERT INTO %s VALUES (''30 days'')', 'INSERT INTO %s VALUES (''29 days 24:00:01'')');
SELECT twins('k numeric', 'CREATE UNIQUE INDEX u_k ON (k DESC)');
SELECT try('INSERT INTO %s VALUES (1.0), (1.01), (''NaN''), (''Infinity''), (0)', 'INSERT INTO %s VALUES (1.00)', 'INSERT INTO %s VALUES (1)',
	'INSERT INTO %s VALUES (1.010000000)', 'INSERT INTO %s VALUES (''NaN'')', 'INSERT INTO %s VALUES (0.000)', 'INSERT INTO %s VALUES (''-Infinity'')');
SELECT twins('a float8, b float4', 'CREATE UNIQUE INDEX u_ab ON (a, b)');
SELECT try('INSERT INTO %s VALUES (0, 1), (1, 0), (''NaN'', ''NaN'')', 'INSERT INTO %s VALUES (''-0'', 1)', 'INSERT INTO %s VALUES (1, ''-0'')',
	'INSERT INTO %s VALUES (''NaN'', ''NaN'')', 'INSERT INTO %s VALUES (''-0'', ''-0'')', 'INSERT INTO %s VALUES (0, 0)');
SELECT twins('k char(5), v varchar', 'CREATE UNIQUE INDEX u_k ON (k)', 'CREATE UNIQUE INDEX u_v ON (v)');
SELECT try('INSERT INTO %s VALUES (''a'', ''a'')', 'INSERT INTO %s VALUES (''a   '', ''b'')', 'INSERT INTO %s VALUES (''b'', ''a '')',
	'INSERT INTO %s VALUES (''c'', ''a'')');
CREATE TYPE uniq.pair AS (a numeric, b text);
SELECT twins('k uniq.pair, arr numeric[]', 'CREATE UNIQUE INDEX u_k ON (k, arr)');
SELECT try('INSERT INTO %s VALUES ((1, ''x''), ''{1,2}''), ((1, NULL), ''{}'')', 'INSERT INTO %s VALUES ((1.00, ''x''), ''{1.0,2.000}'')',
	'INSERT INTO %s VALUES ((1.0, NULL), ''{}'')', 'INSERT INTO %s VALUES ((1, ''x''), ''{2,1}'')', 'INSERT INTO %s VALUES (NULL, ''{2,1}''), (NULL, ''{2,1}'')');
SELECT twins('k name, r int4range', 'CREATE UNIQUE INDEX u_k ON (k)', 'CREATE UNIQUE INDEX u_r ON (r)');
SELECT try('INSERT INTO %s VALUES (''a'', ''[1,3)''), (''b'', ''empty'')', 'INSERT INTO %s VALUES (''a'', ''[0,3)'')', 'INSERT INTO %s VALUES (''c'', ''[1,2]'')',
	'INSERT INTO %s VALUES (''c'', ''[5,5)'')');

-- A long key
SELECT twins('k text', 'CREATE UNIQUE INDEX u_k ON (k)');
SELECT try('INSERT INTO %s VALUES (repeat(''ab'', 40))', 'INSERT INTO %s VALUES (repeat(''ab'', 40))', 'INSERT INTO %s VALUES (repeat(''ab'', 39))');

-- Rows that are already there
SELECT twins('k int, v int');
SELECT try('INSERT INTO %s VALUES (1, 1), (2, 1), (1, 2), (NULL, 3), (NULL, 3)',
	'CREATE UNIQUE INDEX u_%2$s_k ON %1$s USING %2$s (k)',
	'CREATE UNIQUE INDEX u_%2$s_v ON %1$s USING %2$s (v) WHERE k IS NOT NULL',
	'CREATE UNIQUE INDEX u_%2$s_vk ON %1$s USING %2$s (v, k)',
	'CREATE UNIQUE INDEX u_%2$s_nd ON %1$s USING %2$s (v, k) NULLS NOT DISTINCT',
	'DELETE FROM %s WHERE k = 1 AND v = 2',
	'CREATE UNIQUE INDEX u_%2$s_k ON %1$s USING %2$s (k)',	-- the dead row is in the index, and no fault
	'UPDATE %s SET k = 3 WHERE k = 1',
	'CREATE UNIQUE INDEX u_%2$s_k2 ON %1$s USING %2$s (k)',
	'REINDEX INDEX u_%2$s_k',
	'INSERT INTO %s VALUES (1, 1)', 'INSERT INTO %s VALUES (3, 4)',
	'ALTER TABLE %s ALTER k TYPE bigint USING k / 2',
	'ALTER TABLE %s ALTER k TYPE text USING k + 1',
	'INSERT INTO %s VALUES (''2'', 5)');

-- Case-insensitive and accent-insensitive text
CREATE COLLATION uniq.ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION uniq.ignore_accents (provider = icu, locale = 'und-u-ks-level1-kc-true', deterministic = false);
SELECT twins('a text COLLATE ignore_case, b text COLLATE ignore_accents',
	'CREATE UNIQUE INDEX u_a ON (a)', 'CREATE UNIQUE INDEX u_b ON (b, a)', 'CREATE UNIQUE INDEX u_c ON (a COLLATE "C")');
SELECT try('INSERT INTO %s VALUES (''Word'', ''Resume''), (''other'', NULL)', 'INSERT INTO %s VALUES (''wORD'', NULL)',
	'INSERT INTO %s VALUES (''words'', ''résumé'')',
	'INSERT INTO %s VALUES (''wörd'', ''resume'')', 'DROP INDEX u_%2$s_a', 'INSERT INTO %s VALUES (''WORD'', ''Résumé'')',
	'INSERT INTO %s VALUES (''WORD'', ''resume'')', 'INSERT INTO %s VALUES (''Word'', ''x'')', 'INSERT INTO %s VALUES (''wörd'', ''x'')');

-- Triggers that write the same key, and a COPY
SELECT twins('k int, v int', 'CREATE UNIQUE INDEX u_k ON (k)');
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.v > 0 THEN
		EXECUTE format('INSERT INTO %I VALUES ($1, $2 - 1)', TG_TABLE_NAME) USING NEW.k, NEW.v;
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER again BEFORE INSERT ON t_steady FOR EACH ROW EXECUTE FUNCTION again();
CREATE TRIGGER again BEFORE INSERT ON t_btree FOR EACH ROW EXECUTE FUNCTION again();
SELECT try('INSERT INTO %s VALUES (1, 0)', 'INSERT INTO %s VALUES (2, 1)');
COPY t_steady FROM stdin;
5	0
6	0
5	0
\.
SELECT count(*) FROM t_steady;

DROP SCHEMA uniq CASCADE;

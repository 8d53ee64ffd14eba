-- The planner takes the same plans at about the same cost as with btree.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA cost;
SET search_path = cost, public;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

-- So few rows that ANALYZE looks at all of them: both tables get the same statistics.
CREATE TABLE btree_t (a int, b int, c int, d text, e int);
INSERT INTO btree_t SELECT i % 10, i % 700, i, md5(i::text), CASE WHEN i % 50 > 0 THEN i END
FROM generate_series(1, 30000) i;
CREATE TABLE steady_t (LIKE btree_t);
INSERT INTO steady_t TABLE btree_t;
DO $$
DECLARE
	am text;
	options text;
BEGIN
	FOREACH am IN ARRAY ARRAY['btree', 'steady'] LOOP
		-- Costs compare where sizes do.
		options := CASE am WHEN 'steady' THEN 'WITH (codec = tuple)' END;
		EXECUTE format('CREATE INDEX %1$s_abc ON %1$s_t USING %1$s (a, b, c) %2$s', am, options);
		EXECUTE format('CREATE INDEX %1$s_c ON %1$s_t USING %1$s (c) %2$s', am, options);
		EXECUTE format('CREATE INDEX %1$s_d ON %1$s_t USING %1$s (d COLLATE "C")', am);
		EXECUTE format('CREATE INDEX %1$s_e ON %1$s_t USING %1$s (e DESC) %2$s WHERE a < 5', am, options);
		EXECUTE format('CREATE INDEX %1$s_x ON %1$s_t USING %1$s ((b + 1)) INCLUDE (c)', am);
	END LOOP;
END $$;
VACUUM ANALYZE btree_t, steady_t;

CREATE FUNCTION explain(query text, am text, OUT nodes text, OUT cost float8, OUT startup float8) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || replace(query, 'TABLE', am || '_t') INTO plan;
	SELECT string_agg(n #>> '{}', ', ') INTO nodes
	FROM jsonb_path_query(plan, 'strict $.** ? (@.type() == "object").keyvalue() ? (@.key == "Node Type" || @.key == "Index Name" || @.key == "Index Cond").value') n;
	nodes := replace(nodes, am, 'AM');
	cost := plan #>> '{0,Plan,Total Cost}';
	startup := plan #>> '{0,Plan,Startup Cost}';
END $$;

-- What differs; 15 to 17 can't jump in a btree, so such queries come further down.
SELECT q, s.*, b.*
FROM unnest(ARRAY[
		'SELECT * FROM TABLE WHERE c = 5',
		'SELECT * FROM TABLE WHERE c BETWEEN 100 AND 300',
		'SELECT * FROM TABLE WHERE c > 100',
		'SELECT * FROM TABLE WHERE c < 50 ORDER BY c DESC',
		'SELECT c FROM TABLE WHERE c < 5000',
		'SELECT * FROM TABLE WHERE c = ANY (ARRAY[1, 20, 300, 4000])',
		'SELECT count(*) FROM TABLE WHERE a = 3 AND b = 33',
		'SELECT count(*) FROM TABLE WHERE a = 3 AND b > 33',
		'SELECT count(*) FROM TABLE WHERE a = 3 AND b = ANY (ARRAY[3, 13, 23]) AND c > 500',
		'SELECT a, b, c FROM TABLE ORDER BY a, b, c LIMIT 10',
		'SELECT a, b, c FROM TABLE ORDER BY a DESC, b DESC, c DESC LIMIT 10',
		'SELECT * FROM TABLE ORDER BY c',
		'SELECT max(c) FROM TABLE',
		'SELECT min(c) FROM TABLE WHERE a = 7',
		'SELECT * FROM TABLE WHERE d LIKE ''ab%''',
		'SELECT * FROM TABLE WHERE d = ''ab''',
		'SELECT * FROM TABLE WHERE a < 5 AND e = 77',
		'SELECT * FROM TABLE WHERE a < 5 AND e IS NULL',
		'SELECT e FROM TABLE WHERE a < 5 ORDER BY e DESC LIMIT 3',
		'SELECT c FROM TABLE WHERE b + 1 = 7',
		'SELECT * FROM TABLE x JOIN TABLE y ON x.c = y.c WHERE x.a = 1 AND x.b = 1',
		'SELECT count(*) FROM TABLE x JOIN TABLE y USING (c)']) q,
	explain(q, 'steady') s, explain(q, 'btree') b
WHERE s.nodes <> b.nodes OR s.cost NOT BETWEEN 0.85 * b.cost AND 1.15 * b.cost
	OR s.startup NOT BETWEEN 0.85 * b.startup AND 1.15 * b.startup;

-- A column without an equality is jumped over if it has few values.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT q, s.nodes, s.cost < 0.4 * whole.cost AS jumps
FROM unnest(ARRAY[
		'SELECT count(*) FROM TABLE WHERE b = 33',
		'SELECT count(*) FROM TABLE WHERE b = 33 AND c > 100',
		'SELECT count(*) FROM TABLE WHERE a > 2 AND b = 33']) q,
	explain(q, 'steady') s, explain('SELECT count(*) FROM TABLE WHERE b IS NOT NULL', 'steady') whole;

DROP SCHEMA cost CASCADE;

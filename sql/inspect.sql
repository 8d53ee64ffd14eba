-- What the functions that look into an index show, and to whom.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
RESET client_min_messages;

-- All entries of an index's leaves in the order of its links
CREATE FUNCTION leaf_items(index regclass)
RETURNS TABLE (place bigint, block bigint, slot int, kind text, key text, tid tid) LANGUAGE sql AS $$
	WITH RECURSIVE pages AS (
		SELECT b AS block, h.* FROM generate_series(1, (steady_stats(index)).blocks - 1) b, steady_page_header(index, b) h
	), leaves AS (
		SELECT 1 AS nth, block, right_block FROM pages WHERE pages.kind = 'leaf' AND left_block IS NULL
		UNION ALL
		SELECT nth + 1, p.block, p.right_block FROM leaves l JOIN pages p ON p.block = l.right_block
	)
	SELECT row_number() OVER (ORDER BY l.nth, i.slot, t.nth), l.block, i.slot, i.kind, i.key, t.tid
	FROM leaves l, steady_page_items(index, l.block) i, unnest(coalesce(i.tids, ARRAY[i.tid])) WITH ORDINALITY t (tid, nth)
	WHERE i.kind IN ('entry', 'posting')
$$;

-- An index that nothing was put into
CREATE TABLE ins (k int, t text, n int);
ALTER TABLE ins SET (autovacuum_enabled = off);
CREATE INDEX ins_k ON ins USING steady (k, t DESC) INCLUDE (n);
SELECT codec, levels, inner_pages, leaf_pages, deleted_pages, damaged_pages, entries, leaf_fill FROM steady_stats('ins_k');
SELECT kind, fault, level, flags, entries FROM steady_page_header('ins_k', 0);
SELECT * FROM steady_page_items('ins_k', 0);

-- One leaf
INSERT INTO ins VALUES (3, 'c', 30), (1, 'a', 10), (2, NULL, NULL), (2, 'b', 20), (NULL, 'x', 0);
SELECT levels, leaf_pages, entries, posting_lists, killed, leaf_fill > 0 AS filled, damaged_pages FROM steady_stats('ins_k');
SELECT kind, fault, level, left_block, right_block, flags, safe_xid, low, high, entries, lsn IS NOT NULL AS lsn, upper > lower AS hole
FROM steady_page_header('ins_k', 1);
SELECT kind, columns, key, tid, tids, child, killed FROM steady_page_items('ins_k', 1) ORDER BY slot;

-- Equal keys share a posting list where that is allowed
CREATE TABLE ins_few (k int, t text);
CREATE INDEX ins_few_k ON ins_few USING steady (k) WITH (codec = tuple);
CREATE INDEX ins_few_one ON ins_few USING steady (k) WITH (deduplicate_items = off);
INSERT INTO ins_few SELECT i % 3 FROM generate_series(1, 3000) i;
SELECT entries, posting_lists > 0 AS posting_lists FROM steady_stats('ins_few_k');
SELECT entries, posting_lists FROM steady_stats('ins_few_one');
SELECT bool_or('has_postings' = ANY (flags)) FROM generate_series(1, (SELECT blocks FROM steady_stats('ins_few_k')) - 1) b, steady_page_header('ins_few_k', b);
SELECT DISTINCT i.kind, cardinality(i.tids) > 1 AS several, i.tid = i.tids[1] AS first
FROM leaf_items('ins_few_k') l, steady_page_items('ins_few_k', l.block) i WHERE i.kind = 'posting';
-- the leaves say the same as the table, in the order of key and TID
SELECT count(*) FROM (SELECT key, tid FROM leaf_items('ins_few_k') EXCEPT ALL SELECT '(' || k || ')', ctid FROM ins_few) d;
SELECT count(*) FROM (SELECT '(' || k || ')', ctid FROM ins_few EXCEPT ALL SELECT key, tid FROM leaf_items('ins_few_k')) d;
SELECT count(*) FROM (SELECT (key, tid) < lag((key, tid)) OVER (ORDER BY place) AS wrong FROM leaf_items('ins_few_k')) o WHERE wrong;

-- Levels: links, fences and downlinks agree
INSERT INTO ins SELECT i, repeat('t', i % 600), i FROM generate_series(1, 2000) i;
SELECT levels, inner_pages + leaf_pages + deleted_pages + new_pages + 1 = blocks AS all_counted, entries FROM steady_stats('ins_k');
CREATE VIEW ins_pages AS
	SELECT b AS block, h.* FROM generate_series(1, (steady_stats('ins_k')).blocks - 1) b, steady_page_header('ins_k', b) h;
SELECT kind, level, count(*) > 1 AS several, count(*) FILTER (WHERE left_block IS NULL) AS leftmost,
	count(*) FILTER (WHERE right_block IS NULL) AS rightmost, count(*) FILTER (WHERE high IS NULL) AS no_high, count(fault) AS faults
FROM ins_pages GROUP BY kind, level ORDER BY level;
SELECT count(*) AS pairs_that_disagree FROM ins_pages l JOIN ins_pages r ON r.block = l.right_block
WHERE r.left_block <> l.block OR (r.low <> l.high AND NOT 'low_unknown' = ANY (r.flags));
SELECT count(*) - count(DISTINCT child) AS twice, bool_and(c.level = p.level - 1) AS one_level_down,
	count(*) = (SELECT count(*) - 1 FROM ins_pages) AS all_have_one
FROM ins_pages p, steady_page_items('ins_k', p.block) i JOIN ins_pages c ON c.block = i.child WHERE p.kind = 'inner';
SELECT count(*) FILTER (WHERE columns = 0) = count(DISTINCT p.block) AS first_is_minus_infinity, max(columns) <= 2 AS no_included_columns
FROM ins_pages p, steady_page_items('ins_k', p.block) i WHERE i.kind = 'downlink';
SELECT count(*) FROM (SELECT tid FROM leaf_items('ins_k') EXCEPT ALL SELECT ctid FROM ins) d;
SELECT count(*) FROM (SELECT ctid FROM ins EXCEPT ALL SELECT tid FROM leaf_items('ins_k')) d;

-- What VACUUM leaves
DELETE FROM ins WHERE k BETWEEN 100 AND 1900;
VACUUM ins;
SELECT deleted_pages > 0 AS deleted_pages, entries = (SELECT count(*) FROM ins) AS entries FROM steady_stats('ins_k');
SELECT kind, fault, level, right_block IS NOT NULL AS right_block, flags, safe_xid IS NOT NULL AS safe_xid, low, high, entries
FROM ins_pages WHERE kind = 'deleted' LIMIT 1;
SELECT count(*) FROM ins_pages p, steady_page_items('ins_k', p.block) WHERE p.kind = 'deleted';

-- Names and other types whose stored form is not the column's; text that has to be quoted nowhere
CREATE TABLE ins_types (n name, c char(5), a int[], d date, b bytea);
CREATE INDEX ins_types_i ON ins_types USING steady (n, c, a, d, b);
SET datestyle = 'ISO';
INSERT INTO ins_types VALUES ('a name', 'x', '{1,2}', '2020-02-29', '\x00ff'), (NULL, NULL, NULL, NULL, NULL);
SELECT key FROM steady_page_items('ins_types_i', 1);

-- Not everything, and not for everybody
CREATE INDEX ins_btree ON ins USING btree (k);
CREATE TABLE ins_parted (k int) PARTITION BY RANGE (k);
CREATE INDEX ins_parted_k ON ins_parted USING steady (k);
\set VERBOSITY default
SELECT * FROM steady_stats('ins_btree');
SELECT * FROM steady_stats('ins');
SELECT * FROM steady_page_header('ins_parted_k', 0);
SELECT * FROM steady_page_items(4294967295, 0);
SELECT * FROM steady_page_header('ins_types_i', -1);
SELECT * FROM steady_page_header('ins_types_i', 4294967295);
SELECT * FROM steady_page_header('ins_types_i', 2);
SELECT * FROM steady_page_items('ins_types_i', 2);
SELECT count(*) FROM steady_page_items(NULL, 1);
CREATE ROLE regress_steady_ins;
SET ROLE regress_steady_ins;
SELECT * FROM steady_stats('ins_k');
SELECT * FROM steady_page_header('ins_k', 1);
SELECT * FROM steady_page_items('ins_k', 1);
RESET ROLE;
ALTER TABLE ins OWNER TO regress_steady_ins;
SET ROLE regress_steady_ins;
SELECT entries > 0 AS owner_may FROM steady_stats('ins_k');
RESET ROLE;

SET client_min_messages = warning;
DROP TABLE ins, ins_few, ins_types, ins_parted CASCADE;
DROP FUNCTION leaf_items;
DROP ROLE regress_steady_ins;

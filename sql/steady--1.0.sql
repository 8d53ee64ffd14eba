/* steady--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION steady" to load this file. \quit

--
-- The access method
--

CREATE FUNCTION @extschema@.steady_handler(internal)
RETURNS index_am_handler
AS 'MODULE_PATHNAME', 'steady_handler'
LANGUAGE C;

COMMENT ON FUNCTION @extschema@.steady_handler(internal)
IS 'index access method steady: handler';

CREATE ACCESS METHOD steady TYPE INDEX HANDLER @extschema@.steady_handler;

COMMENT ON ACCESS METHOD steady
IS 'ordered index access method that skips dead entries whatever holds the horizon';

--
-- Operator classes
--
-- The mirror of a btree operator family has its name and its schema, and all of its members, cross-type ones too: each
-- name that finds an operator class for btree finds it for steady, whatever search_path is and wherever the extension
-- lives. (That is why the mirrors of the server's own families are in pg_catalog, and the extension can't be moved.)
-- A family with fewer members than btree's would split equivalence classes of queries that use no steady index: the
-- planner of 18 compares the lists of ordered families that two "=" operators belong to.
--
-- Families differ by server version, so the catalogs say what to make.
--

CREATE FUNCTION @extschema@.steady_import_opclasses(
	only_builtin boolean DEFAULT false,
	OUT opfamily text, OUT opclasses integer, OUT operators integer, OUT functions integer)
RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	btree constant oid := (SELECT oid FROM pg_am WHERE amname = 'btree');
	steady constant oid := (SELECT oid FROM pg_am WHERE amname = 'steady');
	first_normal_oid constant oid := 16384;	-- initdb gives out lower ones only
	command text;
	todo record;
BEGIN
	FOR todo IN
		WITH family AS (
			SELECT f.oid, format('%I.%I', n.nspname, f.opfname) AS name, m.oid AS mirror
			FROM pg_opfamily f
				JOIN pg_namespace n ON n.oid = f.opfnamespace
				LEFT JOIN pg_opfamily m
					ON (m.opfmethod, m.opfname, m.opfnamespace) = (steady, f.opfname, f.opfnamespace)
			WHERE f.opfmethod = btree
				AND n.nspname NOT LIKE 'pg\_temp\_%'
				AND (f.oid < first_normal_oid OR NOT only_builtin)
		), class AS (
			-- Classes of one family may share a type: the first of them holds the type's operators and functions.
			SELECT c.*, row_number() OVER (PARTITION BY c.opcfamily, c.opcintype
										   ORDER BY c.opcdefault DESC, c.oid) = 1 AS holder,
				NOT EXISTS (SELECT FROM pg_opclass m
							WHERE (m.opcmethod, m.opcname, m.opcnamespace) = (steady, c.opcname, c.opcnamespace)) AS missing,
				EXISTS (SELECT FROM pg_opclass m
						WHERE (m.opcmethod, m.opcintype, m.opcdefault) = (steady, c.opcintype, true)) AS has_default
			FROM pg_opclass c
			WHERE c.opcmethod = btree AND (c.oid < first_normal_oid OR NOT only_builtin)
		), member AS (
			-- Members that the mirror has nothing for
			SELECT f.oid AS family, o.amoplefttype AS lefttype, o.amoprighttype AS righttype, 1 AS is_operator,
				format('OPERATOR %s %s', o.amopstrategy, o.amopopr::regoperator) AS item
			FROM family f JOIN pg_amop o ON o.amopfamily = f.oid
			WHERE NOT EXISTS (SELECT FROM pg_amop m
							  WHERE (m.amopfamily, m.amoplefttype, m.amoprighttype, m.amopstrategy)
								  = (f.mirror, o.amoplefttype, o.amoprighttype, o.amopstrategy))
			UNION ALL
			SELECT f.oid, p.amproclefttype, p.amprocrighttype, 0,
				format('FUNCTION %s (%s, %s) %s', p.amprocnum, p.amproclefttype::regtype, p.amprocrighttype::regtype,
					   p.amproc::oid::regprocedure)
			FROM family f JOIN pg_amproc p ON p.amprocfamily = f.oid
			WHERE NOT EXISTS (SELECT FROM pg_amproc m
							  WHERE (m.amprocfamily, m.amproclefttype, m.amprocrighttype, m.amprocnum)
								  = (f.mirror, p.amproclefttype, p.amprocrighttype, p.amprocnum))
		), placed AS (
			-- A new class brings its own members, the rest are added to the family.
			SELECT m.*, c.oid AS class
			FROM member m LEFT JOIN class c
				ON (c.opcfamily, c.opcintype, c.opcintype) = (m.family, m.lefttype, m.righttype)
					AND c.holder AND c.missing
		)
		SELECT f.name,
			array_remove(
				CASE WHEN f.mirror IS NULL THEN format('CREATE OPERATOR FAMILY %s USING steady', f.name) END
				|| new.classes
				|| ('ALTER OPERATOR FAMILY ' || f.name || ' USING steady ADD ' || loose.items),
				NULL) AS commands,
			coalesce(cardinality(new.classes), 0) AS opclasses, total.operators, total.functions
		FROM family f
			CROSS JOIN LATERAL (
				SELECT array_agg(
					format('CREATE OPERATOR CLASS %I.%I %s FOR TYPE %s USING steady FAMILY %s AS %s',
						   n.nspname, c.opcname, CASE WHEN c.opcdefault AND NOT c.has_default THEN 'DEFAULT' END,
						   c.opcintype::regtype, f.name,
						   concat_ws(', ',
								(SELECT string_agg(p.item, ', ') FROM placed p WHERE p.class = c.oid),
								-- no storage type but the type itself is the same as none
								'STORAGE ' || coalesce(nullif(c.opckeytype, 0), c.opcintype)::regtype))
					ORDER BY c.oid) AS classes
				FROM class c JOIN pg_namespace n ON n.oid = c.opcnamespace
				WHERE c.opcfamily = f.oid AND c.missing) new
			CROSS JOIN LATERAL (
				SELECT string_agg(p.item, ', ') AS items FROM placed p
				WHERE p.family = f.oid AND p.class IS NULL) loose
			CROSS JOIN LATERAL (
				SELECT coalesce(sum(p.is_operator), 0) AS operators, coalesce(sum(1 - p.is_operator), 0) AS functions
				FROM placed p WHERE p.family = f.oid) total
		ORDER BY f.oid
	LOOP
		CONTINUE WHEN todo.commands = '{}';
		FOREACH command IN ARRAY todo.commands LOOP
			EXECUTE command;
		END LOOP;
		opfamily := todo.name;
		opclasses := todo.opclasses;
		operators := todo.operators;
		functions := todo.functions;
		RETURN NEXT;
	END LOOP;

	-- Mirrors of the server's own families are members of this extension, also those made outside of its script: they
	-- must come with CREATE EXTENSION in a restored dump, for pg_dump looks at nothing else in pg_catalog. Other mirrors
	-- are dumped as objects of their own, and when the extension that brought the original goes they go too, without
	-- CASCADE: that is the meaning of 'x', which ALTER ... DEPENDS ON EXTENSION gives to the kinds of object it knows.
	-- (A dump leaves it out; the next call puts it back.)
	INSERT INTO pg_depend (classid, objid, objsubid, refclassid, refobjid, refobjsubid, deptype)
	WITH mirror AS (
		SELECT 'pg_opfamily'::regclass::oid AS classid, m.oid, f.oid AS original
		FROM pg_opfamily f JOIN pg_opfamily m
			ON (f.opfmethod, m.opfmethod, m.opfname, m.opfnamespace) = (btree, steady, f.opfname, f.opfnamespace)
		UNION ALL
		SELECT 'pg_opclass'::regclass::oid, m.oid, c.oid
		FROM pg_opclass c JOIN pg_opclass m
			ON (c.opcmethod, m.opcmethod, m.opcname, m.opcnamespace) = (btree, steady, c.opcname, c.opcnamespace)
	)
	SELECT m.classid, m.oid, 0, 'pg_extension'::regclass, needed.extension, 0, needed.deptype
	FROM mirror m CROSS JOIN LATERAL (
		SELECT e.oid, 'e'::"char" FROM pg_extension e WHERE e.extname = 'steady' AND m.original < first_normal_oid
		UNION ALL
		SELECT d.refobjid, 'x' FROM pg_depend d WHERE (d.classid, d.objid, d.deptype) = (m.classid, m.original, 'e')
	) needed (extension, deptype)
	WHERE NOT EXISTS (
		SELECT FROM pg_depend d
		WHERE (d.classid, d.objid) = (m.classid, m.oid)
			AND (d.deptype = 'e' OR (d.deptype, d.refobjid) = (needed.deptype, needed.extension)));
END
$$;

REVOKE EXECUTE ON FUNCTION @extschema@.steady_import_opclasses(boolean) FROM PUBLIC;

COMMENT ON FUNCTION @extschema@.steady_import_opclasses(boolean)
IS 'mirror what steady still lacks of btree''s operator families, those of other extensions too';

SELECT pg_catalog.count(*) FROM @extschema@.steady_import_opclasses(only_builtin => true);

--
-- Looking inside and checking
--
-- For the owner of an index and for superusers; the functions check that themselves.
--

CREATE FUNCTION @extschema@.steady_verify(
	index regclass, heapallindexed boolean DEFAULT false, stamps boolean DEFAULT true)
RETURNS void
AS 'MODULE_PATHNAME', 'steady_verify'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION @extschema@.steady_verify(regclass, boolean, boolean)
IS 'raise an error if a steady index is damaged or, on request, if a row of the table is missing from it';

CREATE FUNCTION @extschema@.steady_stats(
	index regclass,
	OUT codec text, OUT levels integer, OUT blocks bigint,
	OUT inner_pages bigint, OUT leaf_pages bigint, OUT empty_leaf_pages bigint,
	OUT deleted_pages bigint, OUT new_pages bigint, OUT damaged_pages bigint,
	OUT entries bigint, OUT posting_lists bigint, OUT killed bigint,
	OUT gaps bigint, OUT waste_bytes bigint, OUT free_bytes bigint, OUT leaf_fill double precision,
	OUT flagged_children bigint, OUT smallest_stamp xid8, OUT largest_stamp xid8,
	OUT skipped_entries bigint, OUT skipped_pages bigint, OUT skipped_subtrees bigint,
	OUT removed_entries bigint, OUT unlinked_pages bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'steady_stats'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION @extschema@.steady_stats(regclass)
IS 'levels, pages, entries, space, and what dead entries were skipped and removed, of a steady index';

CREATE FUNCTION @extschema@.steady_page_header(
	index regclass, blkno bigint,
	OUT fault text, OUT kind text, OUT lsn pg_lsn, OUT lower integer, OUT upper integer,
	OUT level integer, OUT left_block bigint, OUT right_block bigint, OUT flags text[], OUT safe_xid xid8,
	OUT low text, OUT high text, OUT entries integer, OUT gaps integer, OUT waste integer, OUT free integer,
	OUT has_zone boolean, OUT killed integer)
RETURNS record
AS 'MODULE_PATHNAME', 'steady_page_header'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION @extschema@.steady_page_header(regclass, bigint)
IS 'frame of a page of a steady index';

CREATE FUNCTION @extschema@.steady_page_items(
	index regclass, blkno bigint,
	OUT slot integer, OUT kind text, OUT "offset" integer, OUT size integer, OUT columns integer, OUT key text,
	OUT tid tid, OUT tids tid[], OUT child bigint, OUT killed integer, OUT stamp text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'steady_page_items'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION @extschema@.steady_page_items(regclass, bigint)
IS 'fences and entries of a page of a steady index';

--
-- The free space map of a patched server. On others these functions raise an error that says so.
--

CREATE FUNCTION @extschema@.steady_fsm_counts(
	OUT lease bigint, OUT map bigint, OUT extension bigint, OUT last_page bigint, OUT target_block bigint,
	OUT adopted_idle bigint, OUT refused bigint, OUT extensions bigint, OUT new_pages bigint,
	OUT given_back bigint, OUT not_recorded bigint, OUT evicted bigint, OUT runs bigint, OUT leased_pages bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'steady_fsm_counts'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION @extschema@.steady_fsm_counts()
IS 'pages of tables handed out to backends since the server''s start, by source, and what became of leases';

CREATE VIEW @extschema@.steady_fsm_stats AS
	SELECT *, round(100.0 * lease / nullif(lease + map + extension + last_page + target_block, 0), 1) AS lease_percent
	FROM @extschema@.steady_fsm_counts();

COMMENT ON VIEW @extschema@.steady_fsm_stats
IS 'pages of tables handed out to backends since the server''s start, by source, and what became of leases';

CREATE FUNCTION @extschema@.steady_fsm_reopen("table" regclass, percent integer)
RETURNS void
AS 'MODULE_PATHNAME', 'steady_fsm_reopen'
LANGUAGE C VOLATILE;

COMMENT ON FUNCTION @extschema@.steady_fsm_reopen(regclass, integer)
IS 'how much of a page of this table must be free for it to take rows again; null: as steady.fsm_reopen says';

CREATE FUNCTION @extschema@.steady_fsm_runs(
	OUT tablespace oid, OUT database oid, OUT relfilenode oid, OUT pid integer,
	OUT first_block bigint, OUT pages integer, OUT idle_seconds integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'steady_fsm_runs'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION @extschema@.steady_fsm_runs()
IS 'leases of pages, of all databases';

CREATE VIEW @extschema@.steady_fsm_leases AS
	SELECT pg_filenode_relation(CASE WHEN tablespace = dattablespace THEN 0 ELSE tablespace END, relfilenode) AS relation,
		pid, first_block, pages, idle_seconds
	FROM @extschema@.steady_fsm_runs() r JOIN pg_database d ON d.oid = r.database
	WHERE datname = current_database();

COMMENT ON VIEW @extschema@.steady_fsm_leases
IS 'leases of pages in this database; those without pid are of nobody until a backend needs pages';

--
-- Buffer replacement, on a patched server as well.
--

CREATE FUNCTION @extschema@.steady_buffer_counts(
	OUT policy text, OUT buffers bigint,
	OUT hits bigint, OUT fresh_hits bigint, OUT installed bigint, OUT evicted bigint,
	OUT victims bigint, OUT steps bigint, OUT steps_per_victim double precision,
	OUT ghosts bigint, OUT promotions bigint, OUT lock_acquisitions bigint,
	OUT free_buffers bigint, OUT fresh_buffers bigint, OUT small_buffers bigint, OUT main_buffers bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'steady_buffer_counts'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION @extschema@.steady_buffer_counts()
IS 'what steady_buffer_stats shows';

CREATE VIEW @extschema@.steady_buffer_stats AS
	SELECT * FROM @extschema@.steady_buffer_counts();

GRANT SELECT ON @extschema@.steady_buffer_stats TO PUBLIC;

COMMENT ON VIEW @extschema@.steady_buffer_stats
IS 'how shared buffers were found, replaced and searched for since the server started';

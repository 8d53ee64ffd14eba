# Damaged pages, fed to everything that reads an index: scans, insertion, VACUUM, the verifier and the functions that show
# pages. Each gives a right answer or ERRCODE_INDEX_CORRUPTED (ERRCODE_DATA_CORRUPTED if the server itself can't read a
# page). Nothing crashes, nothing runs for ever, and after REINDEX
# all is well. What no scan can notice (a bit of a value, a page torn in two) the verifier does notice.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

seed();
my $flip_rounds = is_long() ? 60 : 2;

# The page as src/index/page.hpp lays it out: where each field is, and its format for pack().
my $page_size = 8192;
my %field = (
	lower => [ 12, 'S' ], upper => [ 14, 'S' ], contents => [ 24, 'S' ],
	magic => [ 8168, 'L' ], format => [ 8172, 'C' ], kind => [ 8173, 'C' ], level => [ 8174, 'S' ],
	left => [ 8176, 'L' ], right => [ 8180, 'L' ], flags => [ 8184, 'S' ], low => [ 8186, 'S' ], high => [ 8188, 'S' ],
	root => [ 32, 'L' ]);
my $nowhere = 0xFFFFFFFF;
my $tuple_header = 8;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(no_data_checksums => 1);
$node->append_conf('postgresql.conf', q{
autovacuum = off
fsync = off
statement_timeout = '20s'
jit = off
min_parallel_index_scan_size = 0
enable_parallel_append = off
max_parallel_workers_per_gather = 0
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION steady');

# Every query answers in one row of text; %1$s is the table. Each is run once by a sequential scan and once by the index.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE queries (name text, setting text, query text);
INSERT INTO queries VALUES
('forward', 'enable_indexscan', 'SELECT (count(*), sum(id), bool_and(k >= before)) FROM (SELECT k, id, lag(k) OVER () AS before FROM (SELECT k, id FROM %1$s ORDER BY k) s) o'),
('backward', 'enable_indexscan', 'SELECT (count(*), sum(id), bool_and(k <= before)) FROM (SELECT k, id, lag(k) OVER () AS before FROM (SELECT k, id FROM %1$s ORDER BY k DESC) s) o'),
('index only', 'enable_indexonlyscan', 'SELECT (count(k), md5(string_agg(k::text, '','' ORDER BY k))) FROM (SELECT k FROM %1$s ORDER BY k) s'),
('bitmap', 'enable_bitmapscan', 'SELECT (count(*), sum(id)) FROM %1$s WHERE k >= (SELECT min(k) FROM %1$s_keys)'),
('array', 'enable_indexscan', 'SELECT (count(*), sum(id)) FROM %1$s WHERE k = ANY (ARRAY(SELECT k FROM %1$s_keys WHERE n %% 3 = 0))'),
('look-ups', 'enable_indexscan', 'SELECT (count(*), sum(t.id)) FROM %1$s_keys s CROSS JOIN LATERAL (SELECT id FROM %1$s WHERE k = s.k OFFSET 0) t WHERE n %% 20 = 0'),
('ends', 'enable_indexscan', 'SELECT (min(k), max(k)) FROM %1$s'),
('merge join', 'enable_indexscan', 'SELECT (count(*), sum(a.id), sum(b.id)) FROM %1$s a JOIN %1$s b USING (k) WHERE a.id %% 10 = 0');

CREATE FUNCTION method(setting text) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_' || name, CASE WHEN 'enable_' || name = setting OR name = 'indexscan' AND setting = 'enable_indexonlyscan' THEN 'on' ELSE 'off' END, true)
	FROM unnest(ARRAY['seqscan', 'indexscan', 'indexonlyscan', 'bitmapscan', 'hashjoin', 'nestloop', 'material', 'memoize']) name
$$;
CREATE FUNCTION probe(tab text, OUT name text, OUT outcome text) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	q record; expected text; got text;
BEGIN
	FOR q IN SELECT * FROM queries LOOP
		name := q.name;
		BEGIN
			PERFORM method('enable_seqscan');	-- the planner looks at the index all the same
			EXECUTE format(q.query, tab) INTO expected;
			PERFORM method(q.setting);
			EXECUTE format(q.query, tab) INTO got;
			outcome := CASE WHEN got = expected THEN 'right' ELSE 'wrong' END;
		EXCEPTION WHEN OTHERS THEN
			outcome := sqlstate || ' ' || sqlerrm;
		END;
		RETURN NEXT;
	END LOOP;
END $$;
-- Are the queries what they are meant to be?
CREATE FUNCTION plans(tab text, OUT name text, OUT by_index bool) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	q record; line text; plan text;
BEGIN
	FOR q IN SELECT * FROM queries LOOP
		name := q.name;
		plan := '';
		PERFORM method(q.setting);
		FOR line IN EXECUTE 'EXPLAIN ' || format(q.query, tab) LOOP
			plan := plan || line;
		END LOOP;
		by_index := plan ~ (CASE q.name WHEN 'index only' THEN 'Index Only.*' ELSE 'Index.*' END || tab || '_i') AND plan !~ ('Seq Scan on ' || tab || '( |$)');
		RETURN NEXT;
	END LOOP;
END $$;
CREATE FUNCTION attempt(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 'right';
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate || ' ' || sqlerrm;
END $$;
-- Tables and their indexes: a key of many types, some of them long, dead rows on every leaf, an index with a past.
CREATE FUNCTION make_key(kind text, i int) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN kind IN ('int', 'word') THEN i * 37 % 1501 WHEN kind = 'many' THEN i * 37 % 53 ELSE i * 37 % 2003 END::text
		|| CASE WHEN kind <> 'text' THEN '' WHEN i % 50 = 0 THEN repeat('long', 300) ELSE repeat('x', i % 60) END
$$;
CREATE FUNCTION make_table(tab text, kind text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	type text := CASE kind WHEN 'text' THEN 'text COLLATE "C"' WHEN 'pair' THEN 'text' WHEN 'unique' THEN 'int8' ELSE 'int4' END;
	rows int := CASE kind WHEN 'many' THEN 7000 ELSE 2500 END;
BEGIN
	EXECUTE format('CREATE TABLE %I (id int, k %s, t text DEFAULT ''t'')', tab, type);
	EXECUTE format('INSERT INTO %I SELECT i, make_key(%L, i)::%s, repeat(''t'', i %% 9) FROM generate_series(1, %s) i', tab, kind, type, rows);
	EXECUTE format(CASE kind WHEN 'unique' THEN 'CREATE UNIQUE INDEX %I ON %I USING steady (k, id) INCLUDE (t)'
		WHEN 'pair' THEN 'CREATE INDEX %I ON %I USING steady (k, t, id)'
		WHEN 'text' THEN 'CREATE INDEX %I ON %I USING steady (k)'
		WHEN 'word' THEN 'CREATE INDEX %I ON %I USING steady (k) WITH (fillfactor = 15)'
		ELSE 'CREATE INDEX %I ON %I USING steady (k) WITH (codec = tuple)' END, tab || '_i', tab);
	EXECUTE format('CREATE TABLE %I AS SELECT k, row_number() OVER () AS n FROM %I GROUP BY k', tab || '_keys', tab);
	EXECUTE format('INSERT INTO %I (id, k) SELECT i, make_key(%L, i)::%s FROM generate_series(10001, 11000) i', tab, kind, type);
END $$;
CREATE FUNCTION age_table(tab text, kind text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	type text := CASE WHEN kind IN ('text', 'pair') THEN 'text' WHEN kind = 'unique' THEN 'int8' ELSE 'int4' END;
BEGIN
	EXECUTE format('DELETE FROM %I WHERE id %% 7 = 0', tab);
	EXECUTE format('INSERT INTO %I (id, k) SELECT i, make_key(%L, i)::%s FROM generate_series(11001, 11500) i', tab, kind, type);
	EXECUTE format('ANALYZE %I', tab);
END $$;
-- Outcomes of inserts and updates, each on its own
CREATE FUNCTION write(tab text, kind text, start int, OUT outcome text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	type text := CASE WHEN kind IN ('text', 'pair') THEN 'text' WHEN kind = 'unique' THEN 'int8' ELSE 'int4' END;
BEGIN
	FOR i IN start .. start + 120 LOOP
		outcome := attempt(CASE WHEN i % 4 > 0
			THEN format('INSERT INTO %I (id, k) VALUES (%s, make_key(%L, %s)::%s)', tab, i, kind, i, type)
			ELSE format('UPDATE %I SET k = make_key(%L, %s)::%s WHERE id = %s', tab, kind, i, type, i % 3000) END);
		RETURN NEXT;
	END LOOP;
END $$;
-- Looking at each page
CREATE FUNCTION look(tab text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN NEXT attempt(format('SELECT steady_stats(%L)', tab || '_i'));
	FOR b IN 0 .. pg_relation_size(tab || '_i') / 8192 - 1 LOOP
		RETURN NEXT attempt(format('SELECT steady_page_header(%L, %s)', tab || '_i', b));
		RETURN NEXT attempt(format('SELECT count(*) FROM steady_page_items(%L, %s)', tab || '_i', b));
	END LOOP;
END $$;
SQL

# ---- files

sub index_path
{
	my ($table) = @_;
	return $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('${table}_i')");
}

sub read_pages
{
	my ($path) = @_;
	return [ unpack("(a$page_size)*", slurp_file($path)) ];
}

sub write_pages
{
	my ($path, $pages) = @_;
	open(my $file, '+<:raw', $path) or die "$path: $!";
	print $file join('', @$pages);
	close($file) or die "$path: $!";
}

sub get
{
	my ($page, $name) = @_;
	my ($at, $format) = @{ $field{$name} };
	return unpack("x$at$format", $page);
}

# Changes a field of the page that the reference leads to.
sub set
{
	my ($page, $name, $value) = @_;
	my ($at, $format) = @{ $field{$name} };
	my $bytes = pack($format, $value);
	substr($$page, $at, length $bytes) = $bytes;
}

# Blocks of a level in the order of their links
sub level_of
{
	my ($pages, $level) = @_;
	my ($block) = grep { get($pages->[$_], 'upper') && get($pages->[$_], 'level') == $level
		  && !(get($pages->[$_], 'flags') & 2) && get($pages->[$_], 'left') == $nowhere } 1 .. $#$pages;
	my @blocks;
	for (; $block != $nowhere; $block = get($pages->[$block], 'right'))
	{
		push @blocks, $block;
	}
	return @blocks;
}

# Adds to the first key column (an integer in little-endian order) of the pivot that a fence field names.
sub move_fence
{
	my ($page, $name, $by) = @_;
	my $at = get($$page, $name) + $tuple_header;
	substr($$page, $at, 4) = pack('l<', unpack("x${at}l<", $$page) + $by);
}

# ---- cases: how a page is damaged. Each gets all pages, the leaves and the inner pages.

sub middle { my @blocks = @_; return $blocks[ @blocks / 2 ]; }

my %structural = (
	'zeroed leaf' => sub { my ($p, $leaf) = @_; $p->[ middle(@$leaf) ] = "\0" x $page_size },
	'zeroed first leaf' => sub { my ($p, $leaf) = @_; $p->[ $leaf->[0] ] = "\0" x $page_size },
	'zeroed last leaf' => sub { my ($p, $leaf) = @_; $p->[ $leaf->[-1] ] = "\0" x $page_size },
	'zeroed root' => sub { my ($p, $leaf, $inner) = @_; $p->[ $inner->[0] ] = "\0" x $page_size },
	'zeroed meta page' => sub { my ($p) = @_; $p->[0] = "\0" x $page_size },
	'leaf of another format' => sub { my ($p, $leaf) = @_; set(\$p->[ middle(@$leaf) ], format => 2) },
	'root of another format' => sub { my ($p, $leaf, $inner) = @_; set(\$p->[ $inner->[0] ], format => 2) },
	'meta page of another format' => sub { my ($p) = @_; set(\$p->[0], format => 2) },
	'leaf of something else' => sub { my ($p, $leaf) = @_; set(\$p->[ middle(@$leaf) ], magic => 7) },
	'leaf of a codec to come' => sub { my ($p, $leaf) = @_; set(\$p->[ middle(@$leaf) ], kind => 3) },
	'leaf of another level' => sub { my ($p, $leaf) = @_; set(\$p->[ middle(@$leaf) ], level => 1) },
	'root of another level' => sub { my ($p, $leaf, $inner) = @_; set(\$p->[ $inner->[0] ], level => 5) },
	'circle of right links' => sub { my ($p, $leaf) = @_; set(\$p->[ $leaf->[4] ], right => $leaf->[2]) },
	'circle of left links' => sub { my ($p, $leaf) = @_; set(\$p->[ $leaf->[2] ], left => $leaf->[4]) },
	'two leaves in a circle' => sub {
		my ($p, $leaf) = @_;
		set(\$p->[ $leaf->[2] ], $_ => $leaf->[3]) for 'left', 'right';
		set(\$p->[ $leaf->[3] ], $_ => $leaf->[2]) for 'left', 'right';
	},
	'leaf that links to the root' => sub { my ($p, $leaf, $inner) = @_; set(\$p->[ $leaf->[2] ], right => $inner->[0]) },
	'link behind the end' => sub { my ($p, $leaf) = @_; set(\$p->[ $leaf->[2] ], right => 100_000) },
	'downlink to the root' => sub {
		my ($p, $leaf, $inner) = @_;
		my $root = \$p->[ $inner->[0] ];
		my $at = unpack('x28S', $$root) & 0x7fff;    # slot 2
		substr($$root, $at, 4) = pack('SS', $inner->[0] >> 16, $inner->[0] & 0xffff);
	},
	'meta page that names a leaf' => sub { my ($p, $leaf) = @_; set(\$p->[0], root => $leaf->[1]) },
	'leaf that claims to be unlinked' => sub { my ($p, $leaf) = @_; set(\$p->[ middle(@$leaf) ], flags => 2) },
	'leaf without a high key' => sub { my ($p, $leaf) = @_; set(\$p->[ middle(@$leaf) ], high => 0) },
	'fence outside of its page' => sub { my ($p, $leaf) = @_; set(\$p->[ middle(@$leaf) ], low => 8176) },
	'slots that never end' => sub { my ($p, $leaf) = @_; set(\$p->[ middle(@$leaf) ], lower => 60_000) },
	'entries that begin nowhere' => sub { my ($p, $leaf) = @_; set(\$p->[ middle(@$leaf) ], upper => 24) },
);
my %fences = (
	'high key too low' => sub { my ($p, $leaf) = @_; move_fence(\$p->[ middle(@$leaf) ], high => -1000) },
	'high key too high' => sub { my ($p, $leaf) = @_; move_fence(\$p->[ middle(@$leaf) ], high => 1000) },
	'low fence too low' => sub { my ($p, $leaf) = @_; move_fence(\$p->[ middle(@$leaf) ], low => -1000) },
	'low fence too high' => sub { my ($p, $leaf) = @_; move_fence(\$p->[ middle(@$leaf) ], low => 1000) },
);

# Gives long values a method of compression that there isn't.
sub unknown_compression
{
	my ($p, $leaf) = @_;
	my $changed = 0;
	for my $page (map { \$p->[$_] } @$leaf)
	{
		for my $slot (unpack 'S*', substr($$page, 24, get($$page, 'lower') - 24))
		{
			my $at = ($slot & 0x7fff) + $tuple_header;
			next if $at < get($$page, 'upper') || (unpack("x${at}C", $$page) & 3) != 2;
			substr($$page, $at + 7, 1) |= "\xc0";
			$changed++;
		}
	}
	die 'no compressed value' if !$changed;
}

# Half of a page as it was before the table aged
sub tear
{
	my ($block_of, $first_is_old) = @_;
	return sub {
		my ($p, $leaf, $inner, $old) = @_;
		my $block = $block_of->($leaf, $inner);
		return unless defined $old->[$block];
		my $half = $page_size / 2;
		my ($first, $second) = $first_is_old ? ($old, $p) : ($p, $old);
		$p->[$block] = substr($first->[$block], 0, $half) . substr($second->[$block], $half);
	};
}

# Some bits of one page. Half of them where structure is: header, slots, tail.
sub flip
{
	my ($p, $leaf, $inner) = @_;
	my @blocks = (0, @$inner, @$leaf, (map { @$leaf } 1 .. 3));
	my $block = $blocks[ rand @blocks ];
	my @what;
	for (0 .. rand 4)
	{
		my $at = int(
			  rand() < 0.5 ? rand $page_size
			: rand() < 0.5 ? rand 80
			: rand() < 0.5 ? 8168 + rand 24
			:                get($p->[$block], 'upper') + rand 64) % $page_size;
		my $bit = int(rand 8);
		substr($p->[$block], $at, 1) ^= chr(1 << $bit);
		push @what, "byte $at bit $bit";
	}
	return "block $block: " . join(', ', @what);
}

# ---- running them

my $number = 0;
my %seen;    # outcomes, to show that the tests met what they are for

# All that is done to a table, as a script of psql. It prints lines of table|what|outcome.
sub script
{
	my ($table, $kind) = @_;
	my @steps;
	my $rows = sub {
		my ($what, $from) = @_;
		# A statement that fails as a whole (out of time) shows in the line after it.
		push @steps, "SELECT '$table', '$what ' || name, outcome FROM $from f (name, outcome);",
		  "\\echo $table|$what end|:SQLSTATE";
	};
	my $attempt = sub {
		my ($what, $command) = @_;
		$rows->($what, "(SELECT '', attempt(\$c\$$command\$c\$))");
	};
	$rows->('scan', "probe('$table')");
	$attempt->('verifier', "SELECT steady_verify('${table}_i', true)");
	$rows->('page', "(SELECT '', look('$table'))");
	$rows->('write', "(SELECT '', write('$table', '$kind', 12000))");
	push @steps, "VACUUM $table;", "\\echo $table|VACUUM|:SQLSTATE";
	# Rows that take the places of those that VACUUM removed must not show up under other keys.
	$rows->('write', "(SELECT '', write('$table', '$kind', 13000))");
	$rows->('scan after VACUUM', "probe('$table')");
	$attempt->('verifier after VACUUM', "SELECT steady_verify('${table}_i', true)");
	$attempt->('REINDEX', "REINDEX INDEX ${table}_i");
	$rows->('scan after REINDEX', "probe('$table')");
	$attempt->('verifier after REINDEX', "SELECT steady_verify('${table}_i', true)");
	return @steps;
}

my $server_finds = qr/^(XX00[01]|58P01)\ (could\ not\ (open\ file|read\ block)|tuple\ offset\ out\ of\ range
	|compressed\ .*\ is\ corrupt|mergejoin\ input\ data\ is\ out\ of\ order)/x;

# What of a case's outcomes is not allowed
sub trouble
{
	my ($case, @outcomes) = @_;
	my (@bad, @wrong);
	my $ends = 0;
	foreach (@outcomes)
	{
		my ($what, $outcome) = @$_;
		$what =~ s/ +$//;
		if ($what =~ / end$/)
		{
			$ends++;
			push @bad, "$what: $outcome" if $outcome ne '00000';
			next;
		}
		$outcome = 'right' if $outcome eq '00000';
		my ($state) = $outcome =~ /^(\w+)/;
		$seen{$state}++;
		my $clear = $outcome eq 'right' || ($outcome =~ /^XX002\b/ && $what !~ /REINDEX/);
		# The server itself finds a page header that no page can have, a TID that leads out of the table, a value that
		# can't be decompressed.
		$clear = 1 if $what !~ /REINDEX/ && $outcome =~ /^XX001\b/;
		if (!$case->{strict} && $what !~ /REINDEX/ && $outcome =~ /^wrong|$server_finds/)
		{
			push @wrong, "$what: $outcome";
		}
		elsif (!$clear)
		{
			push @bad, "$what: $outcome";
		}
		if ($what =~ /^verifier/)
		{
			push @bad, "$what finds no fault" if $outcome eq 'right' && ($case->{found} && $what eq 'verifier' || @wrong);
			push @bad, @wrong if $outcome eq 'right';
			@wrong = ();
		}
	}
	push @bad, "only $ends of 10 steps came to an end" if $ends != 10;
	return @bad;
}

sub run_cases
{
	my ($title, @cases) = @_;
	$node->safe_psql('postgres', join("\n", map { "SELECT make_table('$_->{table}', '$_->{kind}');" } @cases));
	$node->safe_psql('postgres', 'CHECKPOINT');
	my %path = map { split /\|/ } split /\n/, $node->safe_psql('postgres',
		q{SELECT relname, pg_relation_filepath(oid) FROM pg_class WHERE relname ~ '^bad\d+_i$'});
	foreach my $case (@cases)
	{
		$case->{path} = $node->data_dir . '/' . $path{"$case->{table}_i"};
		$case->{old} = read_pages($case->{path});
	}
	$node->safe_psql('postgres', join("\n", map { "SELECT age_table('$_->{table}', '$_->{kind}');" } @cases));
	$node->stop;
	foreach my $case (@cases)
	{
		my $pages = read_pages($case->{path});
		my @inner = level_of($pages, 1);
		my @leaves = level_of($pages, 0);
		die "index of $case->{table} has not the right size" if @inner != 1 || @leaves < 6;
		my $what = $case->{damage}->($pages, \@leaves, \@inner, $case->{old});
		$case->{name} .= " ($what)" if $case->{damage} == \&flip;
		write_pages($case->{path}, $pages);
	}
	my $log_start = -s $node->logfile;
	$node->start;

	my ($late, %outcomes);
	my ($status, $out, $err) = $node->psql('postgres', join("\n", map { script($_->{table}, $_->{kind}) } @cases),
		on_error_stop => 0, timeout => 900, timed_out => \$late);
	$node->stop('immediate'), BAIL_OUT("$title: no end") if $late;
	foreach (split /\n/, $out)
	{
		my ($table, $what, $outcome) = split /\|/, $_, 3;
		push @{ $outcomes{$table} }, [ $what, $outcome ] if defined $outcome;
	}
	foreach my $case (@cases)
	{
		my @bad = trouble($case, @{ $outcomes{ $case->{table} } // [] });
		ok(!@bad, "$title: $case->{name}, key $case->{kind}") or diag("$case->{table}: ", join("\n", @bad));
	}
	my $log = slurp_file($node->logfile, $log_start);
	my @calamities = grep { /PANIC|TRAP|terminated by signal|canceling statement/ } split /\n/, $log;
	is(join("\n", @calamities), '', "$title: no crash and no endless loop");
	$node->safe_psql('postgres', join('', map { "DROP TABLE $_->{table}, $_->{table}_keys;" } @cases));
}

sub case
{
	my ($kind, $name, $damage, %more) = @_;
	return { table => 'bad' . ++$number, kind => $kind, name => $name, damage => $damage, %more };
}

# Nothing damaged: the tests themselves are right, and they test the index.
run_cases('sound', map { case($_, 'no damage', sub { }, strict => 1) } 'int', 'word', 'many', 'unique', 'text', 'pair');
foreach my $kind ('int', 'word', 'text')
{
	$node->safe_psql('postgres', "SELECT make_table('plan_$kind', '$kind'), age_table('plan_$kind', '$kind')");
	is($node->safe_psql('postgres', "SELECT name FROM plans('plan_$kind') WHERE NOT by_index"), '', "all queries use the index, key $kind");
}

foreach my $kind (is_long() ? ('int', 'word', 'unique', 'text', 'pair') : ('int', 'word', 'pair'))
{
	run_cases('structure', map { case($kind, $_, $structural{$_}, strict => 1, found => 1) } sort keys %structural);
}
run_cases('fences', map { my $kind = $_; map { case($kind, $_, $fences{$_}, strict => 1, found => 1) } sort keys %fences } 'int', 'word');
run_cases('values', case('text', 'unknown compression', \&unknown_compression, strict => 1, found => 1));

my @torn;
foreach my $kind ('int', 'word', 'many', 'unique', 'text', 'pair')
{
	foreach my $old_first (0, 1)
	{
		my $name = $old_first ? 'first half is old' : 'second half is old';
		push @torn, case($kind, "leaf, $name", tear(sub { middle(@{ $_[0] }) }, $old_first));
		push @torn, case($kind, "root, $name", tear(sub { $_[1]->[0] }, $old_first));
	}
}
run_cases('torn', @torn);

# VACUUM goes on to the end, says what it could not read, and fails.
{
	$node->safe_psql('postgres', "SELECT make_table('vac', 'int'), age_table('vac', 'int'); VACUUM vac; DELETE FROM vac WHERE id % 5 = 0");
	my $path = index_path('vac');
	$node->stop;
	my $pages = read_pages($path);
	my @leaves = level_of($pages, 0);
	my @zeroed = @leaves[ 1, 4 ];
	$pages->[$_] = "\0" x $page_size for @zeroed;
	write_pages($path, $pages);
	my $log_start = -s $node->logfile;
	$node->start;
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nVACUUM vac");
	like($err, qr/ERROR:\s+XX002/, 'VACUUM fails at the end');
	my $log = slurp_file($node->logfile, $log_start);
	like($log, qr/block $_\b/, "VACUUM tells of block $_") for @zeroed;
	my $killed = $node->safe_psql('postgres', "SELECT entries FROM steady_stats('vac_i')");
	my $live = $node->safe_psql('postgres', 'SELECT count(*) FROM vac');
	cmp_ok($killed, '<=', $live, 'VACUUM cleaned the leaves that it could read');
	# The rows' places were not given to others: entries on a leaf that is read again would lead there.
	is($node->safe_psql('postgres', "SELECT damaged_pages FROM steady_stats('vac_i')"), '0', 'zeroed pages count as new ones');
	$node->safe_psql('postgres', 'REINDEX TABLE vac; VACUUM vac');
	is($node->safe_psql('postgres', "SELECT string_agg(name, ',') FROM probe('vac') WHERE outcome <> 'right'"), '', 'REINDEX repairs it');
}

foreach my $round (1 .. $flip_rounds)
{
	run_cases("flips $round", map { case($_, 'flipped', \&flip) } ('int', 'word', 'many', 'unique', 'text', 'pair') x 4);
}

ok($seen{XX002}, 'damage was met');
note join(', ', map { "$_: $seen{$_}" } sort keys %seen);
$node->stop;
done_testing();

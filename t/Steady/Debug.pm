# What tests of a debug build share: sessions that stop at points in the code, and scenarios with and without a guard.
package Steady::Debug;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Steady::Test;
use Test::More;

our @EXPORT = qw($wide debug_node session background result stop_at release blocked settle create look must_be second_leaf
  faults race guarded);

# An expression over a table t's id, in its order, whose values are so wide that a few hundred make a tree of four levels
our $wide = "lpad(id::text, 4, '0') || " . join ' || ', map { "md5(id::text || '$_')" } 1 .. 30;

my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
my $node;
my %pid;  # of sessions
my $controller;

# A server with the extension, or the end of the test where the library is no debug build.
sub debug_node
{
	my ($name, @more) = @_;
	$node = new_node($name, @more);
	$node->start;
	prepare($node);
	$node->safe_psql('postgres', 'CREATE TABLE other (i int); INSERT INTO other VALUES (1)');
	my ($status) = $node->psql('postgres', q{LOAD 'steady'; SHOW steady.debug_stop});
	plan skip_all => 'this is no debug build' if $status != 0;
	return $node;
}

# A session that uses indexes, and what it begins with.
sub session
{
	my ($node, $begin) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$pid{$session} = $session->query('SELECT pg_backend_pid()');
	$session->query($by_index . ($begin // ''));
	return $session;
}

# Has a session do something, and doesn't wait for it; later, waits, and returns its output and errors.
sub background
{
	my ($session, $sql) = @_;
	$session->{stderr} = '';
	$session->query_until(qr/sent/, "\\echo sent\n$sql;\n");
}

sub result
{
	my ($session) = @_;
	my $output = $session->query('');
	return join "\n", grep { $_ ne '' } $output, $session->{stderr};
}

# Has a session do something that comes by a point ("name" or "name:pass"), and waits until it stands there. $then: done
# in between, once the session waits for something else.
sub stop_at
{
	my ($node, $session, $point, $sql, $then) = @_;
	my ($name) = split /:/, $point;
	$controller = $node->background_psql('postgres');
	$controller->query_safe("SELECT pg_advisory_lock(hashtext('steady'), hashtext('$name'))");
	$session->query("SET steady.debug_stop = '$point'");
	if (defined $then)
	{
		settle($node, $session, $sql) or die "the session does not wait on its way to $point";
		$then->();
	}
	else
	{
		background($session, $sql);
	}
	$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $pid{$session} AND locktype = 'advisory'"
		. " AND objid = hashtext('$name')::oid AND NOT granted)") or die "the session does not come to $point";
}

# Lets the session that stands go on.
sub release
{
	$controller->quit;
}

# Waits until a session waits for another one.
sub blocked
{
	my ($node, $session, $by) = @_;
	$node->poll_query_until('postgres', "SELECT $pid{$by} = ANY (pg_blocking_pids($pid{$session}))") or die 'the session is not blocked';
}

# Has a session do something, and waits until it has done it or has to wait for somebody. True if it waits.
sub settle
{
	my ($node, $session, $sql) = @_;
	my $before = $node->safe_psql('postgres', "SELECT state_change FROM pg_stat_activity WHERE pid = $pid{$session}");
	background($session, $sql);
	my $now;
	wait_for('the session to wait or end', sub {
		$now = $node->safe_psql('postgres', <<"SQL");
SELECT CASE WHEN state_change <= '$before' THEN 'sent' WHEN state LIKE 'idle%' THEN 'ended'
	WHEN wait_event_type IN ('Lock', 'BufferPin') OR wait_event = 'BufferContent' THEN 'waits' ELSE state END
FROM pg_stat_activity WHERE pid = $pid{$session}
SQL
		return $now =~ /ended|waits/;
	});
	return $now eq 'waits';
}

# A table t of so many rows with an index, in place of an earlier one.
sub create
{
	my ($rows, %more) = @_;
	my $kind = $more{kind} // '';
	my $key = $more{key} // 'id';
	my $pad = $more{pad} // 1;
	my $unique = $more{unique} ? 'UNIQUE' : '';
	# Packed entries are small: with this, too, a page has a few hundred.
	my $more = $key eq 'id' ? ', (hashint8extended(id, 0))' : '';
	my $with = $more{with} ? "WITH ($more{with})" : '';
	$node->safe_psql('postgres', <<"SQL");
DROP TABLE IF EXISTS t;
CREATE $kind TABLE t (id int, pad text) WITH (fillfactor = 70);
CREATE $unique INDEX t_i ON t USING steady (($key)$more) $with;
INSERT INTO t SELECT i, repeat('p', $pad) FROM generate_series(1, $rows) i;
SQL
}

# Looks at all of it by index, twice: first what is dead is stamped, then pages are flagged.
sub look
{
	my ($where, $on) = @_;
	$where //= 'id > 0';
	($on // $node)->safe_psql('postgres', $by_index . "SELECT count(pad) FROM t WHERE $where;" x 2);
}

# A condition on the index's statistics, without which a scenario is none
sub must_be
{
	my ($condition, $on) = @_;
	my ($is, $stats) = split /\|/, ($on // $node)->safe_psql('postgres', "SELECT $condition, s FROM steady_stats('t_i') s"), 2;
	$is eq 't' or die "not so: $condition: $stats";
}

# The second leaf: where its keys begin and end, and its block
sub second_leaf
{
	my ($on) = @_;
	my $sql = q{SELECT h.low, h.high, b FROM generate_series(1, pg_relation_size('t_i') / 8192 - 1) b,
		steady_page_header('t_i', b) h WHERE h.level = 0 ORDER BY substring(h.low FROM '\d+')::int NULLS FIRST OFFSET 1 LIMIT 1};
	my @leaf = split /\|/, $on->can('query') ? $on->query($sql) : $on->safe_psql('postgres', $sql);
	return map { /(\d+)/ } @leaf;
}

# What is wrong with all steady indexes: by the verifier, and by comparison with a sequential scan.
sub faults
{
	my ($node) = @_;
	my ($status, $out, $err) = $node->psql('postgres', 'SELECT st.faults()');
	return grep { $_ ne '' } $out, $err;
}

# What a scenario says that went wrong. One that does not come to its end is the end of the test.
sub faults_of
{
	my ($scenario) = @_;
	my @faults = eval { $scenario->() };
	if ($@)
	{
		diag $@;
		die $@;  # its sessions would be in the way of the next one
	}
	return join "\n", @faults;
}

# One test: a race that goes well.
sub race
{
	my ($what, $scenario) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	subtest $what => sub { is(faults_of($scenario), '', 'goes well') };
}

# One test: a scenario, which returns what went wrong, goes well with all guards on and does not with this one off.
sub guarded
{
	my ($guard, $what, $scenario) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	subtest "$guard: $what" => sub {
		is(faults_of($scenario), '', 'goes well with all guards on');
		local $ENV{PGOPTIONS} = "-c steady.debug_guards_off=$guard";
		my $faults = faults_of($scenario);
		isnt($faults, '', "does not with $guard off");
		note $faults;
	};
}

1;

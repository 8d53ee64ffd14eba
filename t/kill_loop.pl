# Nothing that was acknowledged is lost, and nothing comes back, when servers are killed under load: a ledger that is kept
# outside of the database knows each statement that was acknowledged. In every other round commits are asynchronous: then
# the last ones of a session may be lost, but nothing from in between.
#
# STEADY_LONG=1: more than a hundred kills.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $seed = seed();
my $kills = is_long() ? 120 : 6;
my $sessions = 4;
my $keys = 400;  # so few that there are posting lists
my $most_rows = 1500;  # of a session

my $node = new_node('main', "restart_after_crash = on\nsynchronous_commit = on");
$node->start;
prepare($node);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE ledger (id bigint, k int, t text, n int);
CREATE UNIQUE INDEX ledger_id ON ledger USING steady (id);
CREATE INDEX ledger_k ON ledger USING steady (k) WITH (codec = tuple);
CREATE INDEX ledger_t ON ledger USING steady (t, k DESC) INCLUDE (n);
SQL

# ---- what a session does: statements, and what each does to the rows that the ledger knows, id => [k, n]

my %rows;
my @next_id = map { $_ } 1 .. $sessions;

sub text_of { return join '', 't', $_[0] % 97, '-' x ($_[0] % 50) }

sub make_statements
{
	my ($session, $count) = @_;
	my %own = map { $_ => $rows{$_} } grep { $_ % $sessions == $session % $sessions } keys %rows;
	my @ids = sort { $a <=> $b } keys %own;
	my @statements;
	for (1 .. $count)
	{
		my $kind = rand();
		my %change;
		my $sql;
		if (@ids < 50 || ($kind < 0.5 && @ids < $most_rows))
		{
			for (0 .. int(rand(6)))
			{
				my $id = $next_id[ $session - 1 ];
				$next_id[ $session - 1 ] += $sessions;
				$change{$id} = [ int(rand($keys)), 0 ];
				push @ids, $id;
			}
			$sql = 'INSERT INTO ledger VALUES '
			  . join(', ', map { "($_, $change{$_}[0], '" . text_of($change{$_}[0]) . "', 0)" } sort keys %change);
		}
		elsif ($kind < 0.75)
		{
			# The oldest, or any
			my $at = rand() < 0.5 ? 0 : int(rand(@ids - 10));
			my @gone = splice @ids, $at, 1 + int(rand(10));
			$change{$_} = undef for @gone;
			$sql = 'DELETE FROM ledger WHERE id IN (' . join(', ', @gone) . ')';
		}
		elsif ($kind < 0.9)
		{
			my $id = $ids[ rand @ids ];
			my $k = int(rand($keys));
			$change{$id} = [ $k, $own{$id}[1] + 1 ];
			$sql = "UPDATE ledger SET k = $k, t = '" . text_of($k) . "', n = n + 1 WHERE id = $id";
		}
		else
		{
			my $id = $ids[ rand @ids ];
			$change{$id} = [ $own{$id}[0], $own{$id}[1] + 1 ];
			$sql = "UPDATE ledger SET n = n + 1 WHERE id = $id";
		}
		$own{$_} = $change{$_} for keys %change;
		push @statements, [ $sql, \%change ];
	}
	return @statements;
}

# ---- running them

sub session_file { return $node->basedir . "/session_$_[0]" }

# Each statement is a transaction; when its number is in the ledger it was acknowledged.
sub write_script
{
	my ($name, $asynchronous, @statements) = @_;
	my $number = 0;
	my $text = "SET enable_seqscan = off;\nSET synchronous_commit = " . ($asynchronous ? 'off' : 'on') . ";\n";
	$text .= $_->[0] . ";\n\\echo " . ++$number . "\n" for @statements;
	unlink session_file($name) . '.sql', session_file($name) . '.ledger';
	append_to_file(session_file($name) . '.sql', $text);
}

sub acknowledged
{
	my ($name) = @_;
	my @lines = slurp_file(session_file($name) . '.ledger') =~ /^(\d+)\n/mg;
	return @lines ? $lines[-1] : 0;
}

sub same_row
{
	my ($x, $y) = @_;
	return defined $x ? defined $y && "@$x" eq "@$y" : !defined $y;
}

for my $kill (1 .. $kills)
{
	my $asynchronous = $kill % 2 == 0;
	my %statements;
	for my $session (1 .. $sessions)
	{
		$statements{$session} = [ make_statements($session, 3000) ];
		write_script($session, $asynchronous, @{ $statements{$session} });
	}
	my @reads = map { [ $_ ] } 'SELECT count(n) FROM ledger WHERE k < 100', 'VACUUM ledger', 'SELECT count(n) FROM ledger WHERE k >= 0',
	  "SELECT count(n) FROM ledger WHERE t > 't5'", 'SELECT count(*) FROM (SELECT id FROM ledger ORDER BY id LIMIT 20) i';
	write_script('reader', 0, ((@reads) x 20, ['CHECKPOINT']) x 100);

	my %psql = map { $_ => psql_start($node, session_file($_) . '.sql', session_file($_) . '.ledger') } 1 .. $sessions, 'reader';
	my $enough = 50 + int(rand(1500));
	wait_for("$enough statements", sub {
		my $sum = 0;
		$sum += acknowledged($_) for grep { -e session_file($_) . '.ledger' } 1 .. $sessions;
		return $sum >= $enough;
	});

	my $what = kill_server($node, $kill, values %psql);

	# What is there is what so many statements of each session left; the one after the last acknowledged one may have been
	# carried out, as a whole.
	my %there = map { my ($id, @row) = split /\|/; $id => \@row } split /\n/, $node->safe_psql('postgres',
		'SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SELECT id, k, n FROM ledger');
	my ($sum, $lost) = (0, 0);
	my @torn;
	for my $session (1 .. $sessions)
	{
		my $acknowledged = acknowledged($session);
		my %different = map { $_ => 1 } grep { $_ % $sessions == $session % $sessions && !same_row($there{$_}, $rows{$_}) }
		  keys %{ { %rows, %there } };
		my $done;
		for my $n (0 .. $acknowledged + 1)
		{
			$done = $n if !%different;
			my $next = $statements{$session}[$n] or last;
			same_row($there{$_}, $next->[1]{$_}) ? delete $different{$_} : ($different{$_} = 1) for keys %{ $next->[1] };
		}
		push @torn, $session unless defined $done && ($asynchronous || $done >= $acknowledged);
		$sum += $acknowledged;
		$lost += $acknowledged - $done if defined $done && $done < $acknowledged;
	}
	is(join(',', @torn), '', "$kill: $what after $sum acknowledged statements, "
		  . ($asynchronous ? "asynchronous, $lost lost" : 'synchronous') . ': a whole number was carried out');
	%rows = %there;

	my $file = $node->basedir . '/expected';
	unlink $file;
	append_to_file($file, join '', map { "$_\t$rows{$_}[0]\t$rows{$_}[1]\n" } sort { $a <=> $b } keys %rows);
	my $last = (sort { $b <=> $a } @next_id)[0];
	my $out = $node->safe_psql('postgres', <<"SQL");
CREATE TEMP TABLE expected (id bigint, k int, n int);
\\copy expected FROM '$file'
ANALYZE expected;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT 'lost ' || e.id FROM expected e LEFT JOIN ledger l ON l.id = e.id AND l.n = e.n AND l.k = e.k WHERE l.id IS NULL;
SELECT 'not by its key ' || e.id FROM expected e
	WHERE NOT EXISTS (SELECT FROM ledger l WHERE l.k = e.k AND l.id = e.id AND l.n = e.n);
SELECT 'back again ' || l.id FROM generate_series(1, $last) i JOIN ledger l ON l.id = i
	WHERE NOT EXISTS (SELECT FROM expected e WHERE e.id = l.id);
SELECT 'too many' FROM expected HAVING count(*) <> (SELECT count(id) FROM ledger WHERE k >= 0);
SQL
	is($out, '', "$kill: by the index there are these " . keys(%rows) . ' rows and no others');
	indexes_ok($node, $kill, 3);
}

$node->stop;
done_testing();

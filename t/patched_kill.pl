# Nothing that was acknowledged is lost, and nothing is there twice, when a server with all modules on is killed under load. A
# crash takes the leases with it; the pages that they were on are found again.
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

my $node = new_node('main', <<'CONF');
shared_preload_libraries = 'steady'
steady.fsm = on
restart_after_crash = on
synchronous_commit = on
shared_buffers = 16MB
CONF
$node->start;
need_fsm_hook($node);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE ledger (session int, n int, pad text);
ALTER TABLE ledger ALTER pad SET STORAGE PLAIN;
CREATE INDEX ledger_n ON ledger (session, n);
SQL

sub session_file { return $node->basedir . "/session_$_[0]" }

# Row after row, of all widths; every tenth statement changes rows, which moves them, and one takes the oldest away.
my %next = map { $_ => 1 } 1 .. $sessions;
sub write_script
{
	my ($session) = @_;
	my $text = '';
	for my $n ($next{$session} .. $next{$session} + 6000)
	{
		my $width = int(rand(10)) ? int(rand(300)) : int(rand(7000));
		$text .= "INSERT INTO ledger VALUES ($session, $n, repeat('p', $width));\n\\echo $n\n";
		$text .= "UPDATE ledger SET pad = repeat('u', length(pad) + 10) WHERE session = $session AND n BETWEEN $n - 30 AND $n - 10;\n" if $n % 10 == 0;
		$text .= "DELETE FROM ledger WHERE session = $session AND n < $n - 3000;\n" if $n % 500 == 0;
	}
	unlink session_file($session) . '.sql', session_file($session) . '.ledger';
	append_to_file(session_file($session) . '.sql', $text);
}

sub acknowledged
{
	my ($session) = @_;
	my @lines = -e session_file($session) . '.ledger' ? slurp_file(session_file($session) . '.ledger') =~ /^(\d+)\n/mg : ();
	return @lines ? $lines[-1] : $next{$session} - 1;
}

my $from_leases = 0;
for my $kill (1 .. $kills)
{
	write_script($_) for 1 .. $sessions;
	unlink session_file('vacuum') . '.sql';
	append_to_file(session_file('vacuum') . '.sql', "VACUUM ledger;\nCHECKPOINT;\n" x 1000);
	my @running = map { psql_start($node, session_file($_) . '.sql', session_file($_) . '.ledger') } 1 .. $sessions, 'vacuum';
	my $enough = 300 + int(rand(2500));
	wait_for("$enough rows", sub {
		my $sum = 0;
		$sum += acknowledged($_) - $next{$_} + 1 for 1 .. $sessions;
		return $sum >= $enough;
	});
	$from_leases += $node->safe_psql('postgres', 'SELECT lease FROM steady_fsm_stats');
	my $what = kill_server($node, $kill, @running);

	my @faults;
	for my $session (1 .. $sessions)
	{
		my ($count, $least, $most) = split /\|/, $node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off;
			SET enable_indexonlyscan = off; SELECT count(*), min(n), max(n) FROM ledger WHERE session = $session");
		my $told = acknowledged($session);
		push @faults, "$session: $count rows from $least to $most, $told acknowledged"
		  if $count != $most - $least + 1 || $most < $told || $most > $told + 1 || $least > ($told > 3000 ? $told - 2000 : 1);
		$next{$session} = $most + 1;
	}
	is(join(', ', @faults), '', "$kill: $what: every row that was acknowledged is there once");
	is($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
		SELECT count(pad) FROM ledger WHERE session > 0'), $node->safe_psql('postgres', 'SELECT count(*) FROM ledger'), '... and the index leads to it');
	is($node->safe_psql('postgres', 'SELECT runs FROM steady_fsm_stats'), '0', '... and leases are gone');
}
cmp_ok($from_leases, '>', 50 * $kills, "$from_leases pages were from leases");
$node->stop;
# A process that starts while its postmaster is killed may get the latch of one that just ended waiting; that is the server's.
is(join("\n", log_lines($node, qr/TRAP(?!.*maybe_sleeping)|could not read block/)), '', 'no complaints in the log');
done_testing();

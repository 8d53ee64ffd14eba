# Queues under an old horizon, on a server that is killed again and again, with synchronous and asynchronous commits. A
# ledger outside of the database knows each job that was put in or taken. None is lost or handed out twice, and no stamp
# is wrong: neither those from before a crash, which is followed by recovery to an earlier state, nor those after it. A
# snapshot from before the load sees all of its rows meanwhile.
#
# STEADY_LONG=1: two hundred kills.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $seed = seed();
my $kills = is_long() ? 200 : 4;
my $sessions = 4;
my $jobs = 400;
my $renew = is_long() ? 10 : 3;    # kills after which the horizon is let go

my $node = new_node('main', "restart_after_crash = on\nmax_prepared_transactions = 2");
$node->start;
prepare($node);

# One queue deletes what is taken, the other one gives it another state. What a session does counts its statements in the
# same transaction: so many of them were carried out.
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE worker (w int, n int);
CREATE TABLE other (i int);
CREATE TABLE job (id int, run_at timestamptz, pad text);
CREATE UNIQUE INDEX job_run_at ON job USING steady (run_at, id);
CREATE UNIQUE INDEX job_id ON job USING steady (id);
CREATE TABLE task (id int, state int, priority int, pad text);
CREATE INDEX task_ready ON task USING steady (id) WHERE state = 0;
CREATE INDEX task_queue ON task USING steady (state, priority, id);
CREATE FUNCTION put(w int, queue text, id int) RETURNS text LANGUAGE plpgsql AS \$\$
BEGIN
	IF queue = 'job' THEN
		INSERT INTO job VALUES (put.id, '2030-01-01'::timestamptz + put.id * interval '1 second', 'p');
	ELSE
		INSERT INTO task VALUES (put.id, 0, put.id / 1000, 'p');
	END IF;
	UPDATE worker SET n = n + 1 WHERE worker.w = put.w;
	RETURN 'put ' || queue || ' ' || id;
END \$\$;
CREATE FUNCTION take(w int, queue text) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE
	taken int;
BEGIN
	IF queue = 'job' THEN
		DELETE FROM job WHERE id = (SELECT j.id FROM job j ORDER BY run_at, j.id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id INTO taken;
	ELSIF random() < 0.5 THEN
		UPDATE task SET state = 1 WHERE id = (SELECT t.id FROM task t WHERE state = 0 ORDER BY t.id LIMIT 1 FOR UPDATE SKIP LOCKED)
			AND state = 0 RETURNING id INTO taken;
	ELSE
		UPDATE task SET state = 1 WHERE id = (SELECT t.id FROM task t WHERE state = 0 ORDER BY priority, t.id LIMIT 1 FOR UPDATE SKIP LOCKED)
			AND state = 0 RETURNING id INTO taken;
	END IF;
	UPDATE worker SET n = n + 1 WHERE worker.w = take.w;
	RETURN 'take ' || queue || ' ' || coalesce(taken, 0);
END \$\$;
INSERT INTO job SELECT i, '2030-01-01'::timestamptz + i * interval '1 second', 'p' FROM generate_series(1, $jobs) i;
INSERT INTO task SELECT i, 0, i / 1000, 'p' FROM generate_series(1, $jobs) i;
SQL

my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;';
my %open = map { $_ => { map { $_ => 1 } 1 .. $jobs } } 'job', 'task';    # what the ledger knows
my $next_id = $jobs;

sub hold
{
	$node->safe_psql('postgres', "BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION 'holder'");
}
hold();

my $look = "$by_index SELECT count(pad) FROM job WHERE id > 0; SELECT count(pad) FROM (SELECT pad FROM job ORDER BY run_at, id) o;"
  . 'SELECT count(pad) FROM task WHERE state = 0 AND id > 0; SELECT count(pad) FROM (SELECT pad FROM task ORDER BY state, priority, id) o;';

for my $kill (1 .. $kills)
{
	my $asynchronous = $kill % 2 == 0;
	$node->safe_psql('postgres', "TRUNCATE worker; INSERT INTO worker SELECT w, 0 FROM generate_series(1, $sessions) w");
	my (%puts, @running);
	for my $w (1 .. $sessions)
	{
		my $script = $by_index . "\nSET synchronous_commit = " . ($asynchronous ? 'off' : 'on') . ";\n";
		for (1 .. 5000)
		{
			my $queue = rand() < 0.5 ? 'job' : 'task';
			my $id = ++$next_id;
			push @{ $puts{$w} }, "put $queue $id";
			$script .= "SELECT take($w, '$queue');\nSELECT put($w, '$queue', $id);\n";
		}
		my $file = $node->basedir . "/worker_$w";
		unlink "$file.sql", "$file.ledger";
		append_to_file("$file.sql", $script);
	}
	# Before the load, and to see the same at its end
	my $old = $node->background_psql('postgres', on_error_stop => 0);
	$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	push @running, psql_start($node, $node->basedir . "/worker_$_.sql", $node->basedir . "/worker_$_.ledger") for 1 .. $sessions;

	my $enough = 100 + int(rand(is_long() ? 3000 : 1000));
	my $ledger = sub { my $file = $node->basedir . "/worker_$_[0].ledger"; return -e $file ? slurp_file($file) =~ /^(.+)\n/mg : () };
	wait_for("$enough statements", sub { my $sum = 0; $sum += () = $ledger->($_) for 1 .. $sessions; return $sum >= $enough });
	is($old->query('SELECT (SELECT count(*) FROM job) || $$ $$ || (SELECT count(*) FROM task WHERE state = 0)'),
		keys(%{ $open{job} }) . ' ' . keys(%{ $open{task} }), "$kill: an old snapshot has its rows");
	is($old->query('SELECT st.differences(i) FROM st.index i') // 'no answer', '', "$kill: ... by any scan");
	my $skipped = $node->safe_psql('postgres', q{SELECT skipped_entries + skipped_pages > 0 FROM steady_stats('job_run_at')});
	is($skipped, 't', "$kill: dead entries were skipped");

	my $what = kill_server($node, $kill, @running);
	$old->{run}->kill_kill;

	# So many statements of each session count. The one behind the last acknowledged one may be among them: then what it
	# took isn't known.
	my %done = map { split /\|/ } split /\n/, $node->safe_psql('postgres', 'SELECT w, n FROM worker');
	my (@wrong, %unknown);
	my ($sum, $lost) = (0, 0);
	my (@put, @taken);
	for my $w (1 .. $sessions)
	{
		my @acknowledged = $ledger->($w);
		$sum += @acknowledged;
		my $done = $done{$w} // -1;
		push @wrong, "$done of " . @acknowledged . " statements of session $w" if $done > @acknowledged + 1 || $done < ($asynchronous ? 0 : @acknowledged);
		$lost += @acknowledged - $done if $done < @acknowledged;
		for my $n (0 .. $done - 1)
		{
			my $event = $acknowledged[$n] // ($n % 2 == 1 ? $puts{$w}[ ($n - 1) / 2 ] : 'take ' . ($puts{$w}[ $n / 2 ] =~ /put (\w+)/)[0] . ' unknown');
			my ($verb, $queue, $id) = split / /, $event;
			if ($verb eq 'put') { push @put, [ $queue, $id ] }
			elsif ($id eq 'unknown') { $unknown{$queue}++ }
			elsif ($id) { push @taken, [ $queue, $id ] }
		}
	}
	$open{ $_->[0] }{ $_->[1] }++ for @put;
	$open{ $_->[0] }{ $_->[1] }-- for @taken;
	for my $queue ('job', 'task')
	{
		my $open = $open{$queue};
		push @wrong, map { "$queue $_ was taken twice" } grep { $open->{$_} < 0 } keys %$open;
		my $all = 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SELECT id FROM ' . $queue
		  . ($queue eq 'task' ? ' WHERE state = 0' : '');
		my %there = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', $all);
		push @wrong, map { "$queue $_ is back again" } grep { !$open->{$_} } keys %there;
		my @missing = grep { $open->{$_} > 0 && !$there{$_} } keys %$open;
		push @wrong, map { "$queue $_ is lost" } @missing if @missing > ($unknown{$queue} // 0);
		$open{$queue} = \%there;
	}
	is(join(', ', @wrong), '', "$kill: $what after $sum acknowledged statements, "
		  . ($asynchronous ? "asynchronous, $lost lost" : 'synchronous') . ': nothing is lost, nothing was taken twice');
	indexes_ok($node, "$kill: after recovery", 4);
	my @rows = split /\n/, $node->safe_psql('postgres', $look x 2);
	is(join(' ', @rows[ -4 .. -2 ]), join(' ', (scalar keys %{ $open{job} }) x 2, scalar keys %{ $open{task} }), "$kill: scans find the rows of the ledger");
	indexes_ok($node, "$kill: stamped", 4);

	if ($kill % $renew == 0)
	{
		$node->safe_psql('postgres', "ROLLBACK PREPARED 'holder'; DELETE FROM task WHERE state = 1");
		$node->safe_psql('postgres', $kill % (2 * $renew) == 0 ? 'VACUUM job, task' : $look x 20);
		indexes_ok($node, "$kill: the horizon let go", 4);
		hold();
	}
}
# (A process that starts while its postmaster is killed may get the latch of one that just ended waiting: the server's
# own assertion fails then.)
is(join("\n", log_lines($node, qr/TRAP:(?!.*maybe_sleeping)|is damaged/)), '', 'no complaints in the log');
$node->stop;
done_testing();

# What a stock server says when it is asked for a module that needs hooks: the settings are there, the message is clear, and
# the server starts and does what it always did. And a server with patches that the library does not know is refused by name.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $no_hook = qr/this server has no hook for the free space map/;
my $no_buffer_hook = qr/this server has no hook for buffer replacement/;
my $hint = qr/Build the server with the patches in contrib_patches, and the library against it\./;

my $node = new_node('stock', "shared_preload_libraries = 'steady'\nsteady.fsm = on\nsteady.buffer_policy = clock");
$node->start;
my @warnings = log_lines($node, $no_hook);
is(scalar(@warnings), 1, 'a module is asked for in the configuration: the server starts, and says once that it has no hook');
like($warnings[0], qr/WARNING/, '... which is a warning');
like(slurp_file($node->logfile), $hint, '... with the way to a server that has it');
is($node->safe_psql('postgres', 'SHOW steady.fsm'), 'off', 'the setting is there, and off');
is($node->safe_psql('postgres', 'SHOW steady.buffer_policy'), 'off', 'so is the one for buffer replacement');
is(scalar(log_lines($node, $no_buffer_hook)), 1, '... which has a warning of its own');
is($node->safe_psql('postgres', 'SHOW steady.fsm_reopen'), '25', 'so are those that go with the free space map');

$node->safe_psql('postgres', 'CREATE EXTENSION steady; CREATE TABLE t AS SELECT i FROM generate_series(1, 10000) i; CREATE INDEX ON t USING steady (i)');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM t WHERE i > 5000'), '5000', 'indexes work');

my ($status, $out, $err) = $node->psql('postgres', 'ALTER SYSTEM SET steady.fsm = on');
isnt($status, 0, 'a module that is asked for later');
like($err, $no_hook, '... has no hook either');
like($err, $hint, '... and the same hint');
($status, $out, $err) = $node->psql('postgres', 'SELECT * FROM steady_fsm_stats', extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/ERROR:  0A000: $no_hook/, 'nor has its view');
($status, $out, $err) = $node->psql('postgres', 'SELECT * FROM steady_fsm_leases');
like($err, $no_hook, '... or the other one');
($status, $out, $err) = $node->psql('postgres', q{ALTER SYSTEM SET steady.buffer_trace = 'accesses'});
like($err, $no_buffer_hook, 'nor can accesses of buffers be recorded');
($status, $out, $err) = $node->psql('postgres', 'SELECT * FROM steady_buffer_stats', extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/ERROR:  0A000: $no_buffer_hook/, '... or shown');

# Any user may ask for another method of indexes, and is told.
my $no_index_hook = qr/ERROR:  0A000: this server has no hook for the access methods of indexes/;
($status, $out, $err) = $node->psql('postgres', q{SET steady.replace_btree = on}, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, $no_index_hook, 'indexes stay what they are');
like($err, $hint, '... with the hint');
($status, $out, $err) = $node->psql('postgres', 'CREATE INDEX ON t USING steady (i) WITH (access_method = steady)');
like($err, qr/unrecognized parameter "access_method"/, 'the storage parameter is of a patched server');

# Without preloading, it is each session that loads the library.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
my $offset = -s $node->logfile;
$node->restart;
($status, $out, $err) = $node->psql('postgres', q{LOAD 'steady'; SHOW steady.fsm});
is($out, 'off', 'not preloaded: off, too');
like($err, qr/WARNING:  $no_hook/, '... with a warning');
$node->stop;

# A server of another release has a number that this library doesn't know.
SKIP:
{
	my $folder = $node->basedir;
	append_to_file("$folder/number.c", "extern const int SteadyPatchSet;\nconst int SteadyPatchSet = 99;\n");
	skip 'no compiler', 3 if system_log('cc', '-shared', '-fPIC', '-o', "$folder/number.so", "$folder/number.c") != 0;
	my $refused = qr/this server was built with patch set 99, which this library does not know/;
	local $ENV{LD_PRELOAD} = "$folder/number.so";
	$node->start;
	($status, $out, $err) = $node->psql('postgres', 'SELECT count(*) FROM t WHERE i = 1; SET enable_seqscan = off; SELECT i FROM t WHERE i = 1');
	like($err, $refused, 'another patch set: indexes are refused by name');
	is($node->safe_psql('postgres', 'SELECT 1'), '1', '... and the rest goes on');
	$node->stop;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'steady'");
	$offset = -s $node->logfile;
	ok(!$node->start(fail_ok => 1) && log_lines($node, qr/FATAL.*$refused/, $offset), 'preloaded, the server does not start');
}
done_testing();

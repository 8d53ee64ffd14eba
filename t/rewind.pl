# A primary that was left behind by a promotion is rewound: its indexes are the new primary's again, to the byte, whatever
# they had become.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Steady::Test;

my $seed = seed();
my $old = new_node('old', "wal_log_hints = on\nwal_keep_size = 1GB", allows_streaming => 1);
$old->start;
prepare($old);
$old->safe_psql('postgres', $_->[1]) for @changes[ 0 .. 7 ];
load_setup($old);
my $new = start_standby($old, 'new');
replayed($old, $new);
$new->promote;

# Both go on, each in its own way: the old one splits, removes and unlinks, leaves stamps behind, and crashes.
# (The changes come before the load: some assert what only a horizon that nobody holds allows.)
$old->safe_psql('postgres', $_->[1]) for @changes[ 8 .. 13 ];
my $load = load_start($old, $seed, 3);
load_until($old, 'SELECT last_value > 4500 FROM load_id');
load_stop($old, $load);
$old->safe_psql('postgres', 'DELETE FROM load WHERE id % 3 = 0; SET enable_seqscan = off; SET enable_bitmapscan = off;
	SELECT count(n) FROM load WHERE k >= 0; SELECT count(n) FROM load WHERE few >= 0; CHECKPOINT');
indexes_ok($old, 'the old primary', 8);
$old->stop('immediate');

$new->safe_psql('postgres', $_->[1]) for @changes[ 10, 11 ];
$load = load_start($new, $seed + 1, 3);
load_until($new, 'SELECT last_value > 4500 FROM load_id');
load_stop($new, $load);
$new->safe_psql('postgres', 'CHECKPOINT');

# pg_rewind brings the other server's configuration along.
my $conf = $old->data_dir . '/postgresql.conf';
copy($conf, $old->basedir . '/postgresql.conf') or die $!;
command_ok([ 'pg_rewind', '--no-sync', '--target-pgdata', $old->data_dir, '--source-server', $new->connstr('postgres') ], 'pg_rewind');
copy($old->basedir . '/postgresql.conf', $conf) or die $!;
$old->enable_streaming($new);
$old->set_standby_mode;
$old->start;
replayed($new, $old);
pages_equal($new, $old, 'rewound');
indexes_ok($old, 'rewound', 8);

# As a primary once more
$new->stop;
$old->promote;
my $from = $old->safe_psql('postgres', "SELECT nextval('load_id')");
$load = load_start($old, $seed + 2, 3);
load_until($old, "SELECT last_value > $from + 1000 FROM load_id");
load_stop($old, $load);
indexes_ok($old, 'rewound, promoted and written to', 8);
$old->stop;
done_testing();

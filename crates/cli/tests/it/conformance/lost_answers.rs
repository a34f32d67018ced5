//! Faults of the gate's answers to a CLI that starts no gate program, but asks its supervisor: on its
//! standard streams, or at the address of its model.
//!
//! There is no program that could be removed, and no process in the sandbox can access the streams. So the
//! test puts a proxy with the CLI's name between the CLI and its supervisor. It forwards every line or
//! request until the test tells it to break the answers.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use bailiwick_testkit::clis::Cli;

use super::agent::Agent;
use super::stage::Stage;

/// How an answer is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The connection for answers is closed.
    Closed,
    /// The answer is JSON without a valid decision.
    Garbage,
    /// There is no answer.
    Missing,
}

impl Fault {
    fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Garbage => "garbage",
            Self::Missing => "missing",
        }
    }
}

/// Forwards lines between its own streams and those of the CLI. Breaks answers once `/tmp/break` contains a
/// fault, and logs each.
const STREAM_PROXY: &str = r#"#!/bin/sh
case "$*" in *--version* | *--help*) exec REAL "$@" ;; esac
exec perl -MIPC::Open2 -e '
use strict;
$SIG{PIPE} = "IGNORE";
my $cli = open2(my $from, my $to, @ARGV);
select((select($to), $| = 1)[0]);
$| = 1;
my ($asked, $broken) = ("", 0);
my %buffers = (own => "", cli => "");
sub answer {
    my ($line) = @_;
    my $how = "";
    if (open(my $file, "<", "/tmp/break")) { $how = <$file> // ""; }
    if ($line !~ /"control_response"/ || $how eq "") { print $to $line; return; }
    open(my $log, ">>", "/tmp/broken"); print $log "$how\n"; close($log);
    close($to) if $how eq "closed";
    return if $how ne "garbage";
    my ($id) = $line =~ /"request_id":"([^"]*)"/;
    print $to "{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"$id\",\"response\":{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"perhaps\"}}}}\n";
}
my $open = 1;
while (1) {
    my $ready = "";
    vec($ready, fileno(STDIN), 1) = 1 if $open;
    vec($ready, fileno($from), 1) = 1;
    select($ready, undef, undef, undef);
    if ($open && vec($ready, fileno(STDIN), 1)) {
        if (sysread(STDIN, $buffers{own}, 65536, length($buffers{own}))) {
            answer($1) while $buffers{own} =~ s/^(.*?\n)//;
        } else { $open = 0; close($to); }
    }
    if (vec($ready, fileno($from), 1)) {
        sysread($from, my $piece, 65536) or last;
        print $piece;
    }
}
waitpid($cli, 0);
exit($? >> 8);
' REAL "$@"
"#;

/// The same for a CLI that asks over HTTP: it gets the address of this proxy as that of its gate, and every
/// request is forwarded to the real one.
const HTTP_PROXY: &str = r#"#!/bin/sh
case "$*" in *--version* | *--help*) exec REAL "$@" ;; esac
rm -f /tmp/port
perl -MIO::Socket::INET -e '
use strict;
$SIG{CHLD} = $SIG{PIPE} = "IGNORE";
my $listen = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 16) or die;
open(my $file, ">", "/tmp/port.new"); print $file $listen->sockport; close($file);
rename("/tmp/port.new", "/tmp/port");
sub message {
    my ($from) = @_;
    my ($head, $body) = ("", "");
    while ($head !~ /\r\n\r\n/) { sysread($from, $head, 1, length($head)) or return; }
    my ($length) = $head =~ /content-length: *(\d+)/i;
    while (length($body) < ($length // 0)) { sysread($from, $body, $length - length($body), length($body)) or return; }
    return ($head, $body);
}
while (my $client = $listen->accept) {
    next if fork;
    my $door = IO::Socket::INET->new("127.0.0.1:$ARGV[0]") or die;
    while (my ($head, $body) = message($client)) {
        my $how = "";
        if (open(my $told, "<", "/tmp/break")) { $how = <$told> // ""; }
        if ($how ne "" && $body =~ /"tools\/call"/) {
            open(my $log, ">>", "/tmp/broken"); print $log "$how\n"; close($log);
            exit if $how eq "closed";
            sleep(100000) if $how eq "missing";
            my ($id) = $body =~ /"id":(\d+)/;
            my $said = "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"perhaps\"}]}}";
            syswrite($client, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: " . length($said) . "\r\n\r\n$said");
            next;
        }
        syswrite($door, "$head$body");
        my ($told, $more) = message($door) or exit;
        syswrite($client, "$told$more");
    }
    exit;
}
' "$(sed -n 's|^base_url = "http://127.0.0.1:\([0-9]*\)/.*|\1|p' "$CODEX_HOME/config.toml")" </dev/null >/dev/null 2>&1 &
until [ -s /tmp/port ]; do sleep 0.05; done
exec REAL "$@" -c "mcp_servers.bailiwick_gate.url=\"http://127.0.0.1:$(cat /tmp/port)/bailiwick/gate\""
"#;

/// Whether a CLI asks its supervisor without a gate program, so that only answers can break.
pub(super) fn uses_answers_only(cli: Cli) -> bool {
    match cli {
        Cli::Claude | Cli::Codex => true,
        Cli::Gemini | Cli::OpenCode => false,
    }
}

/// A directory with a proxy that has the CLI's name.
pub(super) fn wrap_cli(stage: &Stage, id: &str) -> PathBuf {
    let real = stage.programs().join(stage.cli.name());
    let text = if stage.cli == Cli::Codex { HTTP_PROXY } else { STREAM_PROXY };
    let directory = stage.scratch.place().canonicalize().unwrap().join(format!("between-{id}"));
    std::fs::create_dir(&directory).unwrap();
    let file = directory.join(stage.cli.name());
    std::fs::write(&file, text.replace("REAL", &real.display().to_string())).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// From now on, answers have this fault.
pub(super) fn start_fault(agent: &Agent<'_>, fault: Fault) {
    std::fs::write(agent.directory().join("temp/break"), fault.word()).unwrap();
}

/// Asserts that exactly one answer was broken.
pub(super) fn expect_one_fault(agent: &Agent<'_>, fault: Fault) {
    let log = std::fs::read_to_string(agent.directory().join("temp/broken"));
    assert_eq!(log.unwrap_or_default(), format!("{}\n", fault.word()));
}

//! The answers of the gate break on their way to a CLI that asks on its own standard streams.
//!
//! There is no program that could be removed, and nobody inside can touch the streams. So something of
//! ours stands between the CLI and its supervisor, a program of the CLI's name: it carries every line,
//! until it is told to break what is answered.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::agent::Agent;
use super::stage::Stage;

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// Nobody can answer any more.
    Closed,
    /// It is JSON, and says nothing.
    Garbage,
    /// It does not come.
    Missing,
}

impl Broken {
    fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Garbage => "garbage",
            Self::Missing => "missing",
        }
    }
}

/// Carries lines between its own streams and those of the CLI; breaks answers once `/tmp/break` says
/// how, and keeps count of them.
const BETWEEN: &str = r#"#!/bin/sh
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

/// A directory with a program of the CLI's name that stands between.
pub(super) fn between(stage: &Stage, id: &str) -> PathBuf {
    let real = stage.programs().join(stage.cli.name());
    let directory = stage.scratch.place().canonicalize().unwrap().join(format!("between-{id}"));
    std::fs::create_dir(&directory).unwrap();
    let file = directory.join(stage.cli.name());
    std::fs::write(&file, BETWEEN.replace("REAL", &real.display().to_string())).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// From now on, answers are broken like this.
pub(super) fn now(agent: &Agent<'_>, how: Broken) {
    std::fs::write(agent.directory().join("temp/break"), how.word()).unwrap();
}

/// That an answer was broken, and only one.
pub(super) fn once(agent: &Agent<'_>, how: Broken) {
    let broken = std::fs::read_to_string(agent.directory().join("temp/broken"));
    assert_eq!(broken.unwrap_or_default(), format!("{}\n", how.word()));
}

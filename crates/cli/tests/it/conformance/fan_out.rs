//! Many agents at once against the budget of the one that starts them: real programs, one purse.

use std::os::unix::fs::PermissionsExt as _;

use bailiwick_testkit::Depth;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::figure;
use bailiwick_testkit::scripted_model::{
    Call, INPUT_TOKENS, OUTPUT_TOKENS, Script, ScriptedModel, Turn,
};
use serde_json::Value;

use super::stage::Stage;

const SPENDER: &str =
    "---\ndescription: Spends.\ncli: codex\nmodel: gpt-5.5\n---\nYou spend what you have.\n";
/// A program of the repository that asks the supervisor for many agents in one breath, waits for all of
/// them, and begins again, until it gets none.
const CROWD: &str = r#"#!/usr/bin/perl
use IO::Socket::UNIX;
sub ask {
    my $s = IO::Socket::UNIX->new(Peer => "/run/bailiwick/gate/delegate.sock") or die "no socket: $!";
    print $s $_[0] . "\n";
    $s->flush();
    return $s;
}
my ($many, $tokens) = @ARGV;
my $spawn = '{"tool":"spawn_agent","arguments":{"message":"LEAF-WORK","agent_type":"spender","estimated_tokens":'
    . $tokens . '}}';
for (1..20) {
    my @asked = map { ask($spawn) } 1..$many;
    my @ids;
    for my $s (@asked) {
        my $answer = <$s>;
        if ($answer =~ /"agent_id":"([^"]+)"/) { push @ids, $1 } else { print "REFUSED $answer" }
    }
    print "STARTED ", scalar(@ids), "\n";
    last unless @ids;
    for my $id (@ids) {
        for (1..5) {
            my $w = ask("{\"tool\":\"wait\",\"arguments\":{\"ids\":[\"$id\"],\"timeout_ms\":600000}}");
            last if <$w> =~ /"timed_out":false/;
        }
    }
}
"#;

const ANSWER: u64 = INPUT_TOKENS + OUTPUT_TOKENS;

/// What a tree uses is at most what its first agent was given, and one call in flight for each agent.
#[test]
fn many_agents_at_once_keep_to_one_budget() {
    let many: u64 = match Depth::from_env() {
        Depth::Ci => 8,
        Depth::Full => 64,
    };
    let stage = Stage::new(Cli::Codex);
    stage.scratch.write(".bailiwick/agents/spender.md", SPENDER);
    let settings = format!("[run]\napproval-seconds = 1\n[delegation]\nmost-at-once = {many}\n");
    stage.scratch.write(".bailiwick/settings.toml", &settings);
    stage.scratch.write("src/crowd", CROWD);
    let crowd = stage.scratch.root().join("src/crowd");
    std::fs::set_permissions(crowd, std::fs::Permissions::from_mode(0o755)).unwrap();
    stage.scratch.commit("Spenders");
    // Each has for a little more than two answers, takes a third, and goes as far beyond as one can.
    let own = 2 * ANSWER + 1;
    let budget = (many + 1) * own;
    let task = format!(
        "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[agent]\ncli = \
         \"script\"\nallowed-subagents = [\"spender\"]\n[[agent.script]]\ndo = \"shell\"\ncommand = \
         \"./src/crowd {many} {own} > src/crowd.txt 2>&1; true\"\n[budget]\ntokens = {budget}\n\
         [body]\ntext = \"x\"\n"
    );
    let file = stage.scratch.place().join("crowd.toml");
    std::fs::write(&file, task).unwrap();
    let turns = (0..9).map(|n| Turn::Calls(vec![Call::shell(format!("echo {n}"))]));
    let script = Script::new(vec![Turn::say("no")]).when("LEAF-WORK", turns.collect());
    let model = ScriptedModel::start(script);
    let mut command = stage.command(Some(&model), None);
    let ran = command.arg("run").arg(&file).args(["--agent-id", "crowd"]).output().unwrap();
    let said = stage.agent("crowd").text("src/crowd.txt").unwrap_or_default();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let started: Vec<u64> =
        said.lines().filter_map(|line| line.strip_prefix("STARTED ")?.parse().ok()).collect();
    // Many had been started when the first had ended, and in the end there was nothing to start one with.
    assert!(started[0] >= many.min(16), "{said}");
    assert_eq!(started.last(), Some(&0), "{said}");
    assert!(said.contains("REFUSED "), "{said}");
    let told = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]).expect_code(0);
    let nodes: Vec<Value> = serde_json::from_str(&told.out).unwrap();
    let agents = started.iter().sum::<u64>();
    assert_eq!(u64::try_from(nodes.len()).unwrap(), agents + 1, "{said}{}", told.out);
    let tokens = |node: &Value, of: &str| node[of]["tokens"].as_u64().unwrap_or_default();
    for node in nodes.iter().filter(|node| node["parent"] == "crowd") {
        assert_eq!(tokens(node, "budget"), own, "{node:#}");
        assert!(tokens(node, "used") <= own + ANSWER, "{node:#}");
    }
    let used: u64 = nodes.iter().map(|node| tokens(node, "used")).sum();
    let answers =
        model.requests().iter().filter(|one| one.status == 200 && one.method == "POST").count();
    assert_eq!(used, u64::try_from(answers).unwrap() * ANSWER, "all that was answered is counted");
    assert!(used <= budget + agents * ANSWER, "{used} of {budget} by {agents}: {said}");
    // They have tried: without a budget each would have taken nine.
    assert!(used > budget / 2 && used < agents * 9 * ANSWER, "{used} of {budget}: {said}");
    figure(&format!("{many} at once, {agents} in all: {used} tokens of {budget}"));
}

//! The texts of the starting kit.

pub(super) const README: &str = "\
# What agents may do here

Bailiwick reads this directory. It is yours: edit it, commit it, review it like code.

- `roles/`: what an agent is, as an ordered set of capabilities. `bailiwick roles list`
- `capabilities/`: limits and duties of your own. `bailiwick capabilities list`
- `tasks/`: what one agent is to do. `example.toml` is a start; `agents/` has one for each of the
  five agents that the kit ships.

A file here goes before one of the same name in your user kit and in the embedded kit.

    bailiwick lint                                  # is everything here right?
    bailiwick prepare .bailiwick/tasks/example.toml # what would the agent be told?
    bailiwick run .bailiwick/tasks/example.toml     # have an agent do it

`spawn` reads this directory from the commit that the agent starts from, never from a working copy
that an agent could write: commit a change here before you rely on it.
";

pub(super) const ROLE: &str = "\
# A role of this repository. It has everything that the embedded role `developer` has
# (see it with `bailiwick roles show developer`) and what is added below.

[role]
name = \"contributor\"                     # the stem of this file
display-name = \"contributor\"
description = \"Works on this repository inside a whitelist; its work lands only when the checks pass.\"
claude-subagent-type = \"general-purpose\" # what Claude Code's Agent tool is given
isolation = \"worktree\"

[capabilities]
extends = \"developer\"                    # its capabilities come first
required = [\"policy::no-publish\"]        # then these, in this order
relaxes = []                              # and these are dropped again

# [tools] and [escalation] are taken from `developer` unless you write them here:
#
# [tools]
# allowed = [\"Read\", \"Write\", \"Edit\", \"Glob\", \"Grep\", \"Bash\"]
# bash-patterns-allowed = []              # empty: any command that no limit forbids
#
# [escalation]
# policy = \"ask-via-return\"               # or orchestrator-notify, fail-fast
";

pub(super) const CAPABILITY: &str = "\
# A capability of this repository: a limit or a duty that the agent is told (text.md), stopped by
# (the gate) and checked for (the check). This one needs no code: [restricts] is its gate.

[capability]
name = \"policy::no-publish\"              # <category>::<slug>, as the directories say
category = \"policy\"                      # or scope, quality, safety, output, tools, verify
version = \"1.0\"
description = \"The agent publishes nothing; releases are made by people.\"
rationale = \"A published version cannot be taken back.\"

[restricts]
# a command that one of these matches is forbidden
tool-patterns = [
@PATTERNS@]
tools-denied = []                         # tools that are forbidden altogether

[parameterized]
accepts = []                              # what a task may set for it, under [parameters]

[text]
path = \"text.md\"

[gate]
event = \"PreToolUse:Bash\"
severity = \"block\"                       # or warn, advisory

# A check of your own is a command that must exit 0 on the tree that would land:
#
# [verify]
# command = \"scripts/no-version-change\"
# run-mode = \"both\"                       # worktree, simulated-merge or both
# when = \"on-return\"
";

pub(super) const TEXT: &str = "\
## Nothing is published

You MUST NOT publish a package, an image or a release, and you MUST NOT change who owns one,
because a published version cannot be taken back.

If your task seems to need a release, prepare everything up to it and say in your return which
command a person should run.
";

/// `@…@` is filled in by `render`.
pub(super) const TASK: &str = "\
# An example task, made for @STACKS@. Edit it, then:
#   bailiwick lint
#   bailiwick prepare .bailiwick/tasks/example.toml
#   git add .bailiwick && git commit -m 'Say what agents may do here'
#   bailiwick run .bailiwick/tasks/example.toml

[task]
role = \"contributor\"          # bailiwick roles list
# agent-id = \"fix-typo-1\"     # made for you when left out

[scope]
# Globs with the meaning they have in .gitignore, from the root of the repository.
files-whitelist = [           # what the agent may write; nothing else
@WHITELIST@]
files-denylist = [            # never these, though the whitelist has them
  \".github/**\",
]

[workspace]
# Commands that make a fresh worktree ready, before the agent starts and before checks run.
@SETUP@
# copy = [\".env.example\"]     # files that git does not track

[verification]
# Each must exit 0 in the worktree, and again on the trial merge before anything lands.
@COMMANDS@
max-deleted-files = 5

[output]
report-fields-required = [\"files-touched\", \"commands\"]

# [agent]                     # which program does it
# cli = \"claude-code\"         # or codex, gemini, opencode
# model = \"sonnet\"

# [budget]                    # what it may spend
# tokens = 2_000_000
# minutes = 30
# usd = 2.00                  # needs the model's price: [prices] in .bailiwick/settings.toml

[body]
text = \"\"\"
@BODY@
\"\"\"
";

pub(super) const NO_COMMANDS: &str = "\
# No test command was found in this repository. Write what checks it, for example:
#   commands = [\"scripts/test\"]
commands = []";

pub(super) const CODE_BODY: &str = "\
Choose one function in the files that you may change whose documentation is missing or unclear. Write
it: what the function does, when it fails, and one short example. Change nothing else, and no
behaviour.";

pub(super) const PROSE_BODY: &str = "\
Choose one paragraph in the files that you may change that is hard to understand. Rewrite it in plain
words and keep its meaning. Change nothing else.";

pub(super) const EMPTY_BODY: &str = "\
Write README.md: a title, one sentence that says what this project will be, and a section
\"Development\" that is still empty.";

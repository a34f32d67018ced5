//! Which calls of `gh` change a repository.

/// Nouns of `gh` with the verbs that change something there.
const CHANGING: [(&str, &[&str]); 15] = [
    (
        "pr",
        &[
            "create",
            "new",
            "merge",
            "close",
            "reopen",
            "edit",
            "ready",
            "review",
            "comment",
            "checkout",
            "co",
            "lock",
            "unlock",
            "revert",
            "update-branch",
        ],
    ),
    (
        "issue",
        &[
            "create", "new", "close", "reopen", "edit", "comment", "delete", "transfer", "lock",
            "unlock", "pin", "unpin", "develop",
        ],
    ),
    (
        "repo",
        &[
            "create",
            "delete",
            "edit",
            "fork",
            "rename",
            "sync",
            "archive",
            "unarchive",
            "clone",
            "set-default",
            "deploy-key",
            "autolink",
        ],
    ),
    ("release", &["create", "delete", "delete-asset", "edit", "upload"]),
    ("workflow", &["run", "enable", "disable"]),
    ("run", &["rerun", "cancel", "delete"]),
    ("secret", &["set", "delete", "remove"]),
    ("variable", &["set", "delete", "remove"]),
    ("label", &["create", "edit", "delete", "clone"]),
    ("cache", &["delete"]),
    ("gist", &["create", "edit", "delete", "rename", "clone"]),
    ("ssh-key", &["add", "delete"]),
    ("gpg-key", &["add", "delete"]),
    ("project", &["create", "edit", "delete", "close", "copy", "link", "unlink"]),
    ("auth", &["login", "logout", "refresh", "setup-git", "switch", "token"]),
];

/// The words that are no options, and not the value of `-R`.
fn plain(argv: &[String]) -> Vec<&str> {
    let mut plain = Vec::new();
    let mut rest = argv.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-R" | "--repo" | "--hostname" => {
                rest.next();
            }
            option if option.starts_with('-') => {}
            word => plain.push(word),
        }
    }
    plain
}

/// Whether a call changes a repository, or hands out the keys to it.
pub(super) fn changes_a_repository(argv: &[String]) -> bool {
    let plain = plain(argv);
    let (Some(noun), Some(verb)) = (plain.first(), plain.get(1)) else { return false };
    if *noun == "api" {
        let sends = ["-f", "-F", "--field", "--raw-field", "--input"];
        let field = |word: &String| {
            sends.iter().any(|send| word == send || word.starts_with(&format!("{send}=")))
        };
        return argv.iter().any(field) || is_other_method(argv);
    }
    CHANGING.iter().any(|(changing, verbs)| changing == noun && verbs.contains(verb))
}

fn is_other_method(argv: &[String]) -> bool {
    let text = argv.join(" ").to_uppercase();
    ["POST", "PUT", "PATCH", "DELETE"].iter().any(|method| {
        [" -X ", " -X", " --METHOD ", " --METHOD="]
            .iter()
            .any(|option| text.contains(&format!("{option}{method}")))
    })
}

/// The same, `gh repo` with any verb, or `gh api` with a path of repositories.
pub(super) fn touches_a_repository(argv: &[String]) -> bool {
    let plain = plain(argv);
    let noun = plain.first().copied();
    noun == Some("repo")
        || (noun == Some("api") && plain.iter().skip(1).any(|word| word.contains("repos")))
        || changes_a_repository(argv)
}

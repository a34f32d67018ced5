//! The commits that a push would include: what each says, who wrote it, and what it changes. An agent can write all of
//! that, and a diff of the ends shows none of it.

use bailiwick_resources::PatchCommit;
use bailiwick_source_control::git::Git;

use crate::failure::Failure;

/// The maximum size of all messages, and of all names of files.
const MAX_BYTES: usize = 1024 * 1024;

/// The fields of a commit in the output of `git log`.
const FIELDS: usize = 4;

/// The commits between two, the oldest first; none if they are too long to be listed.
pub(crate) fn commits(git: &Git, begun: &str, commit: &str) -> Result<Vec<PatchCommit>, Failure> {
    let range = format!("{begun}..{commit}");
    let options = ["log", "--reverse", "--topo-order", "--no-show-signature", "--no-notes", "-z"];
    let format = "--format=format:%H%x00%an <%ae>%x00%cn <%ce>%x00%B";
    let said = [&options[..], &["--no-patch", format, &range]].concat();
    let Some(said) = git.run_limited(&said, MAX_BYTES)? else { return Ok(Vec::new()) };
    // Of a merge, only what none of its parents has.
    let names = ["--name-only", "--no-renames", "-c", "--format=format:%H%x00", &range];
    let names = [&options[..], &names].concat();
    let Some(names) = git.run_limited(&names, MAX_BYTES)? else { return Ok(Vec::new()) };
    let said = String::from_utf8_lossy(&said);
    if said.is_empty() {
        return Ok(Vec::new());
    }
    let fields: Vec<&str> = said.split('\0').collect();
    let mut commits = Vec::new();
    for one in fields.chunks(FIELDS) {
        let [sha, author, committer, message] = one else { return Err(unexpected()) };
        commits.push(PatchCommit {
            sha: (*sha).to_owned(),
            author: (*author).to_owned(),
            committer: (committer != author).then(|| (*committer).to_owned()),
            message: message.trim_end().to_owned(),
            files: Vec::new(),
        });
    }
    add_files(&mut commits, &String::from_utf8_lossy(&names))?;
    Ok(commits)
}

/// Reads the names of files: each commit, its files, and an empty name.
fn add_files(commits: &mut [PatchCommit], names: &str) -> Result<(), Failure> {
    let mut names = names.split('\0');
    for commit in commits {
        if names.next() != Some(commit.sha.as_str()) {
            return Err(unexpected());
        }
        for name in names.by_ref().take_while(|name| !name.is_empty()) {
            // A line break ends what comes before the first name.
            let is_first = commit.files.is_empty();
            let name = if is_first { name.strip_prefix('\n').unwrap_or(name) } else { name };
            commit.files.push(name.to_owned());
        }
    }
    Ok(())
}

fn unexpected() -> Failure {
    Failure::general("git printed an unexpected list of commits")
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::Scratch;

    use super::*;

    #[test]
    fn each_commit_is_listed_with_what_it_says_and_changes() {
        let scratch = Scratch::repository();
        scratch.write("a", "1");
        let base = scratch.commit("base");
        scratch.write("a", "2");
        scratch.write("b c", "2");
        scratch.write("\nd", "2");
        let first = scratch.commit("First\n\nSaid and\n\nnever shown in a diff.");
        let second = scratch.commit("Empty");
        std::fs::remove_file(scratch.root().join("b c")).unwrap();
        scratch.git(&["add", "--all"]);
        let author = "--author=Another <another@example.org>";
        scratch.git(&["commit", "--quiet", author, "--cleanup=verbatim", "-m", "Third\u{1b}[2J"]);
        let third = scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
        let git = Git::at(scratch.root());
        let found = commits(&git, &base, &third).unwrap();
        let person = "A Person <person@example.org>".to_owned();
        let commit = |sha: &str, message: &str, files: &[&str]| PatchCommit {
            sha: sha.to_owned(),
            author: person.clone(),
            committer: None,
            message: message.to_owned(),
            files: files.iter().map(|file| (*file).to_owned()).collect(),
        };
        let mut expected = vec![
            commit(&first, "First\n\nSaid and\n\nnever shown in a diff.", &["\nd", "a", "b c"]),
            commit(&second, "Empty", &[]),
            commit(&third, "Third\u{1b}[2J", &["b c"]),
        ];
        expected[2].author = "Another <another@example.org>".to_owned();
        expected[2].committer = Some(person);
        assert_eq!(found, expected);
        assert_eq!(commits(&git, &third, &third).unwrap(), []);
        assert!(commits(&git, "nothing", &third).is_err());
    }

    #[test]
    fn merge_is_listed_with_the_commits_that_it_brings() {
        let scratch = Scratch::repository();
        scratch.write("a", "1");
        let base = scratch.commit("base");
        scratch.git(&["checkout", "--quiet", "-b", "side"]);
        scratch.write("s", "1");
        let side = scratch.commit("side");
        scratch.git(&["checkout", "--quiet", "-"]);
        scratch.write("a", "2");
        scratch.commit("ours");
        scratch.git(&["merge", "--quiet", "--no-edit", "-m", "merge", "side"]);
        let head = scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
        let found = commits(&Git::at(scratch.root()), &base, &head).unwrap();
        let shown: Vec<(&str, Vec<String>)> =
            found.iter().map(|one| (one.message.as_str(), one.files.clone())).collect();
        assert_eq!(shown.len(), 3, "{shown:?}");
        assert!(shown.contains(&("side", vec!["s".to_owned()])), "{shown:?}");
        assert_eq!(shown[2], ("merge", Vec::new()));
        assert!(found.iter().any(|one| one.sha == side));
    }
}

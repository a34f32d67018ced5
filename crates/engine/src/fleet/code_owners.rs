//! Reads the CODEOWNERS file of a commit, and who owns each of the commit's files by it.

use bailiwick_fleet::admission::OwnerFacts;
use bailiwick_fleet::admission::code_owners::{CodeOwners, Grammar, MAX_FILE_BYTES};
use bailiwick_source_control::Repository as Checkout;

use crate::failure::Failure;
use crate::sources;

/// The maximum number of files of a commit.
const MAX_FILES: usize = 200_000;

/// A file of a commit, by its line in `git ls-tree -l`.
struct Entry<'a> {
    is_file: bool,
    bytes: Option<usize>,
    path: &'a str,
}

fn entry(line: &str) -> Option<Entry<'_>> {
    let (head, path) = line.split_once('\t')?;
    let [mode, _, _, size] = head.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
    Some(Entry { is_file: mode.starts_with("100"), bytes: size.parse().ok(), path })
}

/// The owners of all files of a commit.
pub(super) fn read(
    checkout: &Checkout,
    commit: &str,
    grammar: Grammar,
) -> Result<OwnerFacts, Failure> {
    let unusable = |why: String| Ok(OwnerFacts::Unusable(why));
    let listed = checkout.git().run(["ls-tree", "-r", "-l", "-z", "--full-tree", commit])?;
    let Ok(listed) = std::str::from_utf8(&listed) else {
        return unusable("a file of the default branch has a name that is not UTF-8".to_owned());
    };
    let entries: Option<Vec<Entry<'_>>> = listed.split_terminator('\0').map(entry).collect();
    let Some(entries) = entries else {
        return unusable("git listed the files in an unknown form".to_owned());
    };
    if entries.len() > MAX_FILES {
        return unusable(format!("the default branch has more than {MAX_FILES} files"));
    }
    let places = grammar.places();
    let at = |place: &&str| entries.iter().find(|entry| entry.path == *place);
    let Some(found) = places.iter().find_map(at) else {
        return unusable(format!("the default branch has no {}", places.join(" or ")));
    };
    let file = found.path;
    if !found.is_file || found.bytes.is_none_or(|bytes| bytes > MAX_FILE_BYTES) {
        return unusable(format!("{file} is not a file of at most {MAX_FILE_BYTES} bytes"));
    }
    let Some(text) = sources::committed_file(checkout, commit, file)? else {
        return unusable(format!("{file} cannot be read"));
    };
    let paths: Vec<String> = entries.iter().map(|entry| entry.path.to_owned()).collect();
    let grouped = CodeOwners::parse(grammar, &text).and_then(|owners| owners.group(&paths));
    match grouped {
        Ok(files) => Ok(OwnerFacts::Read(files)),
        Err(error) => unusable(format!("{file}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::Scratch;

    use super::*;

    fn owners_at(scratch: &Scratch, commit: &str, grammar: Grammar) -> OwnerFacts {
        let checkout = Checkout::discover(&scratch.root()).unwrap();
        read(&checkout, commit, grammar).unwrap()
    }

    fn groups(facts: OwnerFacts) -> Vec<(Vec<String>, String)> {
        let OwnerFacts::Read(files) = facts else { panic!("{facts:?}") };
        let shown = files
            .into_iter()
            .map(|one| (one.owners.iter().map(ToString::to_string).collect(), one.example));
        shown.collect()
    }

    fn unusable_reason(facts: OwnerFacts) -> String {
        match facts {
            OwnerFacts::Unusable(unusable_reason) => unusable_reason,
            OwnerFacts::Read(files) => panic!("{files:?}"),
        }
    }

    #[test]
    fn first_existing_owners_file_of_the_commit_is_used() {
        let scratch = Scratch::repository();
        scratch.write("src/a.txt", "a");
        let none = scratch.commit("start");
        assert!(
            unusable_reason(owners_at(&scratch, &none, Grammar::Github))
                .contains("has no .github/CODEOWNERS")
        );
        scratch.write("docs/CODEOWNERS", ".* @last\n");
        let docs = scratch.commit("docs");
        scratch.write("CODEOWNERS", "* @root\n/src/ @root @more\n");
        let root = scratch.commit("root");
        scratch.write(".github/CODEOWNERS", "* @first\n");
        let first = scratch.commit("first");
        let one = |owner: &str, path: &str| vec![(vec![owner.to_owned()], path.to_owned())];
        assert_eq!(
            groups(owners_at(&scratch, &first, Grammar::Github)),
            one("@first", ".github/CODEOWNERS")
        );
        let both = groups(owners_at(&scratch, &root, Grammar::Github));
        assert_eq!(both[0].0, ["@more", "@root"]);
        assert_eq!(both[0].1, "src/a.txt");
        // Gitea does not read the first path, and parses the same text with its own grammar: `^*$` matches every
        // path, and `^/src/$` none.
        assert_eq!(groups(owners_at(&scratch, &docs, Grammar::Gitea))[0].0, ["@last"]);
        let facts = groups(owners_at(&scratch, &first, Grammar::Gitea));
        assert_eq!(facts, one("@root", ".github/CODEOWNERS"));
    }

    #[test]
    fn gitea_and_forgejo_read_the_root_before_their_directories() {
        let scratch = Scratch::repository();
        let paths = [
            ("@forgejo", ".forgejo/CODEOWNERS"),
            ("@gitea", ".gitea/CODEOWNERS"),
            ("@docs", "docs/CODEOWNERS"),
            ("@root", "CODEOWNERS"),
        ];
        for (owner, path) in paths {
            scratch.write(path, &format!(".* {owner}\n"));
            let commit = scratch.commit(path);
            assert_eq!(
                groups(owners_at(&scratch, &commit, Grammar::Gitea))[0].0,
                [owner],
                "{path}"
            );
        }
    }

    #[test]
    fn links_large_files_and_invalid_lines_are_unusable() {
        let scratch = Scratch::repository();
        scratch.write("owners", "* @ada\n");
        std::os::unix::fs::symlink("owners", scratch.root().join("CODEOWNERS")).unwrap();
        let link = scratch.commit("link");
        assert!(
            unusable_reason(owners_at(&scratch, &link, Grammar::Github)).contains("is not a file")
        );
        std::fs::remove_file(scratch.root().join("CODEOWNERS")).unwrap();
        scratch.write("CODEOWNERS", &format!("* @ada\n{}", "#".repeat(MAX_FILE_BYTES)));
        let large = scratch.commit("large");
        assert!(unusable_reason(owners_at(&scratch, &large, Grammar::Github)).contains("at most"));
        scratch.write("CODEOWNERS", "* @ada\n!docs @ada\n");
        let broken = scratch.commit("broken");
        assert!(unusable_reason(owners_at(&scratch, &broken, Grammar::Github)).contains("line 2"));
        scratch.write("CODEOWNERS", "* @ada\n");
        let good = scratch.commit("good");
        assert_eq!(groups(owners_at(&scratch, &good, Grammar::Github)).len(), 1);
    }
}

//! `bailiwick prepare` on a kit of 200 capabilities and 50 roles, beside `git cat-file --batch`
//! over the files of that kit: ratios from one interleaved run.
//!
//! Twice: for a role of 44 capabilities that extends nine others, and for one that has all 200, so
//! that every file is really read, parsed, checked and compared with the commit.

#![expect(clippy::expect_used, reason = "a benchmark that cannot do its work must stop")]

use std::fs::File;

use bailiwick_testkit::stopwatch::{median, ratio, time};
use bailiwick_testkit::{Scratch, figure};

const CAPABILITIES: usize = 200;
const ROLES: usize = 50;
const ROUNDS: usize = 300;

fn main() {
    let scratch = Scratch::repository();
    write_kit(&scratch);
    scratch.commit("kit");
    scratch.git(&["gc", "--quiet"]);
    let objects = scratch.git(&["ls-tree", "-r", "--format=%(objectname)", "HEAD", ".bailiwick"]);
    let files = objects.lines().count();
    assert_eq!(files, CAPABILITIES * 2 + ROLES);
    let list = scratch.place().join("objects");
    std::fs::write(&list, objects).expect("a file");

    let prepare = |task: &str| {
        let mut command = scratch.command(env!("CARGO_BIN_EXE_bailiwick"));
        command.args(["prepare", task, "-o", "json"]);
        command
    };
    let ours = || prepare("task.toml");
    let git = || {
        let mut command = scratch.command("git");
        command.args(["cat-file", "--batch"]).stdin(File::open(&list).expect("the list"));
        command
    };
    let nothing = || scratch.command("true");
    let said = String::from_utf8(ours().output().expect("prepare").stdout).expect("UTF-8");
    assert!(said.contains("\"role\": \"role-49\""), "prepare does its work: {said}");

    let (mut us, mut them, mut none) = (Vec::new(), Vec::new(), Vec::new());
    let mut all = Vec::new();
    for _ in 0..ROUNDS {
        them.push(time(git()));
        us.push(time(ours()));
        none.push(time(nothing()));
        all.push(time(prepare("all.toml")));
    }
    let (us, them, none) = (median(&mut us), median(&mut them), median(&mut none));
    let all = median(&mut all);
    figure(&format!(
        "prepare on a kit of {CAPABILITIES} capabilities and {ROLES} roles: {:.2} × `git cat-file \
         --batch` over the {files} files of the kit; {:.2} × for a role that has all {CAPABILITIES} \
         (`true` is {:.2} ×; medians of {ROUNDS} interleaved runs)",
        ratio(us, them),
        ratio(all, them),
        ratio(none, them),
    ));
}

fn write_kit(scratch: &Scratch) {
    for number in 0..CAPABILITIES {
        let name = format!("cap-{number}");
        let directory = format!(".bailiwick/capabilities/policy/{name}");
        scratch.write(
            &format!("{directory}/capability.toml"),
            &format!(
                "[capability]\nname = \"policy::{name}\"\ncategory = \"policy\"\nversion = \"1.0\"\n\
                 description = \"Number {number}\"\nrationale = \"For the benchmark.\"\n\n\
                 [restricts]\ntool-patterns = ['^tool-{number}( |$)']\ntools-denied = []\n\n\
                 [text]\npath = \"text.md\"\n\n[gate]\nevent = \"PreToolUse:Bash\"\nseverity = \"block\"\n"
            ),
        );
        let words: String =
            (0..120).map(|word| format!("word{} ", (word * 7 + number) % 211)).collect();
        let text =
            format!("## Number {number}\n\nYou MUST NOT call tool-{number}, because {words}\n");
        scratch.write(&format!("{directory}/text.md"), &text);
    }
    for number in 0..ROLES {
        let required: Vec<String> = (0..8)
            .map(|index| format!("\"policy::cap-{}\"", (number * 4 + index) % CAPABILITIES))
            .collect();
        let extends = match number % 10 {
            0 => String::new(),
            _ => format!("extends = \"role-{}\"\n", number - 1),
        };
        scratch.write(
            &format!(".bailiwick/roles/role-{number}.toml"),
            &format!(
                "[role]\nname = \"role-{number}\"\ndescription = \"Number {number}\"\n\n[capabilities]\n\
                 {extends}required = [{}]\n\n[tools]\nallowed = [\"Read\", \"Bash\"]\n",
                required.join(", ")
            ),
        );
    }
    let every: Vec<String> = (0..CAPABILITIES).map(|n| format!("\"policy::cap-{n}\"")).collect();
    scratch.write(
        ".bailiwick/roles/role-0.toml",
        &format!(
            "[role]\nname = \"role-0\"\n[capabilities]\nrequired = [{}]\n[tools]\nallowed = [\"Read\"]\n",
            every.join(", ")
        ),
    );
    let task = format!("[task]\nrole = \"role-{}\"\n\n[body]\ntext = \"go\"\n", ROLES - 1);
    scratch.write("task.toml", &task);
    scratch.write("all.toml", "[task]\nrole = \"role-0\"\n\n[body]\ntext = \"go\"\n");
}

//! `bailiwick prepare` on a kit of 200 capabilities and 50 roles, beside `git cat-file --batch`
//! over the same files: ratios from one interleaved run.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark that cannot do its work must stop"
)]

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

    let ours = || {
        let mut command = scratch.command(env!("CARGO_BIN_EXE_bailiwick"));
        command.args(["prepare", "task.toml", "-o", "json"]);
        command
    };
    let git = || {
        let mut command = scratch.command("git");
        command.args(["cat-file", "--batch"]).stdin(File::open(&list).expect("the list"));
        command
    };
    let nothing = || scratch.command("true");
    let said = String::from_utf8(ours().output().expect("prepare").stdout).expect("UTF-8");
    assert!(said.contains("\"role\": \"role-49\""), "prepare does its work: {said}");

    let (mut us, mut them, mut none) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        them.push(time(git()));
        us.push(time(ours()));
        none.push(time(nothing()));
    }
    let (us, them, none) = (median(&mut us), median(&mut them), median(&mut none));
    let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    figure(&format!(
        "prepare on {CAPABILITIES} capabilities and {ROLES} roles: {:.2} × `git cat-file --batch` \
         over the same {files} files ({:.2} × and {:.2} × `true`; median of {ROUNDS} interleaved runs)",
        ratio(us, them),
        ratio(us, none),
        ratio(them, none),
    ));
}

fn time(mut command: Command) -> Duration {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("the program");
    let took = start.elapsed();
    assert!(status.success(), "{command:?}");
    took
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
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
    let task = format!("[task]\nrole = \"role-{}\"\n\n[body]\ntext = \"go\"\n", ROLES - 1);
    scratch.write("task.toml", &task);
}

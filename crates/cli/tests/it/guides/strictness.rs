//! Errors in guides that fail the tests: a wrong command, a placeholder without a value, an unused block.

use super::guide::Guide;
use super::place::Place;

fn run_all(text: &str) {
    let mut guide = Guide::of("some.md", text);
    guide.run(&mut Place::new().shell());
    guide.finish();
}

#[test]
fn guide_whose_commands_succeed_passes() {
    run_all("```sh\ncd src        # stays there\nname=kept\ntest -f $name.txt\n```\n");
}

#[test]
#[should_panic(expected = "some.md:3: `bailiwick lnit` does not do what the guide says")]
fn failed_command_is_named_with_its_line() {
    run_all("```sh\ntrue\nbailiwick lnit\n```\n");
}

#[test]
#[should_panic(expected = "some.md:2: nothing takes the place of `…`")]
fn placeholder_without_a_value_is_named() {
    run_all("```sh\necho adr-…\n```\n");
}

#[test]
#[should_panic(expected = "some.md: no scene uses")]
fn unused_block_is_named() {
    run_all("```sh\ntrue\n```\n```toml\na = 1\n```\n");
}

#[test]
#[should_panic(expected = "some.md: there is no command `bailiwick serve` any more")]
fn unused_exception_is_named() {
    let mut guide = Guide::of("some.md", "```sh\ntrue\n```\n");
    guide.background("bailiwick serve");
    guide.run(&mut Place::new().shell());
    guide.finish();
}

//! What makes following a guide fail: a wrong command, an open placeholder, a block that nobody uses.

use super::guide::Guide;
use super::place::Place;

fn run_all(text: &str) {
    let mut guide = Guide::of("some.md", text);
    guide.run(&mut Place::new().shell());
    guide.finish();
}

#[test]
fn a_guide_whose_commands_succeed_is_followed() {
    run_all("```sh\ncd src        # stays there\nname=kept\ntest -f $name.txt\n```\n");
}

#[test]
#[should_panic(expected = "some.md:3: `bailiwick lnit` does not do what the guide says")]
fn a_command_that_fails_is_named_with_its_line() {
    run_all("```sh\ntrue\nbailiwick lnit\n```\n");
}

#[test]
#[should_panic(expected = "some.md:2: nothing takes the place of `…`")]
fn a_placeholder_that_nothing_fills_is_named() {
    run_all("```sh\necho adr-…\n```\n");
}

#[test]
#[should_panic(expected = "some.md: no scene uses")]
fn a_block_that_nobody_uses_is_named() {
    run_all("```sh\ntrue\n```\n```toml\na = 1\n```\n");
}

#[test]
#[should_panic(expected = "some.md: there is no command `bailiwick serve` any more")]
fn an_exception_that_is_not_needed_any_more_is_named() {
    let mut guide = Guide::of("some.md", "```sh\ntrue\n```\n");
    guide.background("bailiwick serve");
    guide.run(&mut Place::new().shell());
    guide.finish();
}

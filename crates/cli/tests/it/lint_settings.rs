//! `bailiwick lint` reads the repository's settings as well.

use bailiwick_testkit::Scratch;
use serde_json::Value;

use crate::BAILIWICK;

#[test]
fn lint_names_a_fault_in_the_settings_with_its_place() {
    let scratch = Scratch::repository();
    scratch.write(".bailiwick/settings.toml", "[land]\nmethod = \"merge\"\n");
    scratch.run(BAILIWICK, &["lint"]).expect_code(0);
    scratch
        .write(".bailiwick/settings.toml", "[land]\nmethod = \"merge\"\n\n[prices]\ninput = 5\n");
    let said = scratch.run(BAILIWICK, &["lint", "-o", "json"]).expect_code(1).out;
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["problems"][0]["file"], ".bailiwick/settings.toml", "{said:#}");
    assert_eq!(said["problems"][0]["line"], 5, "{said:#}");
}

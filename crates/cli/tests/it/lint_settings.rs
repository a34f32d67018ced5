//! `bailiwick lint` reads the repository's settings as well.

use bailiwick_testkit::Scratch;
use serde_json::Value;

use crate::BAILIWICK;

#[test]
fn lint_reports_errors_in_settings_with_file_and_line() {
    let scratch = Scratch::repository();
    scratch.write(".bailiwick/settings.toml", "[land]\nmethod = \"merge\"\n");
    scratch.run(BAILIWICK, &["lint"]).expect_code(0);
    scratch
        .write(".bailiwick/settings.toml", "[land]\nmethod = \"merge\"\n\n[prices]\ninput = 5\n");
    let report = scratch.run(BAILIWICK, &["lint", "-o", "json"]).expect_code(1).out;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["problems"][0]["file"], ".bailiwick/settings.toml", "{report:#}");
    assert_eq!(report["problems"][0]["line"], 5, "{report:#}");
}

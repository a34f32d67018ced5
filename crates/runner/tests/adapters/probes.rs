//! What the real programs report about themselves.

use bailiwick_runner::agents::probe;
use bailiwick_testkit::clis::Cli;

use crate::stage::adapter;

#[test]
fn real_programs_are_found_and_have_all_required_flags() {
    for cli in Cli::ALL {
        let program = cli.program();
        let mut places = vec![program.parent().unwrap().to_owned()];
        places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let path = std::env::join_paths(places).unwrap();
        let home = tempfile::tempdir().unwrap();
        let probed = probe(adapter(cli).as_ref(), &path, home.path()).unwrap();
        assert_eq!(probed.path, program);
        assert!(probed.version.contains(cli.version()), "{cli:?} says {}", probed.version);
        assert_eq!(probed.capabilities.missing, [""; 0], "{cli:?}");
        insta::assert_json_snapshot!(format!("capabilities-{}", cli.name()), probed.capabilities);
    }
}

#[test]
fn missing_program_is_not_found() {
    let home = tempfile::tempdir().unwrap();
    assert!(probe(adapter(Cli::Codex).as_ref(), home.path().as_os_str(), home.path()).is_none());
}

#[test]
fn removed_flag_is_reported() {
    let capabilities = adapter(Cli::Claude).capabilities("9.0", "  --model <model>  Model\n");
    assert!(capabilities.missing.contains(&"--permission-mode".to_owned()));
    assert!(!capabilities.resume && !capabilities.tool_lists);
    assert_eq!(capabilities.efforts, ["low", "medium", "high", "xhigh", "max"]);
}

//! Tests of names.

use super::*;

#[test]
fn role_names_cannot_leave_their_directory() {
    for bad in ["", "..", "a/b", "A", "1a", "a_b", "a b", "ä", &"a".repeat(65)] {
        assert!(RoleName::parse(bad).is_err(), "{bad:?} was accepted");
    }
    for good in ["a", "edit-local", "a1", &"a".repeat(64)] {
        assert!(RoleName::parse(good).is_ok(), "{good:?} was refused");
    }
}

#[test]
fn phase_names_fit_into_a_label() {
    assert!(PhaseName::parse(&"a".repeat(43)).is_ok() && PhaseName::parse("drafting-spec").is_ok());
    for bad in ["", "Review", "a::b", &"a".repeat(44)] {
        assert!(PhaseName::parse(bad).is_err(), "{bad:?} was accepted");
    }
}

#[test]
fn agent_ids_that_could_leave_their_directory_are_refused() {
    for bad in ["", "../x", "a..b", ".a", "-a", "a/b", "a b", "ü", "a\0", &"x".repeat(65)] {
        assert!(AgentId::parse(bad).is_err(), "{bad:?} was accepted");
    }
    for good in ["a", "ag-edit-local-19a-0f3c", "A.b_c-1", &"x".repeat(64)] {
        assert!(AgentId::parse(good).is_ok(), "{good:?} was refused");
    }
}

#[test]
fn generated_ids_are_always_valid() {
    for role in ["a".to_owned(), "r".repeat(64), format!("{}-x", "r".repeat(40))] {
        let role = RoleName::parse(&role).unwrap();
        for ms in [0, 1_794_700_000_000, u64::MAX] {
            let id = AgentId::make(&role, ms, u16::MAX);
            assert_eq!(AgentId::parse(id.as_str()), Ok(id.clone()));
            assert!(id.as_str().ends_with("-ffff"));
        }
    }
}

#[test]
fn old_capability_names_map_to_new_names() {
    let new =
        |old: &str| CapabilityName::parse(old).unwrap().renamed_to().map(|name| name.to_string());
    assert_eq!(new("tools::read-only").as_deref(), Some("tools::deny-tools"));
    assert_eq!(new("tools::cargo-only-bash").as_deref(), Some("tools::bash-allowlist"));
    assert_eq!(new("tools::deny-tools"), None);
}

#[test]
fn error_for_a_misspelt_category_suggests_the_right_one() {
    let error = CapabilityName::parse("scop::files-whitelist").unwrap_err().to_string();
    assert!(error.contains("did you mean `scope`?"), "{error}");
}

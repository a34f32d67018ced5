//! The agent types that a list of names and globs allows.

use bailiwick_model::template::AgentType;
use bailiwick_policy::tool::matches;

/// Whether a list allows a type. `-` and `_` in a name are equal, as in a call of `spawn_agent`, unless a type
/// with exactly that name exists. `all` are the existing types.
pub(crate) fn allows(list: &[String], name: &AgentType, all: &[AgentType]) -> bool {
    list.iter().any(|entry| match entry.contains(['*', '?']) {
        true => matches(entry, name.as_str()),
        false => AgentType::parse(entry)
            .is_ok_and(|entry| entry == *name || entry.folds_to(name) && !all.contains(&entry)),
    })
}

/// The types of `requested` that a list allows. If a name can mean several types, the list must allow all of them.
pub(super) fn intersection(
    list: &[String],
    requested: &[AgentType],
    all: &[AgentType],
) -> Vec<String> {
    let may = |name: &&AgentType| {
        let exact = all.contains(name);
        let mut matching = all.iter().filter(|one| !exact && one.folds_to(name)).peekable();
        match matching.peek() {
            None => allows(list, name, all),
            Some(_) => matching.all(|one| allows(list, one, all)),
        }
    };
    requested.iter().filter(may).map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(names: &[&str]) -> Vec<AgentType> {
        names.iter().map(|name| AgentType::parse(name).unwrap()).collect()
    }

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn dashes_equal_underscores_unless_an_exact_name_exists() {
        let one = types(&["my_role", "other"]);
        let two = types(&["my_role", "my-role", "other"]);
        for (list, name, all, expected) in [
            ("my-role", "my_role", &one, true),
            ("my_role", "my_role", &one, true),
            ("My-Role", "my_role", &one, true),
            // The entry means the other type.
            ("my-role", "my_role", &two, false),
            ("my-role", "my-role", &two, true),
            ("my-*", "my_role", &one, false),
            ("my*", "my_role", &one, true),
            ("other", "my_role", &one, false),
            ("a b", "my_role", &one, false),
        ] {
            let name = AgentType::parse(name).unwrap();
            assert_eq!(allows(&texts(&[list]), &name, all), expected, "{list} {name} {all:?}");
        }
        assert!(!allows(&[], &one[0], &one));
    }

    #[test]
    fn template_gets_only_types_that_its_caller_may_start() {
        let one = types(&["my_role", "other"]);
        let two = types(&["my_role", "my-role", "other"]);
        let three = types(&["my_long_role", "my_long-role"]);
        for (list, requested, all, expected) in [
            (&["my_role"][..], &["my-role", "other"][..], &one, &["my-role"][..]),
            (&["*"], &["my-role", "gone"], &one, &["my-role", "gone"]),
            // The caller may start one of the two, and its template requests the other.
            (&["my-role"], &["my_role"], &two, &[]),
            (&["my-role"], &["my-role"], &two, &["my-role"]),
            // The entry matches both types, but the caller may start only one.
            (&["my_long_role"], &["my-long-role"], &three, &[]),
            (&["my_long*"], &["my-long-role"], &three, &["my-long-role"]),
            (&[], &["other"], &one, &[]),
        ] {
            let found = intersection(&texts(list), &types(requested), all);
            assert_eq!(found, expected, "{list:?} {requested:?} {all:?}");
        }
    }
}

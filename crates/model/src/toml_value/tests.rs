//! Tests of parsing TOML values.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct All {
    text: String,
    count: u64,
    hex: i32,
    rate: f64,
    on: bool,
    list: Vec<u8>,
    map: BTreeMap<Spanned<String>, u8>,
    plain: Kind,
    detailed: Kind,
    place: Spanned<String>,
    #[serde(deserialize_with = "short")]
    short: String,
    absent: Option<String>,
}

/// Refuses a value after it was parsed.
fn short<'de, D: de::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.len() < 3 { Ok(text) } else { Err(de::Error::custom("is too long")) }
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Plain,
    Sized { size: u8 },
}

const TEXT: &str = "text = \"a\"\ncount = 1_000\nhex = 0x1f\nrate = 2.5\non = true\nlist = [1, \
                    2]\nplain = \"plain\"\nplace = \"b\"\nshort = \"c\"\ndetailed = { sized = { size = 3 } \
                    }\n[map]\nkey = 7\n";

fn read(text: &str) -> Result<All, ValueError> {
    All::deserialize(TomlValue::from(DeTable::parse(text).unwrap()))
}

#[test]
fn every_kind_of_value_is_parsed_as_by_the_toml_crate() {
    let parsed = read(TEXT).unwrap();
    assert_eq!(parsed, toml::from_str(TEXT).unwrap());
    assert_eq!(parsed.place.span(), toml::from_str::<All>(TEXT).unwrap().place.span());
}

#[test]
fn faults_have_a_type_and_the_span_of_the_toml_crate() {
    let known: &[&str] = &["size"];
    for (old, new, fault) in [
        ("text = \"a\"", "", Fault::MissingKey { name: "text" }),
        (
            "\"plain\"",
            "\"missing field `x`\"",
            Fault::UnknownValue {
                name: "missing field `x`".to_owned(),
                known: &["plain", "sized"],
            },
        ),
        (
            "{ size = 3 }",
            "{ size = 3, more = 1 }",
            Fault::UnknownKey { name: "more".to_owned(), known },
        ),
        (
            "2.5",
            "\"x\"",
            Fault::WrongType {
                found: "invalid type: string \"x\"".to_owned(),
                expected: "f64".to_owned(),
            },
        ),
        ("\"c\"", "\"long\"", Fault::Refused("is too long".to_owned())),
        ("2.5", "1e999", Fault::Refused("the number is too large".to_owned())),
    ] {
        let text = TEXT.replace(old, new);
        let error = read(&text).unwrap_err();
        assert_eq!(error.fault, fault, "{text}");
        assert_eq!(error.span, toml::from_str::<All>(&text).unwrap_err().span(), "{text}");
    }
}

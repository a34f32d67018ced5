//! Properties of any text: reading never panics, and a template that is read was written so.

use bailiwick_kit::templates::file::parse;
use bailiwick_model::Source;
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;

use super::agent_type;
use super::file::SKELETON;

/// Significant pieces, combined at random.
const PIECES: [&str; 30] = [
    "---\n",
    "---",
    "\n",
    "\r\n",
    "\r",
    "\u{feff}",
    "description: d\n",
    "description:\n",
    "read_only: true\n",
    "allow_list:\n",
    "  - Bash\n",
    "  - '*'\n",
    "allow_list: []\n",
    "agent_names:\n",
    "  - name: a\n",
    "    description: A\n",
    "<!-- agent_name: a -->\n",
    "<!-- agent_name: b -->\n",
    "<!-- agent_name:",
    "-->",
    "```\n",
    "~~~~\n",
    "text\n",
    " ",
    "\t",
    "ä",
    "\0",
    "...\n",
    "context: {files: 1}\n",
    "max_depth: 1\n",
];

#[test]
fn reader_never_panics_and_every_place_is_in_the_file() {
    let mut random = Random::rotating("templates");
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..Depth::from_env().cases(50_000) {
        let mut text = match round % 3 {
            0 => String::new(),
            1 => "---\ndescription: d\n".to_owned(),
            _ => "---\ndescription: d\n---\ntext\n".to_owned(),
        };
        for _ in 0..random.below(12) {
            text.push_str(PIECES[random.below(PIECES.len())]);
        }
        let source = Source::new("a.md", text.as_str());
        match parse(&agent_type("a"), &source) {
            Ok(parsed) => {
                accepted += 1;
                // A limit is read where it is written, or the text is refused.
                let head = text.split("\n---").next().unwrap_or_default();
                assert_eq!(parsed.template.read_only, head.contains("read_only: true"), "{text:?}");
                let listed = parsed.template.tools.allow_list.is_some();
                assert_eq!(listed, head.contains("allow_list:"), "{text:?}");
            }
            Err(problems) => {
                refused += 1;
                assert!(!problems.is_empty(), "{text:?}");
                for problem in problems {
                    let fits =
                        problem.place.span.clone().is_none_or(|span| text.get(span).is_some());
                    assert!(fits, "{problem:?} of {text:?}");
                }
            }
        }
    }
    assert!(accepted > 0 && refused > 0, "{accepted} accepted, {refused} refused");
}

/// Changing one character never loosens a limit without an error or a visible difference.
#[test]
fn one_changed_character_never_drops_a_limit() {
    let limits = |text: &str| {
        let source = Source::new("a.md", text);
        let parsed = parse(&agent_type("a"), &source).ok()?;
        let tools = parsed.template.tools;
        Some((parsed.template.read_only, tools.allow_list.is_some(), tools.deny_list.is_some()))
    };
    assert_eq!(limits(SKELETON), Some((true, true, true)));
    let mut unchanged = 0;
    for (index, old) in SKELETON.char_indices() {
        for new in ["", "x", "-", "\n", "#", ":", "'", "|"] {
            let mut text = SKELETON.to_owned();
            text.replace_range(index..index + old.len_utf8(), new);
            let Some((read_only, allow, deny)) = limits(&text) else { continue };
            unchanged += 1;
            // A line may be commented out, a key may include the next line: then the text says so.
            let head = text.split("\n---").next().unwrap_or_default();
            let has = |key: &str| head.lines().any(|line| line.starts_with(key));
            assert_eq!(read_only, has("read_only: true"), "{new:?} at {index}");
            assert_eq!(allow, has("allow_list:"), "{new:?} at {index}");
            assert_eq!(deny, has("deny_list:"), "{new:?} at {index}");
        }
    }
    assert!(unchanged > 100, "{unchanged}");
}

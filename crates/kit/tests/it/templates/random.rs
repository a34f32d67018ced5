//! Owns the properties that hold for any text: reading never panics, and what is read is what was written.

use bailiwick_kit::templates::file::parse;
use bailiwick_model::Source;
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;

use super::agent_type;
use super::file::SKELETON;

/// Pieces that make a difference, put together at random.
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
fn no_text_makes_the_reader_panic_and_every_place_is_in_the_file() {
    let mut random = Random::rotating("templates");
    let (mut taken, mut refused) = (0, 0);
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
                taken += 1;
                // What limits the agent is read where it is written, or not at all.
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
    assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused");
}

/// One character changed anywhere never loosens a limit without being refused or being visible.
#[test]
fn a_slip_of_the_pen_never_drops_the_policy() {
    let limits = |text: &str| {
        let source = Source::new("a.md", text);
        let parsed = parse(&agent_type("a"), &source).ok()?;
        let tools = parsed.template.tools;
        Some((parsed.template.read_only, tools.allow_list.is_some(), tools.deny_list.is_some()))
    };
    assert_eq!(limits(SKELETON), Some((true, true, true)));
    let mut kept = 0;
    for (at, old) in SKELETON.char_indices() {
        for new in ["", "x", "-", "\n", "#", ":", "'", "|"] {
            let mut text = SKELETON.to_owned();
            text.replace_range(at..at + old.len_utf8(), new);
            let Some((read_only, allow, deny)) = limits(&text) else { continue };
            kept += 1;
            // A line may be commented out, a key may swallow the next line: then it is written so.
            let head = text.split("\n---").next().unwrap_or_default();
            let has = |key: &str| head.lines().any(|line| line.starts_with(key));
            assert_eq!(read_only, has("read_only: true"), "{new:?} at {at}");
            assert_eq!(allow, has("allow_list:"), "{new:?} at {at}");
            assert_eq!(deny, has("deny_list:"), "{new:?} at {at}");
        }
    }
    assert!(kept > 100, "{kept}");
}

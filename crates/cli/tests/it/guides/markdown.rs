//! The fenced blocks of a Markdown file.

/// One fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// The first word behind the opening fence; empty if there is none.
    pub(crate) language: String,
    /// The text between the fences.
    pub(crate) text: String,
    /// The line of the file in which the text begins, counted from 1.
    pub(crate) line: usize,
}

/// A command of a shell block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// Its text. Lines that end with a backslash continue on the next line.
    pub(crate) text: String,
    /// The line of the file in which it begins.
    pub(crate) line: usize,
}

impl Block {
    /// The commands of a shell block, without empty lines and comments.
    pub(crate) fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let mut open = false;
        for (offset, line) in self.text.lines().enumerate() {
            match commands.last_mut() {
                Some(last) if open => {
                    last.text.push('\n');
                    last.text.push_str(line);
                }
                _ if line.trim().is_empty() || line.trim_start().starts_with('#') => continue,
                _ => commands.push(Command { text: line.to_owned(), line: self.line + offset }),
            }
            open = line.ends_with('\\');
        }
        commands
    }
}

/// All fenced blocks, in order. A fence closes with at least as many backticks as it opened with.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, usize, Block)> = None;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let ticks = trimmed.chars().take_while(|c| *c == '`').count();
        let rest = trimmed.trim_start_matches('`').trim();
        match open.take() {
            None if ticks >= 3 => {
                let language = rest.split_whitespace().next().unwrap_or_default().to_owned();
                let block = Block { language, text: String::new(), line: number + 2 };
                open = Some((ticks, line.len() - trimmed.len(), block));
            }
            None => {}
            Some((opening_ticks, _, block)) if ticks >= opening_ticks && rest.is_empty() => {
                blocks.push(block)
            }
            Some((opening_ticks, indent, mut block)) => {
                let indentation = line.len() - trimmed.len();
                block.text.push_str(line.get(indent.min(indentation)..).unwrap_or_default());
                block.text.push('\n');
                open = Some((opening_ticks, indent, block));
            }
        }
    }
    assert!(open.is_none(), "a fence is not closed: {open:?}");
    blocks
}

#[test]
fn fenced_blocks_are_found_with_language_and_line() {
    let text = "a\n```sh\nx \\\n  y   # why\n# not this\n\nz\n```\n- b\n  ````md\n  ```sh\n  q\n  ```\n  ````\n";
    let found = blocks(text);
    let languages: Vec<&str> = found.iter().map(|block| block.language.as_str()).collect();
    assert_eq!(languages, ["sh", "md"]);
    let command = |text: &str, line| Command { text: text.to_owned(), line };
    assert_eq!(found[0].commands(), [command("x \\\n  y   # why", 3), command("z", 7)]);
    assert_eq!(found[1].text, "```sh\nq\n```\n");
}

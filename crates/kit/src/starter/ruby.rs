//! Ruby projects: Gemfile, tested by RSpec, rake, Rails or minitest.

use super::files::Directory;
use super::stack::{Note, Stack};
use super::tool::Tool;

pub(super) fn detect(directory: Directory<'_>) -> Option<Stack> {
    let gemspec = directory.names().find(|name| name.ends_with(".gemspec"));
    let manifest = directory.has("Gemfile").then_some("Gemfile").or(gemspec)?;
    let mut stack = Stack::new(Tool::Bundler, directory.path(), manifest);
    stack.programs = vec!["ruby", "bundle"];
    if directory.has("Gemfile") {
        stack.setup = vec!["bundle install".to_owned()];
        if directory.has("Gemfile.lock") {
            stack.evidence = "Gemfile.lock".to_owned();
        } else {
            stack.artefacts = &["Gemfile.lock"];
        }
    } else {
        // `bundle` needs a Gemfile; a gem without one is tested by the installed Ruby.
        stack.notes.push(Note::NoLockFile { file: directory.join("Gemfile") });
    }
    stack.commands = test_command(directory, gemspec).into_iter().collect();
    Some(stack)
}

fn test_command(directory: Directory<'_>, gemspec: Option<&str>) -> Option<String> {
    let texts = ["Gemfile", "Gemfile.lock", gemspec.unwrap_or("Gemfile")];
    let mentions = |gem: &str| {
        texts.iter().any(|file| directory.read(file).is_some_and(|text| text.contains(gem)))
    };
    let exec = if directory.has("Gemfile") { "bundle exec " } else { "" };
    let specs = directory.below().any(|path| path.ends_with("_spec.rb"));
    if specs && (mentions("rspec") || directory.has(".rspec")) {
        return Some(format!("{exec}rspec"));
    }
    let tests = directory.below().any(is_test);
    if tests && directory.has("bin/rails") {
        return Some("bin/rails test".to_owned());
    }
    let rakefile = directory.read("Rakefile").or_else(|| directory.read("rakefile"));
    if rakefile.is_some_and(|text| has_test_task(&text)) {
        return Some(format!("{exec}rake test"));
    }
    let load = "Dir[\"./test/**/{test_*,*_test}.rb\"].each { |file| require file }";
    tests.then(|| format!("{exec}ruby -Ilib -Itest -e '{load}'"))
}

fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let named = name.ends_with("_test.rb") || (name.starts_with("test_") && name.ends_with(".rb"));
    named && path.starts_with("test/") && name != "test_helper.rb"
}

fn has_test_task(text: &str) -> bool {
    let declared = ["task :test", "task test", "task 'test'", "task \"test\"", "task(:test"];
    let text = text.replace("  ", " ");
    text.contains("Rake::TestTask")
        || text.contains("Minitest::TestTask")
        || declared.iter().any(|part| text.contains(part))
}

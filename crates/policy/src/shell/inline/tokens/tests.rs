//! Tests of splitting code into tokens.

use super::*;

fn shown(style: Style, text: &str) -> String {
    let show_token = |token: &Token| match token {
        Token::Name(name) => name.clone(),
        Token::Text(text) => format!("<{}>", text.as_deref().unwrap_or("?")),
        Token::Sign(c) => c.to_string(),
    };
    let tokens = tokens(style, text).unwrap();
    tokens.iter().map(show_token).collect::<Vec<_>>().join(" ")
}

#[test]
fn code_is_tokenized_by_the_rules_of_its_language() {
    for (style, text, expected) in [
        (Style::Python, "os.system('a\\'b') # x", "os.system ( <a'b> )"),
        (Style::Python, "f'{x.y} b' r'\\d'", "<?> ( x.y ) <\\d>"),
        (Style::Python, "'''a\n'b' ''' + \"\\x67\"", "<a\n'b' > + <?>"),
        (Style::Python, "Path('a').unlink()", "Path ( <a> ) .unlink ( )"),
        (Style::JavaScript, "x = /a'b/.exec(y) // z", "x = <?> .exec ( y )"),
        (Style::JavaScript, "`a ${f(1)}`; 4 / 2", "<?> ( f ( 0 ) ) ; 0 / 0"),
        (Style::Perl, "s/a/b/g; s{a}{f()}e", "<?> ; ( f ( ) ) <?>"),
        (Style::Perl, "print \"$x\" if /system/; `ls`", "print <?> if <?> ; ` <ls>"),
        (Style::Perl, "local $/; print <$f> if $, eq 'a'", "local $/ ; print < $f > if $, eq <a>"),
        (Style::Ruby, "%x(ls) + \"#{y}\" + 'z'", "` <ls> + <?> ( y ) + <z>"),
        (Style::Awk, "$1 ~ /\"/ { print > \"x\" }", "$1 ~ <?> { print > <x> }"),
    ] {
        assert_eq!(shown(style, text), expected, "{text}");
    }
}

#[test]
fn unterminated_code_is_not_tokenized() {
    for (style, text) in [
        (Style::Python, "x = 'a"),
        (Style::JavaScript, "`a ${"),
        (Style::JavaScript, "/* a"),
        (Style::Perl, "s/a/b"),
        (Style::Perl, "print <<E;\nx\nE\n"),
    ] {
        assert_eq!(tokens(style, text), None, "{text}");
    }
}

//! Functions of Rust source, by syn: free ones, methods, defaults of traits, nested ones. What a
//! macro would make is not seen.

use std::str::FromStr;

use proc_macro2::{Span, TokenStream};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{FnArg, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, Signature, TraitItemFn};

use super::{Function, Measured, depth};

/// Room for the parser, which calls itself at each bracket and operator.
const STACK: usize = 256 << 20;

/// Measures on a thread of its own: it has the room, and takes the parser's tables with it.
pub(super) fn measure(text: &str) -> Result<Measured, String> {
    let text = text.to_owned();
    let thread = std::thread::Builder::new().stack_size(STACK);
    let measuring = thread.spawn(move || parse(&text)).map_err(|error| error.to_string())?;
    measuring.join().unwrap_or_else(|_| Err("the parser broke down over it".to_owned()))
}

fn parse(text: &str) -> Result<Measured, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let tokens = match text.strip_prefix("#!") {
        // A line for the shell is a comment; `#![…]` is not one.
        Some(rest) if !rest.trim_start().starts_with('[') => {
            TokenStream::from_str(&format!("//{rest}"))
        }
        _ => TokenStream::from_str(text),
    };
    let tokens = tokens.map_err(|error| at(error.span(), "it has no tokens of Rust"))?;
    if let Some(why) = depth::too_deep(tokens.clone()) {
        return Err(why);
    }
    let file: syn::File =
        syn::parse2(tokens).map_err(|error| at(error.span(), &error.to_string()))?;
    let mut finder = Finder { names: Vec::new(), found: Vec::new() };
    finder.visit_file(&file);
    Ok(Measured { functions: finder.found })
}

fn at(span: Span, what: &str) -> String {
    format!("line {}: {what}", span.start().line)
}

struct Finder {
    names: Vec<String>,
    found: Vec<Function>,
}

impl Finder {
    /// Notes a function and looks into it, as a part of what it lies in.
    fn note(&mut self, signature: &Signature, body: Option<Span>, inside: impl FnOnce(&mut Self)) {
        let line = signature.span().start().line;
        let text = body.unwrap_or_else(|| signature.span()).source_text().unwrap_or_default();
        self.names.push(signature.ident.to_string());
        self.found.push(Function {
            path: self.names.join("::"),
            line,
            lines: body.map_or(0, |body| (body.end().line + 1).saturating_sub(line)),
            parameters: signature.inputs.iter().filter(|input| is_passed(input)).count(),
            body: text.lines().map(str::trim).collect::<Vec<_>>().join("\n"),
        });
        inside(self);
        self.names.pop();
    }

    fn within(&mut self, name: String, inside: impl FnOnce(&mut Self)) {
        self.names.push(name);
        inside(self);
        self.names.pop();
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        let body = item.block.brace_token.span.join();
        self.note(&item.sig, Some(body), |finder| visit::visit_item_fn(finder, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        let body = item.block.brace_token.span.join();
        self.note(&item.sig, Some(body), |finder| visit::visit_impl_item_fn(finder, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        let body = item.default.as_ref().map(|block| block.brace_token.span.join());
        self.note(&item.sig, body, |finder| visit::visit_trait_item_fn(finder, item));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.within(item.ident.to_string(), |finder| visit::visit_item_mod(finder, item));
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.within(item.ident.to_string(), |finder| visit::visit_item_trait(finder, item));
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let of = source(item.self_ty.span());
        let name = match &item.trait_ {
            Some((path, _)) => format!("<{of} as {}>", source(path.span())),
            None => of,
        };
        self.within(name, |finder| visit::visit_item_impl(finder, item));
    }
}

/// What stands there, with one blank for each run of them.
fn source(span: Span) -> String {
    let text = span.source_text().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_passed(input: &FnArg) -> bool {
    match input {
        FnArg::Receiver(_) => false,
        FnArg::Typed(_) => true,
    }
}

#[cfg(test)]
mod tests;

//! Plots made on the server. Every text in them is escaped here; colours come from the stylesheet.

use std::fmt::Write as _;

use crate::text::{escaped, line};

/// A bar: its label, its parts with their classes, and the total as text.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) parts: Vec<(String, u64)>,
    pub(crate) total: String,
}

const LABEL_WIDTH: u64 = 190;
const BAR_WIDTH: u64 = 400;
const ROW: u64 = 24;
const COLUMN_HEIGHT: u64 = 160;
const MAX_LABEL: usize = 25;

/// The length of a value; everything that is not zero can be seen.
fn scaled(value: u64, max: u64, length: u64) -> u64 {
    match value {
        0 => 0,
        value => (u128::from(value) * u128::from(length) / u128::from(max.max(1)))
            .try_into()
            .unwrap_or(length)
            .max(1),
    }
}

fn largest(bars: &[Bar]) -> u64 {
    let sum = |bar: &Bar| bar.parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.1));
    bars.iter().map(sum).max().unwrap_or_default()
}

/// Bars from left to right, for names.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> String {
    let max = largest(bars);
    let height = ROW * u64::try_from(bars.len()).unwrap_or_default() + 4;
    let mut shapes = String::new();
    for (row, bar) in (0_u64..).zip(bars) {
        let y = row * ROW + 4;
        let (label, whole) =
            (escaped(&line(&bar.label, MAX_LABEL)), escaped(&line(&bar.label, 400)));
        let text = y + 13;
        let _ =
            write!(shapes, "<g><title>{whole}</title><text x=\"0\" y=\"{text}\">{label}</text>");
        let mut x = LABEL_WIDTH;
        for (class, value) in &bar.parts {
            let width = scaled(*value, max, BAR_WIDTH);
            let class = escaped(class);
            let _ = write!(
                shapes,
                "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"16\"/>"
            );
            x += width;
        }
        let (after, total) = (x + 6, escaped(&line(&bar.total, MAX_LABEL)));
        let _ =
            write!(shapes, "<text class=\"kind\" x=\"{after}\" y=\"{text}\">{total}</text></g>");
    }
    svg(title, LABEL_WIDTH + BAR_WIDTH + 130, height, &shapes)
}

/// Columns from the bottom up, for days.
pub(crate) fn columns(title: &str, bars: &[Bar]) -> String {
    let max = largest(bars);
    let count = u64::try_from(bars.len()).unwrap_or_default();
    let step = if count > 60 { 8 } else { 22 };
    let mut shapes = String::new();
    for (index, bar) in (0_u64..).zip(bars) {
        let x = index * step + 40;
        let (label, total) = (escaped(&line(&bar.label, MAX_LABEL)), escaped(&bar.total));
        let _ = write!(shapes, "<g><title>{label}: {total}</title>");
        let mut y = COLUMN_HEIGHT + 8;
        for (class, value) in &bar.parts {
            let height = scaled(*value, max, COLUMN_HEIGHT);
            y = y.saturating_sub(height);
            let (class, width) = (escaped(class), step - 3);
            let _ = write!(
                shapes,
                "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
            );
        }
        shapes.push_str("</g>");
        // Some days are enough to find the others.
        if index.is_multiple_of(7) {
            let below = COLUMN_HEIGHT + 24;
            let _ = write!(shapes, "<text class=\"kind\" x=\"{x}\" y=\"{below}\">{label}</text>");
        }
    }
    let (base, end) = (COLUMN_HEIGHT + 8, count * step + 40);
    let _ = write!(
        shapes,
        "<path class=\"edge\" d=\"M38 8 V{base} H{end}\"/><text class=\"kind\" x=\"0\" y=\"16\">{max}</text>"
    );
    svg(title, end.max(200) + 70, COLUMN_HEIGHT + 32, &shapes)
}

fn svg(title: &str, width: u64, height: u64, shapes: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg class=\"graph plot\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"{title}; the table below has the same numbers\">{shapes}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: u64) -> Bar {
        Bar {
            label: label.to_owned(),
            parts: vec![("landed".to_owned(), value)],
            total: value.to_string(),
        }
    }

    #[test]
    fn lengths_are_proportional_and_small_values_are_visible() {
        assert_eq!(scaled(50, 100, 400), 200);
        assert_eq!(scaled(1, 1_000_000, 400), 1);
        assert_eq!(scaled(0, 0, 400), 0);
        assert_eq!(scaled(u64::MAX, u64::MAX, 400), 400);
    }

    #[test]
    fn names_are_escaped() {
        let svg = bars("T", &[bar("<script>\"&", 1)]);
        assert!(svg.contains("&lt;script&gt;&quot;&amp;") && !svg.contains("<script>"), "{svg}");
        let svg = columns("T", &[bar("2026-01-01", 3), bar("2026-01-02", 0)]);
        assert_eq!(svg.matches("<rect").count(), 2, "{svg}");
        assert!(svg.contains("2026-01-02: 0"), "{svg}");
    }
}

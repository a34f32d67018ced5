//! Numbers of bytes as people read them.

/// A number of bytes in the unit that fits it, such as `1.5 GiB`.
pub fn readable_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut unit = "KiB";
    for larger in UNITS.into_iter().skip(1) {
        if tenths < 10_240 {
            break;
        }
        (tenths, unit) = (tenths / 1024, larger);
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_in_a_suitable_unit() {
        assert_eq!(readable_size(0), "0.0 KiB");
        assert_eq!(readable_size(1536), "1.5 KiB");
        assert_eq!(readable_size(3 * 1024 * 1024), "3.0 MiB");
        assert_eq!(readable_size(5 * 1024 * 1024 * 1024), "5.0 GiB");
    }
}

//! The output of commands: tables, ids, sizes.

/// A table as docker prints it: columns as wide as their widest cell, three spaces between.
pub fn table(titles: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = titles.iter().map(|t| t.len()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("   ").trim_end())
    };
    text.push_str(&line(&mut titles.iter().copied()));
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

/// The first twelve digits of an id, without `sha256:`.
pub fn short(id: &str) -> String {
    id.strip_prefix("sha256:").unwrap_or(id).chars().take(12).collect()
}

/// Cuts a text to `width` characters with an ellipsis.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// Bytes as `1.2MB` (decimal, three significant digits).
pub fn size(bytes: i64) -> String {
    significant(bytes, 3)
}

/// Bytes as `1.234MB` (decimal, four significant digits), as docker shows the space that things take together.
pub fn precise(bytes: i64) -> String {
    significant(bytes, 4)
}

fn significant(bytes: i64, digits: usize) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let text = match () {
        () if unit == 0 => format!("{value:.0}"),
        () if value >= 100.0 => format!("{value:.*}", digits - 3),
        () if value >= 10.0 => format!("{value:.*}", digits - 2),
        () => format!("{value:.*}", digits - 1),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{}", units[unit])
}

/// A size as people write it (`64m`, `1g`, `1024`): binary multiples.
pub fn bytes(text: &str) -> Option<i64> {
    let lower = text.to_ascii_lowercase();
    let lower = lower.strip_suffix("ib").or(lower.strip_suffix('b')).unwrap_or(&lower);
    let (digits, shift) = match lower.chars().last()? {
        'k' => (&lower[..lower.len() - 1], 10),
        'm' => (&lower[..lower.len() - 1], 20),
        'g' => (&lower[..lower.len() - 1], 30),
        't' => (&lower[..lower.len() - 1], 40),
        _ => (lower, 0),
    };
    let amount: f64 = digits.parse().ok()?;
    let bytes = amount * f64::from(1u32 << (shift % 32)) * if shift >= 32 { 4_294_967_296.0 } else { 1.0 };
    (bytes.is_finite() && bytes.abs() < 9e18).then_some(bytes as i64)
}

/// Bytes as `1.2MiB`: multiples of 1024, four significant digits.
pub fn binary(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 1000.0 { 0 } else { 3 - (value.max(1.0).log10() as usize) };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn sizes_in_binary() {
        let texts = [0, 1023, 1536, 10 << 20, 1_234_567_890].map(binary);
        assert_eq!(texts, ["0B", "1023B", "1.5KiB", "10MiB", "1.15GiB"]);
    }

    #[test]
    fn sizes() {
        assert_eq!((size(0).as_str(), size(999).as_str(), size(1234).as_str()), ("0B", "999B", "1.23kB"));
        assert_eq!(size(2_000_000), "2MB");
        assert_eq!(
            (precise(0), precise(1_984_436), precise(123_456)),
            ("0B".into(), "1.984MB".into(), "123.5kB".into())
        );
        assert_eq!(bytes("64m"), Some(64 << 20));
        assert_eq!(bytes("1.5g"), Some(3 << 29));
        assert_eq!(bytes("2t"), Some(2 << 40));
        assert_eq!(bytes("12kb"), Some(12 << 10));
        assert_eq!(bytes("lots"), None);
    }

    #[test]
    fn tables_line_up() {
        let text = table(&["A", "LONG"], &[vec!["xyz".into(), "1".into()]]);
        assert_eq!(text, "A     LONG\nxyz   1\n");
    }
}

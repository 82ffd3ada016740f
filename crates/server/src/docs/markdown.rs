//! The little Markdown that the contracts use: paragraphs, tables, indented code, bold and code spans.

/// `text` with the characters escaped that mean something to HTML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A line of prose: code spans, bold.
pub fn inline(text: &str) -> String {
    let mut html = String::new();
    for (n, part) in text.split('`').enumerate() {
        if n % 2 == 1 {
            html.push_str(&format!("<code>{}</code>", escape(part)));
            continue;
        }
        for (n, part) in part.split("**").enumerate() {
            let part = escape(part);
            html.push_str(&if n % 2 == 1 { format!("<b>{part}</b>") } else { part });
        }
    }
    html
}

/// Blocks of prose.
pub fn blocks(text: &str) -> String {
    text.split("\n\n").map(block).collect()
}

fn block(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.iter().all(|line| line.starts_with("    ")) {
        let code: Vec<&str> = lines.iter().map(|line| &line[4..]).collect();
        return format!("<pre>{}</pre>", escape(&code.join("\n")));
    }
    if lines.first().is_some_and(|line| line.starts_with('|')) {
        return table(&lines);
    }
    format!("<p>{}</p>", inline(text))
}

fn table(lines: &[&str]) -> String {
    let row = |line: &str, cell: &str| {
        let cells = line.trim_matches('|').split('|').map(|text| format!("<{cell}>{}</{cell}>", inline(text.trim())));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let head = lines.first().map(|line| row(line, "th")).unwrap_or_default();
    let body: String = lines.iter().skip(2).map(|line| row(line, "td")).collect();
    format!("<table>{head}{body}</table>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(inline("a <b> `<i>` **&**"), "a &lt;b&gt; <code>&lt;i&gt;</code> <b>&amp;</b>");
        assert_eq!(escape("\"'"), "&quot;&#39;");
    }

    #[test]
    fn blocks_are_told_apart() {
        let html = blocks("one\ntwo\n\n    code <x>\n\n| a | b |\n|---|---|\n| `1` | 2 |");
        assert_eq!(
            html,
            "<p>one\ntwo</p><pre>code &lt;x&gt;</pre><table><tr><th>a</th><th>b</th></tr>\
             <tr><td><code>1</code></td><td>2</td></tr></table>"
        );
    }
}

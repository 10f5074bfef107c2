//! Groups of methods: each has the handles that it needs, and knows only groups that are made before it.

/// Makes a group of methods with the handles that it shares with others; its own values come after the semicolon.
macro_rules! group {
    ($name:ident = $($shared:ident)* $(; $($own:ident $(: $value:expr)?),*)?) => {
        std::sync::Arc::new($name {
            $($shared: std::sync::Arc::clone(&$shared),)*
            $($($own $(: $value)?,)*)?
        })
    };
}

//! Groups of methods: each has the handles that it needs, and knows only groups that are made before it.

/// Makes a group of methods with the handles that it shares with others; after the semicolon: the values that are its own.
macro_rules! group {
    ($name:ident = $($shared:ident)* $(; $($own:ident $(: $value:expr)?),*)?) => {
        std::sync::Arc::new($name {
            $($shared: std::sync::Arc::clone(&$shared),)*
            $($($own $(: $value)?,)*)?
        })
    };
}

//! Operations of a plan, distinguished by their kinds.

/// A match of a step by the kind of its operation, which is read where it is used. (A match of an enum of all
/// operations makes the program 8 kB larger.)
macro_rules! of_kind {
    (match $step:ident { $($kind:ident($op:pat) $(if $guard:expr)? => $then:expr,)* $(_ $(if $known:expr)? => $else:expr,)* }) => {
        match $step.code {
            $(crate::ops::$kind::CODE $(if $guard)? => {
                let $op = $step.read::<crate::ops::$kind>();
                $then
            })*
            $(_ $(if $known)? => $else,)*
        }
    };
}
pub(crate) use of_kind;

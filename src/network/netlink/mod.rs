//! The encoders: rtnetlink ([`link`], [`filter`]) and nf_tables ([`nft`], [`compat`]) messages as bytes, on [`message`].

pub(crate) mod compat;
pub(crate) mod filter;
pub(crate) mod link;
pub(crate) mod message;
pub(crate) mod nft;

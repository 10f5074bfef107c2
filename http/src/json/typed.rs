//! Checked values as typed requests, without another form between the two.

use super::{Member, Members, Node};
use crate::schema;
use serde::de::value::{CowStrDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Error;

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Node::Null => visitor.visit_unit(),
            Node::Bool(flag) => visitor.visit_bool(flag),
            number @ Node::Number(_) => super::to_value(&number).deserialize_any(visitor),
            Node::Text(text) => CowStrDeserializer::new(text).deserialize_any(visitor),
            Node::List(items) => {
                let count = items.len();
                let mut items = SeqDeserializer::new(items.into_iter());
                let value = visitor.visit_seq(&mut items)?;
                let is_taken = items.end().map_err(|_: Error| ()).is_ok();
                if is_taken { Ok(value) } else { Err(Error::invalid_length(count, &"fewer elements in array")) }
            }
            Node::Object(fields) => visitor.visit_map(MapDeserializer::new(fields.into_iter())),
            Node::Large(members) => visitor.visit_map(Reading::new(members)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self == Node::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        super::to_value(&self).deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Error> for Node<'de> {
    type Deserializer = Node<'de>;

    fn into_deserializer(self) -> Node<'de> {
        self
    }
}

/// Members that are read as they are asked for.
struct Reading<'de, I> {
    members: I,
    of: Option<&'static schema::Shape>,
    value: Option<Node<'de>>,
}

impl<'de> Reading<'de, ()> {
    fn new(members: Members<'de>) -> Reading<'de, impl Iterator<Item = Member<'de>>> {
        Reading { members: members.iter(), of: members.of, value: None }
    }
}

impl<'de, I: Iterator<Item = Member<'de>>> MapAccess<'de> for Reading<'de, I> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.members.next() else { return Ok(None) };
        self.value = Some(match self.of {
            Some(shape) => schema::checked(value, shape).map_err(Error::custom)?,
            None => value,
        });
        seed.deserialize(CowStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.value.take().unwrap_or(Node::Null))
    }
}

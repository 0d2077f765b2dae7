//! Messages to bytes and back. Like tonic's own protobuf codec, but a message that cannot be read is told in
//! the contract's words, and decoding runs over one flat slice.

use std::marker::PhantomData;

use bytes::Buf;
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Decodes `Q`, encodes `A`.
#[derive(Debug)]
pub(super) struct WireCodec<Q, A>(PhantomData<fn() -> (Q, A)>);

impl<Q, A> Default for WireCodec<Q, A> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Q, A> Codec for WireCodec<Q, A>
where
    Q: Message + Default + 'static,
    A: Message + 'static,
{
    type Encode = A;
    type Decode = Q;
    type Encoder = WireEncoder<A>;
    type Decoder = WireDecoder<Q>;

    fn encoder(&mut self) -> WireEncoder<A> {
        WireEncoder(PhantomData)
    }

    fn decoder(&mut self) -> WireDecoder<Q> {
        WireDecoder(PhantomData)
    }
}

#[derive(Debug)]
pub(super) struct WireEncoder<A>(PhantomData<fn() -> A>);

impl<A: Message> Encoder for WireEncoder<A> {
    type Item = A;
    type Error = Status;

    fn encode(&mut self, message: A, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message
            .encode(out)
            .map_err(|error| Status::internal(format!("grpc: error while marshaling: {error}")))
    }
}

#[derive(Debug)]
pub(super) struct WireDecoder<Q>(PhantomData<fn() -> Q>);

impl<Q: Message + Default> Decoder for WireDecoder<Q> {
    type Item = Q;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Q>, Status> {
        decode(source)
            .map(Some)
            .map_err(|error| Status::internal(format!("grpc: error unmarshalling request: {error}")))
    }
}

/// The message that has arrived. It lies in one piece, so the first slice is all of it.
pub(crate) fn decode<M: Message + Default>(source: &mut DecodeBuf<'_>) -> Result<M, DecodeError> {
    let flat = source.chunk();
    let bytes = flat.len();
    let message = M::decode(flat)?;
    source.advance(bytes);
    Ok(message)
}

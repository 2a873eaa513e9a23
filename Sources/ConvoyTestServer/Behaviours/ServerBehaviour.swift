/// The ways, right and wrong, in which servers treat a client that resumes a download, for use with
/// `TestServer.route(_:behaving:size:seed:)`.
///
/// Whatever a server does, a client must end with the right bytes or with an error. `outcomes` lists the possible
/// outcomes of a download that is paused halfway and resumed, `isHonest` marks behaviours for which an error is the
/// client's fault, and `isUndetectable` those whose wrong bytes no client can detect.
public enum ServerBehaviour: String, CaseIterable, Sendable, Codable {
    // MARK: As in RFC 9110

    /// A strong `ETag`; `If-Range` and `Range` are evaluated; correct 206 and 416.
    case honest
    /// Like `honest`, with a `Last-Modified` years before `Date`, and no `ETag`.
    case honestByDate
    /// Like `honest`, with the complete body in chunks, so that the client does not know its length at first.
    case honestInChunks
    /// Chunks with trailer fields that look like validators, lengths and ranges (RFC 9110, section 6.5).
    case misleadingTrailers
    /// 103 responses before the 206, with their own `ETag`, `Content-Length` and `Content-Range`.
    case misleadingInterimResponses
    /// Always a 200 with the complete body and `Accept-Ranges: none`.
    case ignoresRange
    /// No validators, and different bytes each time; ranges are served.
    case noValidator
    /// A weak `ETag` that stays the same while the bytes change, as weak tags may; `If-Range` never matches it.
    case weakEntityTag
    /// A different representation with a different `ETag` for each request.
    case changesBetweenRequests
    /// Like `changesBetweenRequests`, with each representation half as long as the previous one.
    case shrinksBetweenRequests
    /// A 206 with half of the requested range and a correct `Content-Range`, which is allowed.
    case partOfRange
    /// Every request is redirected to an honest URL.
    case redirectsAlways
    /// The complete body as gzip with a strong `ETag`; ranges refer to the encoded bytes.
    case gzip
    /// A gzip body of two members (RFC 1952, section 2.2).
    case gzipOfTwoMembers
    /// A 203 instead of a 200.
    case nonAuthoritative

    // MARK: Validators

    /// A different representation for each request, and `If-Range` is ignored: a 206 of the new one, with its own
    /// `ETag`.
    case ignoresIfRange
    /// Like `ignoresIfRange`, with the complete body in chunks.
    case ignoresIfRangeInChunks
    /// Like `ignoresIfRange`, with `Last-Modified` as the only validator.
    case ignoresIfRangeByDate
    /// Like `ignoresIfRange`, but the 206 has no `ETag`, although RFC 9110, section 15.3.7, requires it.
    case partWithoutEntityTag
    /// Like `ignoresIfRangeByDate`, but the 206 has no `Last-Modified`.
    case partWithoutLastModified
    /// A strong `ETag` on the 200, and the same tag as a weak one on a 206 of different bytes.
    case partWithWeakEntityTag
    /// A 206 of a different entity, as its `ETag` shows.
    case partWithOtherEntityTag
    /// Validators on the 206 only, and different bytes each time.
    case validatorsOnPartOnly
    /// A weak `ETag` that `If-Range` matches as if it were strong, and different bytes each time.
    case weakEntityTagTakenForStrong
    /// `w/"…"`, which is not an entity tag, and different bytes each time.
    case lowercaseWeakEntityTag
    /// An `ETag` without quotes; the bytes stay the same.
    case unquotedEntityTag
    /// An `ETag` with a quote inside; the bytes stay the same.
    case quoteInsideEntityTag
    /// `ETag: ""`, which is a strong tag; the bytes stay the same.
    case emptyEntityTag
    /// Two `ETag` fields, one of which never changes, and different bytes each time.
    case twoEntityTags
    /// `Last-Modified` changes; the strong `ETag` and the bytes stay the same.
    case lastModifiedChangesAlone
    /// `Last-Modified` is the time of the response, and the bytes change within that second.
    case youngLastModified
    /// `Last-Modified` is after `Date`, and the bytes change.
    case futureLastModified
    /// An old `Last-Modified` that stays the same, no `Date`, and different bytes each time.
    case lastModifiedWithoutDate
    /// A `Last-Modified` that is not a date, and different bytes each time.
    case unreadableLastModified
    /// Dates with years that overflow a machine word, and different bytes each time.
    case overflowingDates
    /// One strong `ETag` that never changes, and different bytes each time.
    case entityTagNeverChanges
    /// One old `Last-Modified` that never changes, and different bytes each time.
    case lastModifiedNeverChanges

    // MARK: Ranges

    /// The range begins one byte before or after the requested one, with a matching `Content-Range`.
    case rangeOffByOne
    /// The right bytes under a `Content-Range` that begins one byte later.
    case contentRangeOffByOne
    /// Bytes from another offset under the requested `Content-Range`.
    case bytesFromAnotherOffset
    /// The right bytes under a `Content-Range` with a wrong complete length.
    case otherCompleteLength
    /// A 206 without a `Content-Range`.
    case noContentRange
    /// Two `Content-Range` fields that differ.
    case twoContentRanges
    /// A `Content-Range` that ends before it begins.
    case invertedContentRange
    /// A `Content-Range` without its unit.
    case contentRangeWithoutUnit
    /// A `Content-Range` in a unit other than bytes.
    case otherRangeUnit
    /// A `Content-Range` with negative numbers.
    case negativeContentRange
    /// A `Content-Range` with numbers that overflow a machine word.
    case overflowingContentRange
    /// `multipart/byteranges` for a single range.
    case multipartByteranges
    /// Like `multipartByteranges`, with a `Content-Range` for the entire response.
    case multipartByterangesWithContentRange
    /// The complete body as a 206 from its first byte.
    case wholeAsPart
    /// A 206 for a request without `Range`.
    case unaskedPart
    /// The complete body at first, then always a 206, even without `Range`.
    case unaskedPartLater
    /// A 200 with only the rest of the body, its `Content-Range` and the `ETag` of the complete body.
    case restAsWhole

    // MARK: Lengths

    /// The complete body in chunks; the 206 is half of the requested range, and states the total length.
    case partOfPartAfterChunks
    /// The complete body in chunks; the 206 is half of the requested range, with the total `*`.
    case partOfPartWithUnknownTotal
    /// The complete body in chunks; the 206 has a correct `Content-Range`, but its body ends early with the connection.
    case partCutAtConnectionClose
    /// The complete body in chunks; the 206 has a correct `Content-Range`, but its chunks end early, with a proper last
    /// chunk.
    case partEndsEarlyInChunks
    /// The complete body in chunks; the 206 has a correct `Content-Range`, but fewer bytes, with a matching
    /// `Content-Length`.
    case partWithSmallerContentLength
    /// A correct `Content-Range` and body, but a `Content-Length` that is five bytes larger.
    case partWithLargerContentLength
    /// Five bytes more than specified by the `Content-Range`, and a `Content-Length` that includes them.
    case partWithExtraBytes
    /// Like `partWithExtraBytes`, with the complete body in chunks.
    case partWithExtraBytesAfterChunks
    /// Five bytes more than specified by the `Content-Range`, in chunks.
    case partWithExtraBytesInChunks
    /// A `Content-Length` that overflows a machine word, on the 206.
    case overflowingContentLength
    /// Chunks, and a `Content-Length` of half the body (RFC 9112, section 6.3).
    case contentLengthBesideChunks

    // MARK: Encodings

    /// The unencoded body at first; for a range request, the complete body as gzip.
    case gzipAnswerToRange
    /// The unencoded body at first; the 206 is a part of the gzip bytes, with a `Content-Encoding`.
    case gzipPart
    /// The body as gzip at first; the 206 is a part of the unencoded bytes.
    case identityPartOfGzip
    /// Like `identityPartOfGzip`, with the gzip in chunks and two `Content-Encoding` fields: `gzip`, then `identity`.
    case gzipThenIdentity
    /// `Transfer-Encoding: gzip, chunked`.
    case gzipTransferCoding
    /// A truncated gzip body with a matching `Content-Length`.
    case gzipCutShort
    /// A `Content-Encoding` that no client supports.
    case unknownContentEncoding

    // MARK: Statuses

    /// A 416 with the true length for every range request.
    case alwaysUnsatisfiable
    /// A 416 with the client's offset as the complete length, although the 200 had a different one.
    case unsatisfiableAtOffset
    /// Like `unsatisfiableAtOffset`, but the client does not know the length, because the body was sent in chunks.
    case unsatisfiableAtOffsetAfterChunks
    /// A 416 without a `Content-Range`.
    case unsatisfiableWithoutLength
    /// A 204 for a range request.
    case noContent
    /// A 200 for a range request, with an empty body and its own `ETag`.
    case emptyWhole
    /// A 304 for a range request.
    case notModified
    /// A 412 for a range request.
    case preconditionFailed
    /// A 410 for a range request.
    case gone
    /// A 500 for a range request.
    case serverError
    /// A 503 for the first request, then honest responses.
    case unavailableAtFirst
    /// A 503 for the second request, and honest responses otherwise.
    case unavailableOnResume

    // MARK: Redirects

    /// A range request is redirected to a URL with the same bytes and `ETag`.
    case redirectsRange
    /// A range request is redirected to a URL with different bytes and a different `ETag`, which ignores `If-Range`.
    case redirectsRangeToOtherEntity
    /// A range request is redirected to a URL with different bytes and the same `ETag`.
    case redirectsRangeToEqualEntityTag
    /// A range request is redirected to a URL that responds with 200 and different bytes.
    case redirectsRangeToWhole

    // MARK: Connections

    /// Most connections are closed normally before the `Content-Length` is reached.
    case cutAtContentLength
    /// Most connections are reset halfway through the response.
    case resets
    /// Most responses stop halfway with the connection open, so only a timeout ends them.
    case stalls
    /// Most connections are closed inside or between the chunks of the response.
    case cutInChunks
    /// Neither `Content-Length` nor chunks, and most responses are truncated. A truncated 200 is then acceptable,
    /// because nothing distinguishes it from a complete one (RFC 9112, section 6.3).
    case cutAtConnectionClose
    /// The head of a 206 without a body, as if the request had been a HEAD; the connection stays open.
    case answersLikeHEAD
    /// Half of the connections are closed before the response head ("empty reply").
    case closesBeforeHead
    /// Half of the connections are reset before the response head.
    case resetsBeforeHead
    /// Half of the responses end inside their head.
    case cutInHead
    /// A 101 for a range request, followed by bytes of another protocol.
    case switchesProtocols
    /// A response to a range request that is not HTTP.
    case notHTTP
}

/// The ways, right and wrong, in which servers treat a client that resumes a download; for
/// `TestServer.route(_:behaving:size:seed:)`.
///
/// Whatever a server does, a client must end with the right bytes or with an error. `outcomes` lists the possible
/// outcomes of a download that is paused in the middle and resumed, `isHonest` marks behaviours with which an error is
/// the client's fault, and `isUndetectable` those whose wrong bytes no client can detect.
public enum ServerBehaviour: String, CaseIterable, Sendable, Codable {
    // MARK: As in RFC 9110

    /// A strong `ETag`; `If-Range` and `Range` are evaluated; correct 206 and 416.
    case honest
    /// The same with a `Last-Modified` years before `Date`, and no `ETag`.
    case honestByDate
    /// The same as `honest`, with the whole body in chunks, so that the client does not know its length at first.
    case honestInChunks
    /// Chunks with trailer fields that look like validators, lengths and ranges (RFC 9110, section 6.5).
    case misleadingTrailers
    /// 103 responses before the 206, with an `ETag`, a `Content-Length` and a `Content-Range` of their own.
    case misleadingInterimResponses
    /// Always 200 and the whole body, with `Accept-Ranges: none`.
    case ignoresRange
    /// No validator at all, and other bytes each time; ranges are served.
    case noValidator
    /// A weak `ETag` that stays the same while the bytes change, as weak tags may; `If-Range` never matches it.
    case weakEntityTag
    /// Another representation with another `ETag` for each request.
    case changesBetweenRequests
    /// The same, each half as long as the one before.
    case shrinksBetweenRequests
    /// 206 with half of the requested range and a correct `Content-Range`, which is allowed.
    case partOfRange
    /// Every request is redirected to an honest URL.
    case redirectsAlways
    /// The whole body as gzip with a strong `ETag`; ranges refer to the encoded bytes.
    case gzip
    /// A gzip body of two members (RFC 1952, section 2.2).
    case gzipOfTwoMembers
    /// 203 in place of 200.
    case nonAuthoritative

    // MARK: Validators

    /// Another representation for each request, and `If-Range` is ignored: a 206 of the new one, with its own `ETag`.
    case ignoresIfRange
    /// The same, with the whole body in chunks.
    case ignoresIfRangeInChunks
    /// The same, with `Last-Modified` as the only validator.
    case ignoresIfRangeByDate
    /// The same, and the 206 has no `ETag` (RFC 9110, section 15.3.7 demands it).
    case partWithoutEntityTag
    /// The same with dates, and the 206 has no `Last-Modified`.
    case partWithoutLastModified
    /// A strong `ETag` on the 200, and the same tag as a weak one on the 206 of other bytes.
    case partWithWeakEntityTag
    /// A 206 of something else, as its `ETag` shows.
    case partWithOtherEntityTag
    /// Validators on the 206 only, and other bytes each time.
    case validatorsOnPartOnly
    /// A weak `ETag` that `If-Range` matches as if it were strong, and other bytes each time.
    case weakEntityTagTakenForStrong
    /// `w/"…"`, which is not an entity tag, and other bytes each time.
    case lowercaseWeakEntityTag
    /// An `ETag` without quotes; the bytes stay the same.
    case unquotedEntityTag
    /// An `ETag` with a quote inside; the bytes stay the same.
    case quoteInsideEntityTag
    /// `ETag: ""`, which is a strong tag; the bytes stay the same.
    case emptyEntityTag
    /// Two `ETag` fields, one of which never changes, and other bytes each time.
    case twoEntityTags
    /// `Last-Modified` changes; the strong `ETag` and the bytes stay the same.
    case lastModifiedChangesAlone
    /// `Last-Modified` is the time of the response, and the bytes change within that second.
    case youngLastModified
    /// `Last-Modified` is after `Date`, and the bytes change.
    case futureLastModified
    /// An old `Last-Modified` that stays the same, no `Date`, and other bytes each time.
    case lastModifiedWithoutDate
    /// A `Last-Modified` that is not a date, and other bytes each time.
    case unreadableLastModified
    /// Dates with years that overflow a machine word, and other bytes each time.
    case overflowingDates
    /// One strong `ETag` that never changes, and other bytes each time.
    case entityTagNeverChanges
    /// One old `Last-Modified` that never changes, and other bytes each time.
    case lastModifiedNeverChanges

    // MARK: Ranges

    /// The range begins one byte before or after the requested one, with a matching `Content-Range`.
    case rangeOffByOne
    /// The right bytes under a `Content-Range` that begins one byte later.
    case contentRangeOffByOne
    /// Bytes from another offset under the requested `Content-Range`.
    case bytesFromAnotherOffset
    /// The right bytes under a `Content-Range` with another complete length.
    case otherCompleteLength
    /// A 206 without a `Content-Range`.
    case noContentRange
    /// Two `Content-Range` fields that differ.
    case twoContentRanges
    /// A `Content-Range` that ends before it begins.
    case invertedContentRange
    /// A `Content-Range` without its unit.
    case contentRangeWithoutUnit
    /// A `Content-Range` in another unit than bytes.
    case otherRangeUnit
    /// A `Content-Range` with negative numbers.
    case negativeContentRange
    /// A `Content-Range` with numbers that overflow a machine word.
    case overflowingContentRange
    /// `multipart/byteranges` for a single range.
    case multipartByteranges
    /// The same, with a `Content-Range` of the whole response.
    case multipartByterangesWithContentRange
    /// The whole body as a 206 from its first byte.
    case wholeAsPart
    /// A 206 to a request that had no `Range`.
    case unaskedPart
    /// The whole body at first, then always a 206, even without `Range`.
    case unaskedPartLater
    /// 200 with only the rest of the body, its `Content-Range` and the `ETag` of the whole.
    case restAsWhole

    // MARK: Lengths

    /// The whole body in chunks; the 206 is half of the requested range, and states the total length.
    case partOfPartAfterChunks
    /// The whole body in chunks; the 206 is half of the requested range, with the total `*`.
    case partOfPartWithUnknownTotal
    /// The whole body in chunks; a correct `Content-Range`, but the body ends early with the connection.
    case partCutAtConnectionClose
    /// The whole body in chunks; a correct `Content-Range`, but the chunks end early, with a proper last chunk.
    case partEndsEarlyInChunks
    /// The whole body in chunks; a correct `Content-Range`, but fewer bytes, with a matching `Content-Length`.
    case partWithSmallerContentLength
    /// A correct `Content-Range` and body, but a `Content-Length` that is five bytes larger.
    case partWithLargerContentLength
    /// Five bytes more than the `Content-Range` says, and a `Content-Length` that includes them.
    case partWithExtraBytes
    /// The same, with the whole body in chunks.
    case partWithExtraBytesAfterChunks
    /// Five bytes more than the `Content-Range` says, in chunks.
    case partWithExtraBytesInChunks
    /// A `Content-Length` that overflows a machine word, on the 206.
    case overflowingContentLength
    /// Chunks, and a `Content-Length` of half the body beside them (RFC 9112, section 6.3).
    case contentLengthBesideChunks

    // MARK: Encodings

    /// Identity at first; in response to a `Range` the whole body as gzip.
    case gzipAnswerToRange
    /// Identity at first; the 206 is a part of the gzip bytes, with a `Content-Encoding`.
    case gzipPart
    /// gzip at first; the 206 is a part of the identity bytes.
    case identityPartOfGzip
    /// The same with the gzip in chunks, under two `Content-Encoding` fields: `gzip`, then `identity`.
    case gzipThenIdentity
    /// `Transfer-Encoding: gzip, chunked`.
    case gzipTransferCoding
    /// A truncated gzip body with a matching `Content-Length`.
    case gzipCutShort
    /// A `Content-Encoding` that no client knows.
    case unknownContentEncoding

    // MARK: Statuses

    /// 416 with the true length to every `Range`.
    case alwaysUnsatisfiable
    /// 416 with the client's offset as the complete length, though the 200 had another one.
    case unsatisfiableAtOffset
    /// The same, but the client knows no length, because the whole body came in chunks.
    case unsatisfiableAtOffsetAfterChunks
    /// 416 without a `Content-Range`.
    case unsatisfiableWithoutLength
    /// 204 to a `Range`.
    case noContent
    /// 200 with an empty body, and an `ETag` of its own, to a `Range`.
    case emptyWhole
    /// 304 to a `Range`.
    case notModified
    /// 412 to a `Range`.
    case preconditionFailed
    /// 410 to a `Range`.
    case gone
    /// 500 to a `Range`.
    case serverError
    /// 503 to the first request, then honest.
    case unavailableAtFirst
    /// 503 to the second request, honest otherwise.
    case unavailableOnResume

    // MARK: Redirects

    /// A `Range` is redirected to a URL with the same bytes and `ETag`.
    case redirectsRange
    /// A `Range` is redirected to a URL with other bytes and another `ETag`, which ignores `If-Range`.
    case redirectsRangeToOtherEntity
    /// A `Range` is redirected to a URL with other bytes and an equal `ETag`.
    case redirectsRangeToEqualEntityTag
    /// A `Range` is redirected to a URL that answers 200 with other bytes.
    case redirectsRangeToWhole

    // MARK: Connections

    /// Most answers are closed normally before their `Content-Length` is reached.
    case cutAtContentLength
    /// Most answers are reset in the middle.
    case resets
    /// Most answers stop in the middle, with the connection open: only a timeout ends them.
    case stalls
    /// Most answers, in chunks, are closed inside or between them.
    case cutInChunks
    /// Neither `Content-Length` nor chunks, and most answers are truncated: a truncated 200 is then acceptable, as
    /// nothing distinguishes it from a complete one (RFC 9112, section 6.3).
    case cutAtConnectionClose
    /// The head of a 206 with no body after it, as if the request had been a HEAD; the connection stays open.
    case answersLikeHEAD
    /// Half of the answers are closed before their head ("empty reply").
    case closesBeforeHead
    /// Half of the answers are reset before their head.
    case resetsBeforeHead
    /// Half of the answers end inside their head.
    case cutInHead
    /// 101 to a `Range`, with bytes of another protocol after it.
    case switchesProtocols
    /// Bytes that are not HTTP to a `Range`.
    case notHTTP
}

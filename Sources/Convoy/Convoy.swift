// The umbrella module: everything that a program needs for requests, under one import.
@_exported import ConvoyCache
@_exported import ConvoyCookies
@_exported import ConvoyDiagnostics
@_exported import ConvoyDownloads
@_exported import ConvoyOperations
@_exported import ConvoyReachability
@_exported import ConvoyRealtime
@_exported import ConvoySecurity
@_exported import ConvoySerialization
@_exported import ConvoySession
@_exported import ConvoySharedQueue
@_exported import ConvoyTransport
@_exported import ConvoyUploads

// swift-tools-version: 6.2
import PackageDescription

let swiftSettings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    // A newer C library deprecates what an older one has nothing else for.
    .treatWarning("DeprecatedDeclaration", as: .warning),
]

let package = Package(
    name: "Convoy",
    products: [
        .library(name: "Convoy", targets: ["Convoy"]),
        .library(name: "ConvoySecurity", targets: ["ConvoySecurity"]),
        .library(name: "ConvoyTransport", targets: ["ConvoyTransport"]),
        .library(name: "ConvoySerialization", targets: ["ConvoySerialization"]),
        .library(name: "ConvoyCookies", targets: ["ConvoyCookies"]),
        .library(name: "ConvoyCache", targets: ["ConvoyCache"]),
        .library(name: "ConvoyOperations", targets: ["ConvoyOperations"]),
        .library(name: "ConvoyDiagnostics", targets: ["ConvoyDiagnostics"]),
        .library(name: "ConvoyMigration", targets: ["ConvoyMigration"]),
        .library(name: "ConvoyDownloads", targets: ["ConvoyDownloads"]),
        .library(name: "ConvoySession", targets: ["ConvoySession"]),
        .library(name: "ConvoyRealtime", targets: ["ConvoyRealtime"]),
        .library(name: "ConvoyReachability", targets: ["ConvoyReachability"]),
        .library(name: "ConvoyObjectStorage", targets: ["ConvoyObjectStorage"]),
        .library(name: "ConvoyWorkflow", targets: ["ConvoyWorkflow"]),
        .library(name: "ConvoySharedQueue", targets: ["ConvoySharedQueue"]),
        // Empty without the trait `Postgres`.
        .library(name: "ConvoyPostgres", targets: ["ConvoyPostgres"]),
        .library(name: "ConvoyTestServer", targets: ["ConvoyTestServer"]),
        .library(name: "ConvoyUploads", targets: ["ConvoyUploads"]),
        // Empty without the trait `Images`.
        .library(name: "ConvoyImage", targets: ["ConvoyImage"]),
        // Empty without the trait `GTK`.
        .library(name: "ConvoyGTK", targets: ["ConvoyGTK"]),
        // Empty without the trait `WebKit`.
        .library(name: "ConvoyWebKit", targets: ["ConvoyWebKit"]),
        .executable(name: "convoy", targets: ["ConvoyTool"]),
    ],
    traits: [
        .trait(
            name: "Images",
            description: "Decoded, cached and processed pictures, in ConvoyImage. Needs gdk-pixbuf and Little CMS."),
        .trait(
            name: "GTK", description: "Widgets bound to requests, in ConvoyGTK. Needs GTK 4.", enabledTraits: ["Images"]),
        .trait(
            name: "WebKit", description: "Web views that load through the engine, in ConvoyWebKit. Needs WebKitGTK 6.",
            enabledTraits: ["GTK"]),
        .trait(name: "Postgres", description: "A shared queue on PostgreSQL, in ConvoyPostgres. Needs libpq."),
    ],
    targets: [
        .systemLibrary(
            name: "CCurl", pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"]), .yum(["libcurl-devel"]), .brew(["curl"])]),
        .systemLibrary(
            name: "COpenSSL", pkgConfig: "openssl",
            providers: [.apt(["libssl-dev"]), .yum(["openssl-devel"]), .brew(["openssl@3"])]),
        .systemLibrary(
            name: "CZlib", pkgConfig: "zlib",
            providers: [.apt(["zlib1g-dev"]), .yum(["zlib-devel"]), .brew(["zlib"])]),
        .systemLibrary(
            name: "CBrotli", pkgConfig: "libbrotlidec",
            providers: [.apt(["libbrotli-dev"]), .yum(["brotli-devel"]), .brew(["brotli"])]),
        .systemLibrary(
            name: "CZstd", pkgConfig: "libzstd",
            providers: [.apt(["libzstd-dev"]), .yum(["libzstd-devel"]), .brew(["zstd"])]),
        .systemLibrary(
            name: "CXML2", pkgConfig: "libxml-2.0",
            providers: [.apt(["libxml2-dev"]), .yum(["libxml2-devel"]), .brew(["libxml2"])]),
        .systemLibrary(
            name: "CPSL", pkgConfig: "libpsl",
            providers: [.apt(["libpsl-dev"]), .yum(["libpsl-devel"]), .brew(["libpsl"])]),
        .systemLibrary(
            name: "CSQLite", pkgConfig: "sqlite3",
            providers: [.apt(["libsqlite3-dev"]), .yum(["sqlite-devel"]), .brew(["sqlite"])]),
        .systemLibrary(
            name: "CYAML", pkgConfig: "yaml-0.1",
            providers: [.apt(["libyaml-dev"]), .yum(["libyaml-devel"]), .brew(["libyaml"])]),
        .systemLibrary(
            name: "CPostgres", pkgConfig: "libpq",
            providers: [.apt(["libpq-dev"]), .yum(["libpq-devel"]), .brew(["libpq"])]),
        .systemLibrary(name: "CEpoll"),
        .systemLibrary(
            name: "CGdkPixbuf", pkgConfig: "gdk-pixbuf-2.0",
            providers: [.apt(["libgdk-pixbuf-2.0-dev"]), .yum(["gdk-pixbuf2-devel"]), .brew(["gdk-pixbuf"])]),
        .systemLibrary(
            name: "CLCMS", pkgConfig: "lcms2",
            providers: [.apt(["liblcms2-dev"]), .yum(["lcms2-devel"]), .brew(["little-cms2"])]),
        .systemLibrary(
            name: "CGTK", pkgConfig: "gtk4",
            providers: [.apt(["libgtk-4-dev"]), .yum(["gtk4-devel"]), .brew(["gtk4"])]),
        .systemLibrary(
            name: "CWebKit", pkgConfig: "webkitgtk-6.0",
            providers: [.apt(["libwebkitgtk-6.0-dev"]), .yum(["webkitgtk6.0-devel"])]),

        // What several others need and nobody outside sees: no product, and `package` at most.
        .target(name: "ConvoySupport", dependencies: ["CEpoll"], swiftSettings: swiftSettings),
        .target(
            name: "ConvoySecurity", dependencies: ["COpenSSL", "ConvoySupport"], swiftSettings: swiftSettings),
        .target(
            name: "ConvoyTransport",
            dependencies: ["CCurl", "CEpoll", "CZlib", "CBrotli", "CZstd", "ConvoySecurity", "ConvoySupport"],
            swiftSettings: swiftSettings),
        .target(
            name: "ConvoySerialization", dependencies: ["CZlib", "CXML2", "ConvoySupport"],
            swiftSettings: swiftSettings),
        // SQLite, for those who keep something. No product either.
        .target(name: "ConvoyDatabase", dependencies: ["CSQLite", "ConvoySupport"], swiftSettings: swiftSettings),
        .target(
            name: "ConvoyCookies", dependencies: ["CPSL", "ConvoyDatabase", "ConvoySupport"],
            swiftSettings: swiftSettings),
        .target(
            name: "ConvoyCache", dependencies: ["ConvoyDatabase", "ConvoySecurity", "ConvoySupport"],
            swiftSettings: swiftSettings),
        .target(
            name: "ConvoyReachability", dependencies: ["CEpoll", "ConvoySupport"], swiftSettings: swiftSettings),
        .target(
            name: "ConvoyOperations",
            dependencies: [
                "CEpoll", "ConvoyTransport", "ConvoySerialization", "ConvoySecurity", "ConvoyCookies", "ConvoyCache",
                "ConvoyReachability", "ConvoySupport",
            ],
            swiftSettings: swiftSettings),
        // What is built on the event log and on the state of operations.
        .target(
            name: "ConvoyDiagnostics",
            dependencies: [
                "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoySupport", "ConvoyTransport",
            ],
            swiftSettings: swiftSettings),
        .target(
            name: "ConvoyDownloads",
            dependencies: [
                "CEpoll", "COpenSSL", "CXML2", "ConvoyDatabase", "ConvoyOperations", "ConvoySecurity",
                "ConvoySerialization", "ConvoySupport", "ConvoyTransport",
            ],
            swiftSettings: swiftSettings),
        .target(
            name: "ConvoyUploads",
            dependencies: [
                "CEpoll", "ConvoyDatabase", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization",
                "ConvoySupport", "ConvoyTransport",
            ],
            swiftSettings: swiftSettings),
        .target(
            name: "ConvoySession",
            dependencies: [
                "ConvoyCache", "ConvoyCookies", "ConvoyDownloads", "ConvoyOperations", "ConvoyReachability",
                "ConvoySecurity", "ConvoySerialization", "ConvoySupport", "ConvoyTransport", "ConvoyUploads",
            ],
            swiftSettings: swiftSettings),
        .target(
            name: "ConvoyRealtime",
            dependencies: [
                "ConvoyOperations", "ConvoyReachability", "ConvoySerialization", "ConvoySupport", "ConvoyTransport",
            ],
            swiftSettings: swiftSettings),
        .target(
            name: "Convoy",
            dependencies: [
                "ConvoyTransport", "ConvoySecurity", "ConvoySerialization", "ConvoyCookies", "ConvoyCache",
                "ConvoyDiagnostics", "ConvoyOperations", "ConvoyDownloads", "ConvoyReachability", "ConvoyRealtime",
                "ConvoySession", "ConvoyUploads",
            ],
            swiftSettings: swiftSettings),
        // AFNetworking's names, for a program that is being ported. Not part of the umbrella.
        .target(
            name: "ConvoyMigration",
            dependencies: [
                "ConvoyDiagnostics", "ConvoyDownloads", "ConvoyOperations", "ConvoyReachability", "ConvoyRealtime",
                "ConvoySecurity", "ConvoySerialization", "ConvoySession",
            ],
            swiftSettings: swiftSettings),
        // Not part of the umbrella: only a program that stores objects needs it.
        .target(
            name: "ConvoyObjectStorage",
            dependencies: [
                "CEpoll", "COpenSSL", "CXML2", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization",
                "ConvoySupport", "ConvoyTransport", "ConvoyUploads",
            ],
            swiftSettings: swiftSettings),
        // The queue that processes and machines share. Not part of the umbrella: most programs have no other machine.
        .target(
            name: "ConvoySharedQueue",
            dependencies: [
                "ConvoyDatabase", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization",
                "ConvoySupport", "ConvoyTransport", "ConvoyUploads",
            ],
            swiftSettings: swiftSettings),
        // Its store on PostgreSQL; empty without the trait `Postgres`.
        .target(
            name: "ConvoyPostgres",
            dependencies: [
                "CEpoll", "ConvoySharedQueue", "ConvoySupport",
                .target(name: "CPostgres", condition: .when(traits: ["Postgres"])),
            ],
            swiftSettings: swiftSettings),
        // Not part of the umbrella: a program that runs no manifests needs no libyaml.
        .target(
            name: "ConvoyWorkflow",
            dependencies: [
                "CXML2", "CYAML", "ConvoyCookies", "ConvoyDatabase", "ConvoyDiagnostics", "ConvoyDownloads",
                "ConvoyOperations", "ConvoyRealtime", "ConvoySecurity", "ConvoySerialization", "ConvoySupport",
                "ConvoyTransport",
            ],
            swiftSettings: swiftSettings),
        // Not part of the umbrella: only a program that decodes images needs gdk-pixbuf and Little CMS.
        .target(
            name: "ConvoyImage",
            dependencies: [
                "ConvoyCache", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoySupport",
                "ConvoyTransport",
                .target(name: "CGdkPixbuf", condition: .when(traits: ["Images"])),
                .target(name: "CLCMS", condition: .when(traits: ["Images"])),
            ],
            swiftSettings: swiftSettings),
        // Not part of the umbrella, as only a program with windows needs GTK.
        .target(
            name: "ConvoyGTK",
            dependencies: [
                "ConvoyDiagnostics", "ConvoyImage", "ConvoyOperations", "ConvoyRealtime", "ConvoySession", "ConvoySupport",
                "ConvoyTransport", .target(name: "CGTK", condition: .when(traits: ["GTK"])),
            ],
            swiftSettings: swiftSettings),
        .target(
            name: "ConvoyWebKit",
            dependencies: [
                "ConvoyDiagnostics", "ConvoyGTK", "ConvoyOperations", "ConvoySerialization", "ConvoySupport",
                "ConvoyTransport",
                .target(name: "CGTK", condition: .when(traits: ["GTK"])),
                .target(name: "CWebKit", condition: .when(traits: ["WebKit"])),
            ],
            swiftSettings: swiftSettings),
        .target(
            name: "ConvoyTestServer", dependencies: ["CEpoll", "COpenSSL", "ConvoySupport"], swiftSettings: swiftSettings),
        .executableTarget(
            name: "ConvoyTool",
            dependencies: [
                "CEpoll", "Convoy", "ConvoyDiagnostics", "ConvoyObjectStorage", "ConvoySharedQueue", "ConvoySupport",
                "ConvoyWorkflow",
                .target(name: "ConvoyPostgres", condition: .when(traits: ["Postgres"])),
            ],
            swiftSettings: swiftSettings),

        // Programs to read, which the tests run.
        .executableTarget(
            name: "ExampleReadme", dependencies: ["Convoy"], path: "Sources/Examples/Readme",
            swiftSettings: swiftSettings),
        .executableTarget(
            name: "ExampleSync", dependencies: ["Convoy"], path: "Sources/Examples/Sync", swiftSettings: swiftSettings),
        .executableTarget(
            name: "ExampleService", dependencies: ["Convoy"], path: "Sources/Examples/Service",
            swiftSettings: swiftSettings),
        .executableTarget(
            name: "ExamplePort", dependencies: ["Convoy"], path: "Sources/Examples/Port", swiftSettings: swiftSettings),
        // Says so and ends without the trait `GTK`.
        .executableTarget(
            name: "Gallery",
            dependencies: [
                "Convoy", "ConvoyGTK", "ConvoyImage", .target(name: "CGTK", condition: .when(traits: ["GTK"])),
            ],
            path: "Sources/Examples/Gallery", swiftSettings: swiftSettings),

        // Makes the bodies that the decoder's tests decode. In the same Debian package as CBrotli.
        .systemLibrary(
            name: "CBrotliEncoder", path: "Tests/CBrotliEncoder", pkgConfig: "libbrotlienc",
            providers: [.apt(["libbrotli-dev"]), .yum(["brotli-devel"]), .brew(["brotli"])]),
        .target(
            name: "ConvoyTestSupport", dependencies: ["CCurl", "CEpoll", "ConvoySupport"], path: "Tests/ConvoyTestSupport",
            swiftSettings: swiftSettings),
        // What monitors must hear, for the tests of all that is made of operations.
        .target(
            name: "ConvoyStorySupport", dependencies: ["ConvoyOperations", "ConvoyTestSupport", "ConvoyTransport"],
            path: "Tests/ConvoyStorySupport", swiftSettings: swiftSettings),
        // A second process for the tests of stores.
        .executableTarget(
            name: "StoreProgram",
            dependencies: [
                "ConvoyCookies", "ConvoyCache", "ConvoyDownloads", "ConvoyOperations", "ConvoySharedQueue", "ConvoySupport",
                "ConvoyTestSupport", "ConvoyUploads",
                .target(name: "ConvoyPostgres", condition: .when(traits: ["Postgres"])),
            ],
            path: "Tests/StoreProgram", swiftSettings: swiftSettings),
        // All parsers, for a fuzzer.
        .executableTarget(
            name: "FuzzProgram",
            dependencies: [
                "ConvoyCache", "ConvoyCookies", "ConvoyDatabase", "ConvoyDownloads", "ConvoyImage", "ConvoyObjectStorage",
                "ConvoyOperations", "ConvoyReachability", "ConvoyRealtime", "ConvoySecurity", "ConvoySerialization",
                "ConvoySharedQueue", "ConvoySupport", "ConvoyTransport", "ConvoyUploads", "ConvoyWorkflow",
            ],
            path: "Tests/FuzzProgram", exclude: ["Corpora"], swiftSettings: swiftSettings),
        .testTarget(
            name: "ModelTests",
            dependencies: ["ConvoyOperations", "ConvoySharedQueue", "ConvoyTestSupport", "ConvoyTransport"],
            exclude: ["Models"], swiftSettings: swiftSettings),
        // What most programs do, for the tests that make its calls fail.
        .executableTarget(
            name: "TortureProgram",
            dependencies: [
                "ConvoyCache", "ConvoyCookies", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity",
                "ConvoySerialization", "ConvoySharedQueue", "ConvoySupport", "ConvoyUploads",
                .target(name: "ConvoyPostgres", condition: .when(traits: ["Postgres"])),
            ],
            path: "Tests/TortureProgram", swiftSettings: swiftSettings),
        .testTarget(
            name: "TortureTests",
            dependencies: ["ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport", "ConvoyTool", "TortureProgram"],
            exclude: ["calls.h", "failing_calls.c"], swiftSettings: swiftSettings),
        .testTarget(name: "FuzzTests", dependencies: ["ConvoyTool", "FuzzProgram"], swiftSettings: swiftSettings),
        // Widgets on a display of their own, for the tests of the modules with widgets. Says so and ends without the trait `GTK`.
        .executableTarget(
            name: "WidgetProgram",
            dependencies: [
                "ConvoyCookies", "ConvoyDiagnostics", "ConvoyGTK", "ConvoyWebKit", "ConvoyImage", "ConvoyOperations",
                "ConvoyRealtime", "ConvoySerialization", "ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport",
                .target(name: "CGTK", condition: .when(traits: ["GTK"])),
                .target(name: "CWebKit", condition: .when(traits: ["WebKit"])),
            ],
            path: "Tests/WidgetProgram", swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyTestServerTests", dependencies: ["ConvoyTestServer", "ConvoyTestSupport"],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyTestSupportTests", dependencies: ["ConvoyTestSupport"], swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoySupportTests", dependencies: ["ConvoySupport", "ConvoyTestSupport"],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoySecurityTests",
            dependencies: [
                "ConvoySecurity", "ConvoyOperations", "ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport",
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyDatabaseTests", dependencies: ["ConvoyDatabase", "ConvoySupport", "ConvoyTestSupport"],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyCookiesTests",
            dependencies: ["ConvoyCookies", "ConvoyDatabase", "ConvoySupport", "ConvoyTestSupport", "StoreProgram"],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyCacheTests",
            dependencies: ["ConvoyCache", "ConvoyDatabase", "ConvoySupport", "ConvoyTestSupport", "StoreProgram"],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoySerializationTests",
            dependencies: ["ConvoySerialization", "ConvoySupport", "CZlib", "ConvoyTestSupport"],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyTransportTests",
            dependencies: [
                "ConvoyTransport", "ConvoySecurity", "ConvoySupport", "CCurl", "CZlib", "CZstd", "CBrotliEncoder",
                "ConvoyTestServer",
                "ConvoyTestSupport",
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyOperationsTests",
            dependencies: [
                "ConvoyOperations", "ConvoyCookies", "ConvoyCache", "ConvoyDiagnostics", "ConvoyStorySupport",
                "ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport",
            ],
            exclude: ["Retry/decisions.txt"], swiftSettings: swiftSettings),
        // The engine on simulated threads, in every order.
        .testTarget(
            name: "SimulationTests",
            dependencies: [
                "ConvoyDownloads", "ConvoyOperations", "ConvoyRealtime", "ConvoySerialization", "ConvoySupport",
                "ConvoyTestSupport", "ConvoyTransport",
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyDownloadsTests",
            dependencies: [
                "ConvoyStorySupport",
                "ConvoyDownloads", "ConvoyDatabase", "ConvoyOperations", "ConvoySecurity", "ConvoySupport",
                "ConvoyTestServer", "ConvoyTestSupport", "ConvoyTransport", "StoreProgram",
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoySessionTests",
            dependencies: [
                "ConvoyStorySupport",
                "ConvoySession", "ConvoyCache", "ConvoyCookies", "ConvoyDiagnostics", "ConvoyDownloads", "ConvoyOperations",
                "ConvoySecurity", "ConvoySerialization", "ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport",
                "ConvoyTransport",
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyRealtimeTests",
            dependencies: [
                "ConvoyRealtime", "ConvoyOperations", "ConvoyReachability", "ConvoySerialization", "ConvoySession",
                "ConvoyStorySupport", "ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport", "ConvoyTransport",
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyObjectStorageTests",
            dependencies: [
                "ConvoyObjectStorage", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization",
                "ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport", "ConvoyTransport", "ConvoyUploads",
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyReachabilityTests",
            dependencies: [
                "ConvoyDownloads", "ConvoyOperations", "ConvoyReachability", "ConvoySession", "ConvoySupport",
                "ConvoyTestServer", "ConvoyTestSupport",
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyRoundTripTests",
            dependencies: ["ConvoyOperations", "ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport", "ConvoyTransport"],
            swiftSettings: swiftSettings),
        // The executor of the caller after each public async function.
        .testTarget(
            name: "ExecutorTests",
            dependencies: [
                "Convoy", "ConvoyImage", "ConvoyObjectStorage", "ConvoySharedQueue", "ConvoySupport", "ConvoyTestServer",
                "ConvoyTestSupport", "ConvoyWorkflow",
            ],
            swiftSettings: swiftSettings),
        // Recorded responses with faults.
        .testTarget(
            name: "NetworkFaultTests",
            dependencies: [
                "CEpoll", "COpenSSL", "ConvoyOperations", "ConvoySerialization", "ConvoySupport", "ConvoyTestSupport",
                "ConvoyTransport",
            ],
            exclude: ["Recordings"], swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyImageTests",
            dependencies: [
                "ConvoyImage", "ConvoyOperations", "ConvoyTestServer", "ConvoyTestSupport",
                .target(name: "CGdkPixbuf", condition: .when(traits: ["Images"])),
                .target(name: "CLCMS", condition: .when(traits: ["Images"])),
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyGTKTests",
            dependencies: [
                "ConvoyGTK", "ConvoyImage", "ConvoyOperations", "ConvoyRealtime", "ConvoySupport", "ConvoyTestServer",
                "ConvoyTestSupport", "Gallery", "WidgetProgram", .target(name: "CGTK", condition: .when(traits: ["GTK"])),
            ],
            exclude: ["Screenshots"], swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyWebKitTests",
            dependencies: [
                "ConvoyWebKit", "ConvoyOperations", "ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport",
                "WidgetProgram",
                .target(name: "CGTK", condition: .when(traits: ["GTK"])),
                .target(name: "CWebKit", condition: .when(traits: ["WebKit"])),
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyUploadsTests",
            dependencies: [
                "ConvoyUploads", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySupport",
                "ConvoyTestServer", "ConvoyTestSupport", "ConvoyTransport", "StoreProgram",
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoySharedQueueTests",
            dependencies: [
                "ConvoySharedQueue", "ConvoyDownloads", "ConvoyOperations", "ConvoySupport", "ConvoyTestServer",
                "ConvoyTestSupport", "StoreProgram",
                .target(name: "ConvoyPostgres", condition: .when(traits: ["Postgres"])),
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyWorkflowTests",
            dependencies: [
                "ConvoyWorkflow", "ConvoyOperations", "ConvoySerialization", "ConvoySupport", "ConvoyTestServer",
                "ConvoyTestSupport", "ConvoyTransport",
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ConvoyToolTests",
            dependencies: [
                "ConvoyTool", "Convoy", "ConvoyMigration", "ConvoySharedQueue", "ConvoySupport", "ConvoyTestServer",
                "ConvoyTestSupport", "ConvoyWorkflow",
                .target(name: "ConvoyPostgres", condition: .when(traits: ["Postgres"])),
            ],
            swiftSettings: swiftSettings),
        .testTarget(
            name: "ExampleTests",
            dependencies: [
                "Convoy", "ConvoyTestServer", "ConvoyTestSupport", "ExampleReadme", "ExampleSync", "ExampleService",
                "ExamplePort",
            ],
            swiftSettings: swiftSettings),
    ]
)

// The helpers of the tests are for the benchmarks, too, which are a package of their own beside this one. Who depends on
// Convoy does not see them.
if !Context.packageDirectory.contains("/checkouts/") {
    package.products.append(.library(name: "ConvoyTestSupport", targets: ["ConvoyTestSupport"]))
}

// The test targets to build, separated by commas: who works on one module need not build the tests of all (`Tests/quick`).
if let chosen = Context.environment["CONVOY_TESTS"]?.split(separator: ",").map(String.init) {
    package.targets.removeAll { $0.isTest && !chosen.contains($0.name) }
}

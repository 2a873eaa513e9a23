// swift-tools-version: 6.2
import PackageDescription

let swiftSettings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    // Newer C libraries deprecate functions for which older ones have no replacement.
    .treatWarning("DeprecatedDeclaration", as: .warning),
]

/// A system C library.
func library(
    _ name: String, _ pkgConfig: String? = nil, _ providers: [SystemPackageProvider]? = nil,
    in folder: String = "Sources/CLibraries"
) -> Target {
    .systemLibrary(name: name, path: "\(folder)/\(name)", pkgConfig: pkgConfig, providers: providers)
}

/// A dependency on a target that a trait enables.
func with(_ trait: String, _ target: String) -> Target.Dependency {
    .target(name: target, condition: .when(traits: [trait]))
}

/// A module of the library, in `Sources`.
func module(_ name: String, uses modules: [Target.Dependency]) -> Target {
    .target(name: name, dependencies: modules, swiftSettings: swiftSettings)
}

/// The tests of a module, or, in `Tests/Methods`, the tests that use a method such as fuzzing.
func tests(
    _ name: String, in folder: String = "Modules", of modules: [Target.Dependency] = [], exclude: [String] = []
) -> Target {
    .testTarget(
        name: name, dependencies: ["ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport"] + modules,
        path: "Tests/\(folder)/\(name)", exclude: exclude, swiftSettings: swiftSettings)
}

/// A program for tests.
func program(_ name: String, uses modules: [Target.Dependency], exclude: [String] = []) -> Target {
    .executableTarget(
        name: name, dependencies: modules, path: "Tests/Programs/\(name)", exclude: exclude, swiftSettings: swiftSettings)
}

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
            description: "Decoded, cached and processed pictures, in ConvoyImage. Needs gdk-pixbuf, libjpeg and Little CMS."),
        .trait(
            name: "GTK", description: "Widgets bound to requests, in ConvoyGTK. Needs GTK 4.", enabledTraits: ["Images"]),
        .trait(
            name: "WebKit", description: "Web views that load through the engine, in ConvoyWebKit. Needs WebKitGTK 6.",
            enabledTraits: ["GTK"]),
        .trait(name: "Postgres", description: "A shared queue on PostgreSQL, in ConvoyPostgres. Needs libpq."),
    ],
    targets: [
        library("CCurl", "libcurl", [.apt(["libcurl4-openssl-dev"]), .yum(["libcurl-devel"]), .brew(["curl"])]),
        library("COpenSSL", "openssl", [.apt(["libssl-dev"]), .yum(["openssl-devel"]), .brew(["openssl@3"])]),
        library("CZlib", "zlib", [.apt(["zlib1g-dev"]), .yum(["zlib-devel"]), .brew(["zlib"])]),
        library("CBrotli", "libbrotlidec", [.apt(["libbrotli-dev"]), .yum(["brotli-devel"]), .brew(["brotli"])]),
        library("CZstd", "libzstd", [.apt(["libzstd-dev"]), .yum(["libzstd-devel"]), .brew(["zstd"])]),
        library("CXML2", "libxml-2.0", [.apt(["libxml2-dev"]), .yum(["libxml2-devel"]), .brew(["libxml2"])]),
        library("CPSL", "libpsl", [.apt(["libpsl-dev"]), .yum(["libpsl-devel"]), .brew(["libpsl"])]),
        library("CSQLite", "sqlite3", [.apt(["libsqlite3-dev"]), .yum(["sqlite-devel"]), .brew(["sqlite"])]),
        library("CYAML", "yaml-0.1", [.apt(["libyaml-dev"]), .yum(["libyaml-devel"]), .brew(["libyaml"])]),
        library("CPostgres", "libpq", [.apt(["libpq-dev"]), .yum(["libpq-devel"]), .brew(["libpq"])]),
        library("CEpoll"),
        library(
            "CGdkPixbuf", "gdk-pixbuf-2.0",
            [.apt(["libgdk-pixbuf-2.0-dev"]), .yum(["gdk-pixbuf2-devel"]), .brew(["gdk-pixbuf"])]),
        library("CJPEG", "libjpeg", [.apt(["libjpeg-dev"]), .yum(["libjpeg-turbo-devel"]), .brew(["jpeg-turbo"])]),
        library("CLCMS", "lcms2", [.apt(["liblcms2-dev"]), .yum(["lcms2-devel"]), .brew(["little-cms2"])]),
        library("CGTK", "gtk4", [.apt(["libgtk-4-dev"]), .yum(["gtk4-devel"]), .brew(["gtk4"])]),
        library("CWebKit", "webkitgtk-6.0", [.apt(["libwebkitgtk-6.0-dev"]), .yum(["webkitgtk6.0-devel"])]),

        // Internals that several modules share. Not a product; its declarations are at most `package`.
        module("ConvoySupport", uses: ["CEpoll"]),
        module("ConvoySecurity", uses: ["COpenSSL", "ConvoySupport"]),
        module(
            "ConvoyTransport", uses: ["CCurl", "CEpoll", "CZlib", "CBrotli", "CZstd", "ConvoySecurity", "ConvoySupport"]),
        module("ConvoySerialization", uses: ["CZlib", "CXML2", "ConvoySupport"]),
        // SQLite, for the modules that store data. Not a product.
        module("ConvoyDatabase", uses: ["CSQLite", "ConvoySupport"]),
        module("ConvoyCookies", uses: ["CPSL", "ConvoyDatabase", "ConvoySupport"]),
        module("ConvoyCache", uses: ["ConvoyDatabase", "ConvoySecurity", "ConvoySupport"]),
        module("ConvoyReachability", uses: ["CEpoll", "ConvoySupport"]),
        module(
            "ConvoyOperations",
            uses: [
                "ConvoyTransport", "ConvoySerialization", "ConvoySecurity", "ConvoyCookies", "ConvoyCache",
                "ConvoyReachability", "ConvoySupport",
            ]),
        // HAR, curl commands, network activity and view bindings, which observe operations.
        module(
            "ConvoyDiagnostics",
            uses: [
                "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoySupport", "ConvoyTransport",
            ]),
        module(
            "ConvoyDownloads",
            uses: [
                "CEpoll", "COpenSSL", "CXML2", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoySupport",
                "ConvoyTransport",
            ]),
        module(
            "ConvoyUploads",
            uses: [
                "CEpoll", "ConvoyDatabase", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization",
                "ConvoySupport", "ConvoyTransport",
            ]),
        module(
            "ConvoySession",
            uses: [
                "ConvoyCache", "ConvoyCookies", "ConvoyDownloads", "ConvoyOperations", "ConvoyReachability",
                "ConvoySecurity", "ConvoySerialization", "ConvoySupport", "ConvoyTransport", "ConvoyUploads",
            ]),
        module(
            "ConvoyRealtime",
            uses: [
                "ConvoyOperations", "ConvoyReachability", "ConvoySerialization", "ConvoySupport", "ConvoyTransport",
            ]),
        module(
            "Convoy",
            uses: [
                "ConvoyTransport", "ConvoySecurity", "ConvoySerialization", "ConvoyCookies", "ConvoyCache",
                "ConvoyDiagnostics", "ConvoyOperations", "ConvoyDownloads", "ConvoyReachability", "ConvoyRealtime",
                "ConvoySession", "ConvoySharedQueue", "ConvoyUploads",
            ]),
        // AFNetworking's names, for programs that are being ported. Not part of the umbrella.
        module(
            "ConvoyMigration",
            uses: [
                "ConvoyDiagnostics", "ConvoyDownloads", "ConvoyOperations", "ConvoyReachability", "ConvoyRealtime",
                "ConvoySecurity", "ConvoySerialization", "ConvoySession",
            ]),
        // Not part of the umbrella, because few programs use object storage.
        module(
            "ConvoyObjectStorage",
            uses: [
                "CEpoll", "COpenSSL", "CXML2", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoySupport",
                "ConvoyTransport", "ConvoyUploads",
            ]),
        // The persistent queue, for one process or several.
        module(
            "ConvoySharedQueue",
            uses: [
                "CEpoll", "ConvoyDatabase", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization",
                "ConvoySupport", "ConvoyTransport", "ConvoyUploads",
            ]),
        // The store of the queue on PostgreSQL. Empty without the trait `Postgres`.
        module("ConvoyPostgres", uses: ["CEpoll", "ConvoySharedQueue", "ConvoySupport", with("Postgres", "CPostgres")]),
        // Not part of the umbrella, because it requires libyaml.
        module(
            "ConvoyWorkflow",
            uses: [
                "CXML2", "CYAML", "ConvoyCookies", "ConvoyDatabase", "ConvoyDiagnostics", "ConvoyDownloads",
                "ConvoyObjectStorage", "ConvoyOperations", "ConvoyRealtime", "ConvoySecurity", "ConvoySerialization",
                "ConvoySupport",
                "ConvoyTransport",
            ]),
        // Not part of the umbrella, because it requires gdk-pixbuf, libjpeg and Little CMS.
        module(
            "ConvoyImage",
            uses: [
                "ConvoyCache", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoySupport",
                "ConvoyTransport", with("Images", "CGdkPixbuf"), with("Images", "CJPEG"), with("Images", "CLCMS"),
            ]),
        // Not part of the umbrella, because it requires GTK.
        module(
            "ConvoyGTK",
            uses: [
                "ConvoyDiagnostics", "ConvoyImage", "ConvoyOperations", "ConvoyRealtime", "ConvoySession", "ConvoySupport",
                "ConvoyTransport", with("GTK", "CGTK"),
            ]),
        module(
            "ConvoyWebKit",
            uses: [
                "ConvoyDiagnostics", "ConvoyGTK", "ConvoyOperations", "ConvoySerialization", "ConvoySupport",
                "ConvoyTransport", with("GTK", "CGTK"), with("WebKit", "CWebKit"),
            ]),
        module("ConvoyTestServer", uses: ["CEpoll", "COpenSSL", "ConvoySupport"]),
        .executableTarget(
            name: "ConvoyTool",
            dependencies: [
                "CEpoll", "Convoy", "ConvoyDiagnostics", "ConvoyObjectStorage", "ConvoySharedQueue", "ConvoySupport",
                "ConvoyWorkflow",
                with("Postgres", "ConvoyPostgres"),
            ],
            swiftSettings: swiftSettings),

        // Example programs, which the tests run.
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
        // Without the trait `GTK`, it prints a message and exits.
        .executableTarget(
            name: "Gallery",
            dependencies: [
                "Convoy", "ConvoyGTK", "ConvoyImage", with("GTK", "CGTK"),
            ],
            path: "Sources/Examples/Gallery", swiftSettings: swiftSettings),

        // Encodes bodies for the tests of the decoder. Part of the same Debian package as CBrotli.
        library(
            "CBrotliEncoder", "libbrotlienc", [.apt(["libbrotli-dev"]), .yum(["brotli-devel"]), .brew(["brotli"])],
            in: "Tests/Support"),
        .target(
            name: "ConvoyTestSupport", dependencies: ["CCurl", "CEpoll", "ConvoySupport"],
            path: "Tests/Support/ConvoyTestSupport", swiftSettings: swiftSettings),
        // The events that monitors must receive, for the tests of all kinds of operations.
        .target(
            name: "ConvoyStorySupport", dependencies: ["ConvoyOperations", "ConvoyTestSupport", "ConvoyTransport"],
            path: "Tests/Support/ConvoyStorySupport", swiftSettings: swiftSettings),
        // The second process in the tests of stores.
        program(
            "StoreProgram",
            uses: [
                "ConvoyCookies", "ConvoyCache", "ConvoyDownloads", "ConvoyOperations", "ConvoySharedQueue", "ConvoySupport",
                "ConvoyTestSupport", "ConvoyUploads", with("Postgres", "ConvoyPostgres"),
            ]),
        // All parsers of external bytes, for fuzzing.
        program(
            "FuzzProgram",
            uses: [
                "ConvoyCache", "ConvoyCookies", "ConvoyDatabase", "ConvoyDownloads", "ConvoyImage", "ConvoyObjectStorage",
                "ConvoyOperations", "ConvoyReachability", "ConvoyRealtime", "ConvoySecurity", "ConvoySerialization",
                "ConvoySharedQueue", "ConvoySupport", "ConvoyTransport", "ConvoyUploads", "ConvoyWorkflow",
            ], exclude: ["Corpora"]),
        tests(
            "ModelTests", in: "Methods",
            of: [
                "ConvoyOperations", "ConvoySharedQueue", "ConvoyTransport",
            ], exclude: ["Models"]),
        // Typical work of a program, for the tests that make its calls fail.
        program(
            "TortureProgram",
            uses: [
                "ConvoyCache", "ConvoyCookies", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity",
                "ConvoySerialization", "ConvoySharedQueue", "ConvoySupport", "ConvoyUploads",
                with("Postgres", "ConvoyPostgres"),
            ]),
        tests(
            "TortureTests", in: "Methods", of: ["ConvoyTool", "TortureProgram"], exclude: ["calls.h", "failing_calls.c"]),
        tests("FuzzTests", in: "Methods", of: ["ConvoyTool", "FuzzProgram"]),
        // Widgets on a separate display, for the tests of widgets. Without the trait `GTK`, it prints a message and exits.
        program(
            "WidgetProgram",
            uses: [
                "ConvoyCookies", "ConvoyDiagnostics", "ConvoyGTK", "ConvoyWebKit", "ConvoyImage", "ConvoyOperations",
                "ConvoyRealtime", "ConvoySerialization", "ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport",
                with("GTK", "CGTK"), with("WebKit", "CWebKit"),
            ]),
        tests("ConvoyTestServerTests"),
        tests("ConvoyTestSupportTests", in: "Support"),
        tests("ConvoySupportTests"),
        tests("ConvoySecurityTests", of: ["ConvoySecurity", "ConvoyOperations"]),
        tests("ConvoyDatabaseTests", of: ["ConvoyDatabase"]),
        tests("ConvoyCookiesTests", of: ["ConvoyCookies", "ConvoyDatabase", "StoreProgram"]),
        tests("ConvoyCacheTests", of: ["ConvoyCache", "ConvoyDatabase", "StoreProgram"]),
        tests("ConvoySerializationTests", of: ["ConvoySerialization", "CZlib"]),
        tests(
            "ConvoyTransportTests", of: ["ConvoyTransport", "ConvoySecurity", "CCurl", "CZlib", "CZstd", "CBrotliEncoder"]),
        tests(
            "ConvoyOperationsTests",
            of: [
                "ConvoyOperations", "ConvoyCookies", "ConvoyCache", "ConvoyDiagnostics", "ConvoyStorySupport",
            ], exclude: ["Retry/decisions.txt"]),
        // The engine on simulated threads, in all orders.
        tests(
            "SimulationTests", in: "Methods",
            of: [
                "ConvoyDownloads", "ConvoyOperations", "ConvoyRealtime", "ConvoySerialization", "ConvoyTransport",
            ]),
        tests(
            "ConvoyDownloadsTests",
            of: [
                "ConvoyStorySupport", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoyTransport",
                "StoreProgram",
            ]),
        tests(
            "ConvoySessionTests",
            of: [
                "ConvoyStorySupport", "ConvoySession", "ConvoyCache", "ConvoyCookies", "ConvoyDiagnostics",
                "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoyTransport",
            ]),
        tests(
            "ConvoyRealtimeTests",
            of: [
                "ConvoyRealtime", "ConvoyOperations", "ConvoyReachability", "ConvoySerialization", "ConvoySession",
                "ConvoyStorySupport", "ConvoyTransport",
            ]),
        tests(
            "ConvoyObjectStorageTests",
            of: [
                "ConvoyObjectStorage", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization",
                "ConvoyTransport", "ConvoyUploads",
            ]),
        tests(
            "ConvoyReachabilityTests", of: ["ConvoyDownloads", "ConvoyOperations", "ConvoyReachability", "ConvoySession"]),
        tests("ConvoyRoundTripTests", in: "Methods", of: ["ConvoyOperations", "ConvoyTransport"]),
        // Checks that each public async function returns to its caller's executor.
        tests(
            "ExecutorTests", in: "Methods",
            of: [
                "Convoy", "ConvoyImage", "ConvoyObjectStorage", "ConvoySharedQueue", "ConvoyWorkflow",
            ]),
        // Recorded responses with injected faults.
        tests(
            "NetworkFaultTests", in: "Methods",
            of: [
                "CEpoll", "COpenSSL", "ConvoyOperations", "ConvoySerialization", "ConvoyTransport",
            ], exclude: ["Recordings"]),
        tests(
            "ConvoyImageTests",
            of: [
                "ConvoyImage", "ConvoyOperations", with("Images", "CGdkPixbuf"), with("Images", "CLCMS"),
            ]),
        tests(
            "ConvoyGTKTests",
            of: [
                "ConvoyGTK", "ConvoyImage", "ConvoyOperations", "ConvoyRealtime", "Gallery", "WidgetProgram",
                with("GTK", "CGTK"),
            ], exclude: ["Screenshots"]),
        tests(
            "ConvoyWebKitTests",
            of: [
                "ConvoyWebKit", "ConvoyOperations", "WidgetProgram", with("GTK", "CGTK"), with("WebKit", "CWebKit"),
            ]),
        tests(
            "ConvoyUploadsTests",
            of: [
                "ConvoyUploads", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySharedQueue",
                "ConvoyTransport", "StoreProgram",
            ]),
        tests(
            "ConvoySharedQueueTests",
            of: [
                "ConvoySharedQueue", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoyUploads",
                "StoreProgram",
                with("Postgres", "ConvoyPostgres"),
            ], exclude: ["Local/EarlierQueue.sql"]),
        tests(
            "ConvoyWorkflowTests",
            of: ["ConvoyWorkflow", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoyTransport"]),
        tests(
            "ConvoyToolTests",
            of: [
                "ConvoyTool", "Convoy", "ConvoyMigration", "ConvoySharedQueue", "ConvoyWorkflow",
                with("Postgres", "ConvoyPostgres"),
            ]),
        tests("ExampleTests", of: ["Convoy", "ExampleReadme", "ExampleSync", "ExampleService", "ExamplePort"]),
    ]
)

// The benchmarks, which are a separate package, also use the helpers of the tests. Other packages cannot see this product.
if !Context.packageDirectory.contains("/checkouts/") {
    package.products.append(.library(name: "ConvoyTestSupport", targets: ["ConvoyTestSupport"]))
}

// The test targets to build, separated by commas; all by default. `Tests/quick` builds those of one module.
if let chosen = Context.environment["CONVOY_TESTS"]?.split(separator: ",").map(String.init) {
    package.targets.removeAll { $0.isTest && !chosen.contains($0.name) }
}
